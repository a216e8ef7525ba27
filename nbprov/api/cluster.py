"""The handle of a live cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nbprov.model.clock import Seconds
from nbprov.model.clusters import ClusterState, ClusterView
from nbprov.runtime.waiting import Waitable

if TYPE_CHECKING:
    from nbprov.machines.cells import CellResult
    from nbprov.machines.jobs import Job
    from nbprov.remote.agent.values import AgentStatus

    from .session import Session


class Done(Waitable[None]):
    """Something that is under way and ends in nothing: `wait()` or `await` it."""


class Cluster:
    """A cluster by its name. Holds no connection of its own; every call finds the cluster as it is now.

    Get one with `nbprov.cluster("dev")`, or as the result of a run.
    """

    def __init__(self, session: Session, name: str) -> None:
        self._session = session
        self.name = name

    def view(self) -> ClusterView:
        """State, place, machines, guards and cost so far, from the ledger."""
        return self._session.cluster_view(self._session.engine.cluster(self.name))

    @property
    def state(self) -> ClusterState:
        """Its state as last seen."""
        return self._session.engine.cluster(self.name).state

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
        from nbprov.machines.cells import python_cell

        return self._session.wait_remote(self.name, lambda live: python_cell(live, code, nodes=nodes, on_output=on_output), timeout)

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
        """
        from nbprov.machines.cells import bash_cell

        return self._session.wait_remote(self.name, lambda live: bash_cell(live, command, nodes=nodes, on_output=on_output), timeout)

    def jobs(self) -> list[Job]:
        """The jobs of its head: setup, run and those submitted."""
        from nbprov.machines.jobs import list_jobs

        return self._session.wait_remote(self.name, list_jobs)

    def logs(self, job: str = "run", *, last: int | None = None) -> str:
        """Output of a job so far. `job` is an id or a kind (`setup`, `run`)."""
        from nbprov.machines.jobs import job_log

        return self._session.wait_remote(self.name, lambda live: job_log(live, job, last=last))

    def wait_job(self, job: str = "run", timeout: Seconds | None = None) -> int:
        """Block until a job ends; returns its exit code."""
        from nbprov.machines.jobs import wait_job

        return self._session.wait_remote(self.name, lambda live: wait_job(live, job), timeout)

    def cancel_job(self, job: str = "run") -> None:
        """Ask a job to end, then make it."""
        from nbprov.machines.jobs import cancel_job

        self._session.wait_remote(self.name, lambda live: cancel_job(live, job))

    def guards(self) -> AgentStatus:
        """What the guard on the head reports: idle seconds, what it will do and when."""
        from nbprov.machines.guarding import guard_status

        return self._session.wait_remote(self.name, lambda live: guard_status(live, self._session.engine.ledger))

    # ------------------------------------------------------------ its life

    def down(self) -> Done:
        """End it: machines and disks. Returns at once; done when the cloud's list says that nothing is left."""
        engine = self._session.engine
        return Done(engine.thread.call(engine.lifecycle.down(engine.cluster(self.name))))

    def stop(self) -> Done:
        """Stop it and keep its disks, where its cloud can."""
        engine = self._session.engine
        return Done(engine.thread.call(engine.lifecycle.stop(engine.cluster(self.name))))

    def start(self) -> Done:
        """Start it again after a stop."""
        engine = self._session.engine
        return Done(engine.thread.call(engine.lifecycle.start(engine.cluster(self.name))))

    def __repr__(self) -> str:
        return f"<Cluster {self.name}>"
