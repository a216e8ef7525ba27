"""The handle of a live cluster."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from nbprov.model.clock import Seconds
from nbprov.model.clusters import ClusterState, ClusterView
from nbprov.model.errors import Interrupted, NotFound
from nbprov.provisioning.supervision.desired_state import ASKED, ASKED_BARE, TO_STOP
from nbprov.runtime.waiting import Waitable, wait_for

from .errors import OtherCluster, readably
from .giving import Giving
from .services.compute_engines import EngineClients
from .services.folder_sync import Carrying
from .services.job_handle import Working
from .services.tunnels import Reachable
from .spec_inputs import Ask, nobody

if TYPE_CHECKING:
    from nbprov.machines.cells.cells import CellResult
    from nbprov.model.spec import Spec
    from nbprov.provisioning.ledger import ClusterRow
    from nbprov.provisioning.live_cluster import LiveCluster
    from nbprov.remote.agent.messages import AgentStatus

    from .launching.cluster_reuse import SettingUp
    from .launching.cluster_start import Starting
    from .session import Session

T = TypeVar("T")


class Done(Waitable[None]):
    """Something that is under way and ends in nothing: `wait()` or `await` it.

    Parameters
    ----------
    what
        What goes on, for the line that an interrupted wait leaves: `ending dev`.
    note
        What a person should know before waiting for it.
    """

    def __init__(self, future: concurrent.futures.Future[None], what: str, note: str = "") -> None:
        super().__init__(future)
        self.what = what
        self.note = note

    def wait(self, timeout: Seconds | None = None) -> None:
        """Block until it ends.

        Raises
        ------
        CloudTrouble
            If the cloud refused, with the cause.
        Interrupted
            On Ctrl-C; what was asked for goes on.
        """
        try:
            super().wait(timeout)
        except KeyboardInterrupt:
            raise Interrupted(
                f"{self.what} goes on in the background; %clusters shows how far it is"
            ) from None

    def when_done(self, tell: Callable[[BaseException | None], None]) -> None:
        """Call a function at the end, with the error should it end in one; on the engine's thread."""

        def ended(future: concurrent.futures.Future[None]) -> None:
            if not future.cancelled():
                tell(future.exception())

        self._future.add_done_callback(ended)

    def when_failed(self, tell: Callable[[BaseException], None]) -> None:
        """Call a function with the error, should it end in one; on the engine's thread."""
        self.when_done(lambda error: None if error is None else tell(error))

    def __repr__(self) -> str:
        return f"<{self.what}: {'done' if self.done else 'under way'}>"


