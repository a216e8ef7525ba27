"""What a session offers on clusters, prices and stock; services know no handle of either.

A service gets the context and the services that it needs in its constructor. `Services` makes all
of them in order, so it is the place to start reading. Services may import `nbprov.machines` and
what is below; `nbprov.api.cluster` and `nbprov.api.launching` import them, never the other way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nbprov.api.context import Context
from nbprov.api.reports.market_report import MarketReader
from nbprov.api.reports.spending import BillReader

from .clouds import CloudService
from .cluster_names import NameService
from .consoles import ConsoleService
from .engines.compute_engines import ComputeEngineService
from .engines.engine_clients import EngineClientService
from .folder_sync import FolderService
from .job_archive import JobArchiveService
from .jobs import JobService
from .machine_loads import LoadService
from .outputs import OutputService
from .prices import PriceService
from .remote import RemoteService
from .setups import SetupService
from .ssh import SshService
from .stock import StockService
from .stock_watch import StockWatchService
from .teardown import TeardownHooks, TeardownService
from .tunnels import TunnelService
from .views import ViewService

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine


class Services:
    """The services of one session.

    Parameters
    ----------
    renamed
        As for `NameService`.
    """

    def __init__(self, context: Context, renamed: Callable[[str, str, str], None]) -> None:
        self.clouds = CloudService(context)
        self.stock = StockService(context, self.clouds)
        self.prices = PriceService(context, self.clouds, self.stock)
        self.watches = StockWatchService(context, self.clouds, self.prices, self.stock)
        self.market = MarketReader(context, self.stock)
        self.bills = BillReader(context)
        self.names = NameService(context, renamed)
        self.outputs = OutputService(context)
        self.loads = LoadService(context)
        self.consoles = ConsoleService(context)
        self.views = ViewService(context, self.outputs, self.loads)
        self.archive = JobArchiveService(context)
        self.ssh = SshService(context)
        self.tunnels = TunnelService(context)
        self.engines = ComputeEngineService(context, self.tunnels)
        self.setups = SetupService(context, self.engines, self.archive)
        self.remote = RemoteService(context, self.setups, self.engines)
        self.jobs = JobService(context, self.archive, self.remote)
        self.folders = FolderService(context, self.remote)
        self.clients = EngineClientService(context, self.engines, self.tunnels, self.remote)
        self.hooks = TeardownHooks(context, self.outputs, self.archive)
        self.teardown = TeardownService(
            context, self.hooks, self.outputs, self.archive, self.tunnels, self.engines
        )

    def begin(self, engine: Engine) -> None:
        """Begin what goes on in the background of an engine that was just opened."""
        self.ssh.begin(engine)
        self.archive.begin(engine)
