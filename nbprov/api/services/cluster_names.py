"""What a session has of names, of the past, and of what may be bought later: rename, history, watch_stock."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from nbprov.api.errors import readably
from nbprov.api.history import History, history
from nbprov.model.clock import Seconds
from nbprov.model.errors import UsageError
from nbprov.runtime.waiting import wait_for

from .stock_watch import WATCH_SECONDS, StockWatch
from .tunnels import Reaching

if TYPE_CHECKING:
    from nbprov.api.cluster import Cluster
    from nbprov.api.session import Session

_NAME = re.compile(r"[A-Za-z0-9]+(?:[._-]{1,2}[A-Za-z0-9]+)*")


def check_name(name: str) -> None:
    """Refuse what cannot be a cluster's name; an empty one is none, and passes.

    Raises
    ------
    UsageError
        If it is one of a wrong form.
    """
    if name and not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be a cluster's name",
            hint="use letters, digits and . _ -; begin and end with a letter or digit",
            code="cluster.name",
        )


class Keeping(Reaching):
    """Verbs on names, on the past and on the stock."""

    def rename(self, name: str, new: str) -> Cluster:
        """Give a cluster another name; its handle. Its tunnels, its host in the ssh config file and its handles follow.

        What bears the old name at its cloud keeps it. A `%%provision` cell finds it by the new name from then on.

        Raises
        ------
        NameTaken
            If a live cluster or launch has the new name.
        NotFound
            If there is no such cluster, or it is being launched or ended.
        ClusterBusy
            If it is being stopped, started or ended.
        """
        from nbprov.api.cluster import Cluster

        engine, row = self.engine, self.engine.cluster(name)
        check_name(new or "?")
        if new != name:
            wait_for(engine.thread.call(readably(engine.lifecycle.rename(row, new))))
            self.renamed(row.run_id, name, new)
        return Cluster(cast("Session", self), new, cluster_id=row.cluster_id)

    def renamed(self, run_id: str, name: str, new: str) -> None:
        """A run of this session, if it is one, has another name."""
        if name in self.runs and self.runs[name].run_id == run_id:
            self.runs[new] = self.runs.pop(name)

    def watch_stock(
        self,
        /,
        accelerator: str = "",
        *,
        nodes: int = 1,
        seconds: Seconds = WATCH_SECONDS,
        **conditions: Any,
    ) -> StockWatch:
        """Ask clouds again and again, in the background, until one says that it has this; `wait()` or `await` what is returned.

        Nothing is launched; a run with `wait` in its spec waits for stock and takes it.

        Parameters
        ----------
        accelerator, conditions
            As for `prices`: `"H100:8"`, `max_hourly=30_000_000`, `market="spot"`.
        nodes
            So many machines at once.

        Raises
        ------
        UsageError
            If no cloud that is set up tells the stock of this.
        """
        return StockWatch(
            cast("Session", self),
            self.prices(accelerator, fuzzy=True, **conditions),
            nodes=nodes,
            seconds=seconds,
        )

    def history(self, name: str = "", *, limit: int | None = None) -> History:
        """Every launch (of this name), newest first: state, times, cost, attempts, why it ended. `to_frame()` gives a pandas DataFrame."""
        return history(self.engine.ledger, self.engine.clock.now(), name, limit)