class Cluster(Reachable, Carrying, Working, Giving, EngineClients):
    """One cluster. Holds no connection of its own; every call finds the cluster as it is now.

    Get one with `nbprov.cluster("dev")`, or as the result of a run. Once it has ended the handle is of no use: it does not act on a
    later cluster of the same name.

    Attributes
    ----------
    cluster_id
        The id in the ledger.
    was_started
        It was stopped, and the call that gave this handle started it again.
    remarks
        What the call that gave this handle did to it, or left alone: a line each.
    setting_up
        Files, setup and run that were never done, and are being done now; None where there is nothing to do.
    """

    def __init__(self, session: Session, name: str, *, cluster_id: str = "") -> None:
        self._session = session
        self.name = name
        self.cluster_id = cluster_id or session.engine.cluster(name).cluster_id
        self.was_started = False
        self.remarks: tuple[str, ...] = ()
        self.setting_up: SettingUp | None = None

    def _row(self) -> ClusterRow:
        # By its id: somebody, perhaps in another kernel, may have given it another name.
        row = self._session.engine.ledger.clusters.by_id(self.cluster_id)
        if row is None or row.state is ClusterState.ENDED:
            self._session.engine.cluster(self.name)
            raise OtherCluster(
                f"this {self.name} has ended; another cluster has its name now",
                hint=f"nbprov.cluster({self.name!r}) is that one",
            )
        self.name = row.name
        return row

    def _call(
        self, work: Callable[[LiveCluster], Coroutine[Any, Any, T]], timeout: Seconds | None = None
    ) -> T:
        self._row()
        return self._session.wait_remote(self.name, work, timeout)

    def view(self) -> ClusterView:
        """State, place, machines, guards and cost so far, from the ledger."""
        return self._session.cluster_view(self._row())

    @property
    def state(self) -> ClusterState:
        """Its state as last seen."""
        return self._row().state

    # ------------------------------------------------------------ using it

    def cell(
        self,
        code: str,
        *,
        on_output: Callable[[dict[str, Any]], None] | None = None,
        nodes: str = "head",
        timeout: Seconds | None = None,
    ) -> CellResult:
        """Run Python in a kernel that lives on the machine; variables live on between calls. Blocks.

        Parameters
        ----------
        code
            The cell.
        on_output
            Called (on the engine thread) with each Jupyter output message, `{"msg_type": …, "content": …}`.
        nodes
            `head`, `all`, or the number of a node.

        Raises
        ------
        RemoteError
            If the code raised, with the remote traceback.
        Interrupted
            On Ctrl-C; the remote cell is interrupted too.
        """
        from nbprov.machines.cells.cells import python_cell

        return self._call(
            lambda live: python_cell(live, code, nodes=nodes, on_output=on_output), timeout
        )

    def bash(
        self,
        command: str,
        *,
        on_output: Callable[[dict[str, Any]], None] | None = None,
        nodes: str = "head",
        timeout: Seconds | None = None,
    ) -> CellResult:
        """Run a shell script on the machine. Blocks.

        Raises
        ------
        RemoteError
            If it ends with a code other than 0.
        Interrupted
            On Ctrl-C; the script is ended too.
        """
        from nbprov.machines.cells.cells import bash_cell

        return self._call(
            lambda live: bash_cell(live, command, nodes=nodes, on_output=on_output), timeout
        )

    def set_up(self, *, ask: Ask = nobody) -> SettingUp:
        """Set it up again: files, Python and setup; run only where it was never started. Returns at once; `wait()` sees it through.

        Raises
        ------
        UsageError
            If it does not run, or there is nothing to do.
        """
        from .launching.cluster_reuse import set_up_again

        return set_up_again(self._session, self._row(), ask)

    def guards(self) -> AgentStatus:
        """What the guard on the head reports: idle seconds, what it will do and when."""
        from nbprov.machines.guard_status import guard_status

        return self._call(lambda live: guard_status(live, self._session.engine.ledger))

    # ------------------------------------------------------------ its life

    def down(self, *, outputs: bool = True) -> Done:
        """End it: machines and disks. Returns at once; done when the cloud's list says that nothing is left.

        Parameters
        ----------
        outputs
            Pull the spec's `outputs` first. Where some cannot be brought though the machine answers, it is kept, under its guards, and
            waiting raises `OutputsNotPulled`; a machine that does not answer for two minutes is ended without them.
        """
        row, lifecycle = self._row(), self._session.engine.lifecycle
        asked = lifecycle.ask(row, ASKED if outputs else ASKED_BARE, "you ended it")
        return self._begin(
            row,
            self._session.takings.then_down(row, lifecycle.down(row), outputs=outputs, asked=asked),
            "ending",
        )

    def forget(self) -> str:
        """Take it for ended though its cloud never confirmed it, where `down` was asked for and its account is out of reach for good.

        Returns
        -------
        str
            What to look for at the provider: the machine may be there, and billed.

        Raises
        ------
        CannotForget
            If it is not being ended, or its cloud lists machines of it.
        """
        engine = self._session.engine
        return wait_for(engine.thread.call(readably(engine.lifecycle.forget(self._row()))))

    def stop(self) -> Done:
        """Stop it and keep its disks, where its cloud can. Returns at once. Its outputs are pulled first, as far as they come in ten minutes."""
        row, lifecycle = self._row(), self._session.engine.lifecycle
        asked = lifecycle.can_stop(row) and lifecycle.ask(row, TO_STOP, "you stopped it")
        return self._begin(
            row, self._session.takings.then_stop(row, lifecycle.stop(row), asked=asked), "stopping"
        )

    def start(
        self, *, spec: Spec | None = None, agreed: bool = False, wait: Seconds = 0.0
    ) -> Starting:
        """Start it again after a stop, where its disk is. Returns at once.

        Parameters
        ----------
        spec
            Its `max_price` and guards hold from now on; by default those of the launch do.
        agreed
            Agree to what it costs now, up to `max_price`; otherwise it stays stopped where that is more than Launch agreed to.
        wait
            Seconds for which it is tried again while its place has no room for it. It is never started anywhere else: a disk cannot move.
        """
        from .launching.cluster_start import Starting

        row = self._row()
        self._session.engine.lifecycle.take_back(row)
        return Starting(self._session, row, spec, agreed, wait)

    def restored(self) -> list[str]:
        """What its last start brought back and what it did not, a line each. Blocks for an answer of the machine."""
        from .launching.cluster_start import restored_lines

        return restored_lines(self)

    def rename(self, name: str) -> Cluster:
        """Give it another name; see `Session.rename`. This handle follows, in other notebooks too."""
        self._session.rename(self._row().name, name)
        self._row()
        return self

    def _begin(self, row: ClusterRow, work: Coroutine[Any, Any, None], doing: str) -> Done:
        self._session.forget_clients(self.cluster_id)
        work = self._session.with_tunnels(self.cluster_id, self._session.with_logs_kept(row, work))
        return Done(self._session.engine.thread.call(readably(work)), f"{doing} {self.name}")

    def __repr__(self) -> str:
        try:
            return f"<Cluster {self.name}: {self.state.value}>"
        except (NotFound, OtherCluster):
            return f"<Cluster {self.name}: ended>"
