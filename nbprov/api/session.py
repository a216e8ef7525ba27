"""One session a process: what `nbprov.*` calls, composed of services and launching."""

from __future__ import annotations

import concurrent.futures
import logging
import os
from collections.abc import Callable, Collection, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nbprov.model.blocks import Block
from nbprov.model.clock import Seconds
from nbprov.model.clusters import ClusterView
from nbprov.provisioning.engine_hooks import EngineHooks

from .cluster import Cluster
from .context import Context
from .launching.launch_end import end, end_all
from .launching.node_setup import NodeSetup
from .launching.orphan_sweep import sweep
from .launching.provision_service import ProvisionService, name_of
from .launching.stock_order import StockOrder
from .operation import Operation
from .planner import Planner
from .price_refresh import PriceFiles
from .reports import costs, history
from .reports.costs import AttemptRecord, Cost
from .reports.history import History
from .run import Run
from .services import Services
from .services.adopted_launches import Say, say_nothing
from .steps import Steps, blocking, steps_of

if TYPE_CHECKING:
    from nbprov.catalog.refresh import Refreshed
    from nbprov.machines.jobs.jobs import Job
    from nbprov.provisioning.engine import Engine
    from nbprov.provisioning.live_cluster import LiveCluster

T = TypeVar("T")

log = logging.getLogger("nbprov.api")

DEMO_VARIABLE = "NBPROV_DEMO"
"""Set to 1, the simulated `local` cloud enters every plan."""

CLOSE_SECONDS: Seconds = 1.0
"""How long the end of a session waits for its tunnels: closing them takes milliseconds, and a
kernel is killed after about 2.5 s."""


