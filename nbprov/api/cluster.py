"""The handle of a cluster."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from nbprov.model.clock import Seconds
from nbprov.model.clusters import ClusterState, ClusterView
from nbprov.model.errors import NotFound
from nbprov.runtime.waiting import wait_for

from .context import Context
from .errors import OtherCluster, with_readable_errors
from .launching.cluster_start import ClusterStart, restored_lines, runs_now
from .operation import Operation
from .services import Services
from .services.engines.engine_clients import EngineClientService
from .services.folder_sync import FolderService
from .services.jobs import JobService
from .services.outputs import OutputService
from .services.setups import ClusterSetup
from .services.tunnels import TunnelService
from .spec_inputs import Ask, ask_nobody
from .steps import Steps, blocking, public_signature

if TYPE_CHECKING:
    from nbprov.machines.cells.cells import CellResult
    from nbprov.model.spec import Spec
    from nbprov.provisioning.ledger import ClusterRow
    from nbprov.provisioning.live_cluster import LiveCluster
    from nbprov.remote.agent.messages import AgentStatus

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


def _method(
    verb: Callable[Concatenate[S, ClusterRow, P], Steps[T]],
    service: Callable[[Services], S],
    *,
    ended: bool = False,
) -> Callable[Concatenate[Cluster, P], T]:
    """A method of the handle that calls a verb of a service for its cluster.

    Parameters
    ----------
    ended
        Whether it works on a cluster that has ended, too.
    """

    def steps(cluster: Cluster, /, *args: P.args, **kwargs: P.kwargs) -> Steps[T]:
        row = cluster._last_row() if ended else cluster._row()
        return (yield from verb(service(cluster._services), row, *args, **kwargs))

    functools.update_wrapper(steps, verb)
    method = blocking(steps)
    vars(method)["__signature__"] = _without_row(public_signature(verb))
    return method


def _without_row(signature: inspect.Signature) -> inspect.Signature:
    own, _, *others = signature.parameters.values()
    return signature.replace(parameters=[own, *others])


class Cluster:
    """One cluster. It holds no connection; every call finds the cluster as it is now.

    Get one with `nbprov.cluster("dev")`, or as the result of a run. Once the cluster has ended the
    handle is of no use: it does not act on a later cluster of the same name.

    Attributes
    ----------
    cluster_id
        The id in the ledger.
    name
        The name of the cluster when it was last looked at.
    was_started
        Whether the call that gave this handle started the cluster again.
    remarks
        What the call that gave this handle did to the cluster, or left alone: a line each.
    setting_up
        Files, setup and run that were never done, and are being done now; None where there is
        nothing to do.
    """

    def __init__(
        self, context: Context, services: Services, cluster_id: str, name: str = ""
    ) -> None:
        self._context, self._services = context, services
        self.cluster_id = cluster_id
        row = context.engine.ledger.clusters.by_id(cluster_id)
        self.name = name or (row.name if row is not None else "")
        self.was_started = False
        self.remarks: tuple[str, ...] = ()
        self.setting_up: ClusterSetup | None = None

    def _row(self) -> ClusterRow:
        # By its id: somebody, perhaps in another kernel, may have given it another name.
        engine = self._context.engine
        row = engine.ledger.clusters.by_id(self.cluster_id)
        if row is None or row.state is ClusterState.ENDED:
            engine.cluster(self.name)
            raise OtherCluster(
                f"this {self.name} has ended; another cluster has its name now",
                hint=f"nbprov.cluster({self.name!r}) is that one",
            )
        self.name = row.name
        return row

    def _last_row(self) -> ClusterRow:
        """The ledger's row of this very cluster, ended or not."""
        row = self._context.engine.ledger.clusters.by_id(self.cluster_id)
        return row if row is not None else self._services.jobs.row_of(self.cluster_id)

    def _call(
        self, work: Callable[[LiveCluster], Coroutine[Any, Any, T]], timeout: Seconds | None = None
    ) -> Steps[T]:
        return (yield from self._services.remote.call(self._row().name, work, timeout))

    def view(self) -> ClusterView:
        """State, place, machines, guards and cost so far, from the ledger."""
        return self._services.views.view(self._row())

    @property
    def state(self) -> ClusterState:
        """Its state as last seen."""
        return self._row().state

    @blocking
    def runs_now(self) -> Steps[bool]:
        """Whether it runs by its cloud's own list, asked just now."""
        return (yield from runs_now(self._context.engine, self._row()))

    # ------------------------------------------------------------ cells

    @blocking
    def cell(
        self,
        code: str,
        *,
        on_output: Callable[[dict[str, Any]], None] | None = None,
        nodes: str = "head",
        timeout: Seconds | None = None,
    ) -> Steps[CellResult]:
        """Run Python in a kernel on the machine; variables live on between calls. Blocks.

        Parameters
        ----------
        code
            The cell.
        on_output
            Called (on the engine thread) with each Jupyter output message,
            `{"msg_type": …, "content": …}`.
        nodes
            `head`, `all`, or the number of a node.
        timeout
            Seconds after which it is waited for no more.

        Raises
        ------
        RemoteCellError
            If the code raised, with the remote traceback.
        Interrupted
            On Ctrl-C; the remote cell is interrupted too.

        Examples
        --------
        >>> nbprov.cluster("dev").cell("x = 41; x + 1").value  # doctest: +SKIP
        '42'
        """
        from nbprov.machines.cells.cells import python_cell

        return self._call(
            lambda live: python_cell(live, code, nodes=nodes, on_output=on_output), timeout
        )

    @blocking
    def bash(
        self,
        command: str,
        *,
        on_output: Callable[[dict[str, Any]], None] | None = None,
        nodes: str = "head",
        timeout: Seconds | None = None,
    ) -> Steps[CellResult]:
        """Run a shell script on the machine. Blocks.

        Parameters
        ----------
        command
            The script.
        on_output, nodes, timeout
            As for `cell`.

        Raises
        ------
        RemoteCellError
            If it ends with a code other than 0.
        Interrupted
            On Ctrl-C; the script is ended too.

        Examples
        --------
        >>> print(nbprov.cluster("dev").bash("nvidia-smi -L").text)  # doctest: +SKIP
        GPU 0: NVIDIA A100-SXM4-80GB
        """
        from nbprov.machines.cells.cells import bash_cell

        return self._call(
            lambda live: bash_cell(live, command, nodes=nodes, on_output=on_output), timeout
        )

    # ------------------------------------------------------------ jobs

    submit = _method(JobService.submit, lambda services: services.jobs)
    jobs = _method(JobService.jobs, lambda services: services.jobs, ended=True)
    job = _method(JobService.job, lambda services: services.jobs, ended=True)
    logs = _method(JobService.logs, lambda services: services.jobs, ended=True)
    wait_job = _method(JobService.wait_job, lambda services: services.jobs, ended=True)
    cancel_job = _method(JobService.cancel_job, lambda services: services.jobs)
    cancel_jobs = _method(JobService.cancel_jobs, lambda services: services.jobs)

    # ------------------------------------------------------------ files, tunnels, compute engines

    push = _method(FolderService.push, lambda services: services.folders)
    pull = _method(FolderService.pull, lambda services: services.folders)
    sync = _method(FolderService.sync, lambda services: services.folders)
    outputs = _method(OutputService.outputs, lambda services: services.outputs)
    tunnel = _method(TunnelService.tunnel, lambda services: services.tunnels)
    start_engine = _method(EngineClientService.start_engine, lambda services: services.clients)
    dask = _method(EngineClientService.dask, lambda services: services.clients)
    ray = _method(EngineClientService.ray, lambda services: services.clients)

    def ssh_command(self, node: int = 0) -> str:
        """The ssh command that logs in to a machine from a terminal.

        It uses this cluster's key and its pinned host key, and forwards nothing.

        Parameters
        ----------
        node
            The number of the machine; 0 is the head.

        Raises
        ------
        NotFound
            If it does not run now.
        UsageError
            If it has no such node.
        """
        return self._services.ssh.ssh_command(self._row(), node)

    # ------------------------------------------------------------ set-up and guards

    def set_up(self, *, ask: Ask = ask_nobody) -> ClusterSetup:
        """Set it up again: files, Python and setup; run only where it was never started.

        Returns at once; `wait()` blocks until it is set up.

        Parameters
        ----------
        ask
            Asks for the value of an env or secret that is found nowhere: it gets the name and
            whether to hide the value, and returns the value or None. By default nobody is asked.

        Raises
        ------
        UsageError
            If it does not run, or there is nothing to do.
        """
        return self._services.setups.set_up_again(self._row(), ask)

    @blocking
    def guards(self) -> Steps[AgentStatus]:
        """What the guard on the head reports: idle seconds, what it will do and when."""
        from nbprov.machines.guard_status import guard_status

        return self._call(lambda live: guard_status(live, self._context.engine.ledger))

    # ------------------------------------------------------------ stop, start, end

    def down(self, *, outputs: bool = True) -> Operation:
        """End it: machines and disks. Returns at once.

        The operation is done when the cloud's list says that nothing is left.

        Parameters
        ----------
        outputs
            Pull the spec's `outputs` first. Where some cannot be pulled though the machine
            answers, the cluster is kept, under its guards, and waiting raises `OutputsNotPulled`.
            A machine that does not answer for two minutes is ended without them.
        """
        return self._services.teardown.down(self._row(), outputs=outputs)

    def forget(self) -> str:
        """Take it for ended without its cloud's word, and stop asking for it. Blocks.

        For a cluster that cannot be ended because nobody can ask its cloud any more.

        Returns
        -------
        str
            What to look for at the provider: the machine may be there, and billed.

        Raises
        ------
        CannotForget
            If it is not being ended, or its cloud lists machines of it.
        """
        engine = self._context.engine
        return wait_for(
            engine.thread.call(with_readable_errors(engine.lifecycle.forget(self._row())))
        )

    def stop(self) -> Operation:
        """Stop it and keep its disks, where its cloud can. Returns at once.

        Its outputs are pulled first, as far as they come in ten minutes.
        """
        return self._services.teardown.stop(self._row())

    def start(
        self, *, spec: Spec | None = None, agreed: bool = False, wait: Seconds = 0.0
    ) -> ClusterStart:
        """Start it again after a stop, where its disk is. Returns at once.

        Parameters
        ----------
        spec
            Its `max_price` and guards hold from now on; by default those of the launch do.
        agreed
            Agree to what it costs now, up to `max_price`. Otherwise it stays stopped where that is
            more than Launch agreed to.
        wait
            For how many seconds it is tried again while its place has no room for it. It is never
            started anywhere else: a disk cannot move.
        """
        row = self._row()
        self._context.engine.lifecycle.take_back(row)
        return ClusterStart(self._context, self._services, row, spec=spec, agreed=agreed, wait=wait)

    @blocking
    def restored(self) -> Steps[list[str]]:
        """What its last start brought back and what it did not, a line each.

        Blocks for an answer of the machine.
        """
        return (yield from restored_lines(self._services, self._row()))

    @blocking
    def rename(self, name: str) -> Steps[Cluster]:
        """Give the cluster another name, as `nbprov.rename`; handles in other notebooks follow.

        Parameters
        ----------
        name
            The new name.
        """
        yield from self._services.names.rename(self._row(), name)
        self._row()
        return self

    def __repr__(self) -> str:
        try:
            return f"<Cluster {self.name}: {self.state.value}>"
        except (NotFound, OtherCluster):
            return f"<Cluster {self.name}: ended>"