class Session:
    """The verbs of nbprov. `nbprov.plan` and so on are those of the process's one session.

    Parameters
    ----------
    home
        Folder of the ledger, keys and logs; the user's own by default.
    demo
        Whether the simulated `local` cloud enters every plan, not only those that name it.

    Attributes
    ----------
    runs
        The runs of this session, by the names of their clusters.
    catalogue
        The price files of this user, a `PriceFiles`.
    """

    name_of = staticmethod(name_of)

    def __init__(self, home: Path | None = None, *, demo: bool | None = None) -> None:
        self.runs: dict[str, Run] = {}
        self.context = Context(
            home,
            demo=os.environ.get(DEMO_VARIABLE) == "1" if demo is None else demo,
            runs=self.runs,
            hooks=self._hooks,
            opened=lambda engine: services.begin(engine),
        )
        services = self.services = Services(self.context, self._renamed)
        planner = self.planner = Planner(
            self.context, services.clouds, services.prices, services.stock
        )
        self.catalogue = PriceFiles()
        order = self.stock_order = StockOrder(self.context, planner, services.stock, self.runs)
        self.provision_service = ProvisionService(self.context, services, planner, order, self.runs)

        self.provision = blocking(self.provision_service.provision)
        self.provision_again = blocking(self.provision_service.again)
        self.parse = planner.parse
        self.plan = blocking(planner.plan)
        self.planned = blocking(planner.planned)
        self.relax = blocking(planner.relax)
        self.terms = planner.terms
        self.prices = blocking(services.prices.prices)
        self.catalog = blocking(services.prices.catalog)
        self.watch_stock = blocking(services.watches.watch_stock)
        self.ask_stock = blocking(services.stock.ask)
        self.check = blocking(services.clouds.check)
        self.why_not = blocking(services.clouds.why_not)
        self.without_adapter = services.clouds.without_adapter
        self.all_jobs = blocking(services.jobs.all_jobs)
        self.jobs_of = blocking(services.jobs.jobs)
        self.log_of = blocking(services.jobs.log_of)
        self.tunnels = services.tunnels.tunnels
        self.close_tunnels = services.tunnels.close_tunnels
        self.write_ssh_config = services.ssh.write_config

    @property
    def engine(self) -> Engine:
        """The engine; its thread and ledger are opened on first use."""
        return self.context.engine

    @property
    def demo(self) -> bool:
        """Whether the simulated `local` cloud enters every plan."""
        return self.context.demo

    @demo.setter
    def demo(self, demo: bool) -> None:
        self.context.demo = demo

    def _hooks(self) -> EngineHooks:
        return EngineHooks(
            replan=self.planner.replan,
            take_outputs=self.services.outputs.for_guard,
            teardown=self.services.hooks,
            node_setup=NodeSetup(self.context, self.services.setups),
        )

    def _renamed(self, run_id: str, name: str, new: str) -> None:
        if name in self.runs and self.runs[name].run_id == run_id:
            self.runs[new] = self.runs.pop(name)

    def close(self) -> None:
        """Close the tunnels, give up leases and stop the engine's thread. Machines go on."""
        if not self.context.is_open:
            return
        tunnels, file = self.services.tunnels.made_tunnels(), self.services.ssh.made_file()

        async def leave() -> None:
            if tunnels is not None:
                tunnels.close_all()
            if file is not None:
                file.leave()

        try:
            self.engine.thread.call(leave()).result(CLOSE_SECONDS)
        except Exception as error:
            log.warning("tunnels were not closed in time (%r); they end with this process", error)
        self.context.close()

    # ------------------------------------------------------------ clusters

    def cluster(self, name: str, *, cluster_id: str = "") -> Cluster:
        """The handle of the live cluster of this name.

        Parameters
        ----------
        name
            The name of the cluster.
        cluster_id
            The cluster with this id, whatever has the name now; its handle may be of no use.

        Raises
        ------
        NotFound
            If there is none, naming those there are.

        Examples
        --------
        >>> dev = nbprov.cluster("dev")  # doctest: +SKIP
        >>> dev.cell("1 + 1").value  # doctest: +SKIP
        '2'
        """
        cluster_id = cluster_id or self.engine.cluster(name).cluster_id
        return Cluster(self.context, self.services, cluster_id, name)

    def clusters(self, *, ended: bool = False, kept: Collection[str] = ()) -> list[ClusterView]:
        """Everything that may be on the bill, from the ledger.

        These are live clusters, launches under way (`view.is_launch`), those that wait for stock
        included, and machines that are being ended.

        Parameters
        ----------
        ended
            Whether clusters that have ended are listed too.
        kept
            Ids of clusters and launches that are listed however they ended.
        """
        return self.services.views.views(ended=ended, kept=kept)

    def down(self, name: str, *, cluster_id: str = "", outputs: bool = True) -> Operation:
        """End the cluster of this name, or cancel its launch. Returns at once.

        The operation is done when the cloud's list says that nothing is left.

        Parameters
        ----------
        name
            The name of the cluster, or of the launch.
        cluster_id
            Only the cluster, or the launch, with this id; any by default.
        outputs
            As for `Cluster.down`.

        Raises
        ------
        NotFound
            If there is neither.
        OtherCluster
            If another cluster has this name now.
        """
        return end(self.context, self.services, name, cluster_id=cluster_id, outputs=outputs)

    def down_all(self, *, outputs: bool = True) -> dict[str, Operation]:
        """End every live cluster, and cancel every launch, also those that wait for stock.

        Returns at once.

        Parameters
        ----------
        outputs
            As for `Cluster.down`.

        Returns
        -------
        dict
            By name, an operation that is done when the cloud's list says that nothing is left.
        """
        return end_all(self.context, self.services, outputs=outputs)

    @blocking
    def rename(self, name: str, new: str) -> Steps[Cluster]:
        """Give a cluster another name; returns its handle.

        Its tunnels, its host in the ssh config file and its handles follow. What bears the old
        name at its cloud keeps it. A `%%provision` cell finds it by the new name from then on.

        Parameters
        ----------
        name
            Its name now.
        new
            Its name from then on.

        Raises
        ------
        NameTaken
            If a live cluster or launch has the new name.
        NotFound
            If there is no such cluster, or it is being launched or ended.
        ClusterBusy
            If it is being stopped, started or ended.
        """
        cluster = self.cluster(name)
        return (yield from steps_of(Cluster.rename)(cluster, new))

    @blocking
    def jobs(self, name: str) -> Steps[list[Job]]:
        """The jobs of a cluster, by its name or the id of its run, oldest first.

        Of a cluster that has ended, those that are kept on this computer.
        """
        return self.services.jobs.jobs(self.services.jobs.row_of(name))

    @blocking
    def logs(
        self, name: str, job: str = "run", *, last: int | None = None, node: int = 0
    ) -> Steps[str]:
        """The output of a job of a cluster, ended or not; see `Cluster.logs`.

        `name` is the cluster's, or the id of its run; `job`, `last` and `node` are as there.
        """
        return self.services.jobs.logs(self.services.jobs.row_of(name), job, last=last, node=node)

    @blocking
    def start_remote(
        self,
        name: str,
        work: Callable[[LiveCluster], Coroutine[Any, Any, T]],
        *,
        say: Say = say_nothing,
    ) -> Steps[concurrent.futures.Future[T]]:
        """Begin a coroutine with the live cluster; see `RemoteService.begin`."""
        return self.services.remote.begin(name, work, say=say)

    @blocking
    def wait_remote(
        self,
        name: str,
        work: Callable[[LiveCluster], Coroutine[Any, Any, T]],
        timeout: Seconds | None = None,
        *,
        say: Say = say_nothing,
    ) -> Steps[T]:
        """Run a coroutine with the live cluster; see `RemoteService.call`."""
        return self.services.remote.call(name, work, timeout, say=say)

    # ------------------------------------------------------------ records

    def refresh_prices(
        self, clouds: Sequence[str] | str | None = None, source: str = "auto", force: bool = False
    ) -> Refreshed:
        """Fetch prices of these clouds, or of all but those whose policy is never.

        The next price question and the next plan see them. `PriceFiles.refresh` says what may go
        wrong.

        Parameters
        ----------
        clouds
            Their names, or one name.
        source
            `provider`: the cloud's own list; `hosted`: your mirror, or the v8 files hosted for
            SkyPilot, which are not signed; `auto`: your mirror if you have one, else the cloud.
        force
            Replace files that were edited by hand (a copy is kept), and accept a list with far
            fewer rows than before.

        Examples
        --------
        >>> nbprov.refresh_prices(["gcp", "lambda"])["gcp"].differences.counts()  # doctest: +SKIP
        {'up': 0, 'down': 12, 'new': 3, 'gone': 0}
        """
        return self.catalogue.refresh(clouds, source=source, force=force)

    def blocks(self) -> list[Block]:
        """What is blocked now, why, and until when."""
        return self.engine.ledger.blocks.standing()

    def clear_blocks(self) -> int:
        """Forget all blocks; launches that wait for stock try again at once.

        Returns
        -------
        int
            How many there were.
        """
        return self.engine.clear_blocks()

    def costs(self) -> list[Cost]:
        """What each run has cost, newest first; failed attempts count."""
        return costs.costs(self.engine.ledger)

    def attempts(self, name: str = "") -> list[AttemptRecord]:
        """The attempts of the latest run, in the order in which they were begun.

        Parameters
        ----------
        name
            The latest run of this name; by default the latest of all.

        Examples
        --------
        >>> for attempt in nbprov.attempts("dev"):  # doctest: +SKIP
        ...     print(attempt.candidate.offer.place, attempt.state, attempt.reason)
        aws/us-east-1/use1-az1 refused out of stock: no A100 left
        aws/us-east-1/use1-az2 ready
        """
        return costs.attempts(self.engine.ledger, name)

    def history(self, name: str = "", *, limit: int | None = None) -> History:
        """Every launch, newest first, with its times, its cost and why it ended.

        Parameters
        ----------
        name
            Only launches of this name.
        limit
            At most so many, the newest.

        Examples
        --------
        >>> nbprov.history(limit=20).to_frame()  # doctest: +SKIP
        """
        return history.history(self.engine.ledger, self.engine.clock.now(), name, limit)

    @blocking
    def sweep(self, *, end: bool = False) -> Steps[list[str]]:
        """End machines of ours that the ledger does not know, on every cloud that is set up.

        Machines that are younger than ten minutes may be another kernel's, on their way into the
        ledger: they are only named, and ended too with `end`. What launches left beside their
        machines (disks, firewall rules) is removed where no cluster needs it any more.

        Parameters
        ----------
        end
            End the young ones, too.

        Returns
        -------
        list of str
            What was found, a line each. A cloud that cannot be listed has a line that says so.
        """
        return sweep(self.context, self.services.clouds, end=end)
