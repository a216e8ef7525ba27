"""Work on a cluster's machines, with its connections open."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from nbprov.api.context import Context
from nbprov.api.errors import with_readable_errors
from nbprov.api.steps import Steps, result
from nbprov.model.clock import Seconds
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import Interrupted, NbprovError

from .adopted_launches import Say, say_nothing, until_settled
from .engines.compute_engines import ComputeEngineService
from .setups import SetupService

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine
    from nbprov.provisioning.live_cluster import LiveCluster

T = TypeVar("T")

CLOSED = "agent.closed"
_CODES = (CLOSED, "agent.lost", "agent.timeout", "agent.start-timeout")
_WORDS = {
    ClusterState.STOPPING: "is being stopped",
    ClusterState.STOPPED: "was stopped",
    ClusterState.ENDING: "is being ended",
    ClusterState.ENDED: "has ended",
}


class ClusterLeft(NbprovError):
    """The cluster was stopped or ended while work on it went on."""

    code = "cluster.left"


def cut_off(engine: Engine, run_id: str, error: BaseException) -> BaseException:
    """The error as a person should see it.

    Where the cluster was stopped or ended meanwhile, the error says so and not that a connection
    was lost.
    """
    from nbprov.remote.errors import SshError

    if not isinstance(error, SshError) and getattr(error, "code", "") not in _CODES:
        return error
    row = engine.ledger.clusters.of_run(run_id)
    if row is None:
        return error
    words = _WORDS.get(row.state)
    if words is not None:
        why = f" ({row.reason})" if row.reason else ""
        hint = (
            f"%nbprov start {row.name} brings it back"
            if row.state in (ClusterState.STOPPING, ClusterState.STOPPED)
            else "%clusters --all"
        )
        return ClusterLeft(
            f"{row.name} {words} while this ran{why}; a kernel's variables do not survive that",
            hint=hint,
        )
    if getattr(error, "code", "") == CLOSED:
        return ClusterLeft(
            f"{row.name} was stopped and started while this ran, here or in another notebook",
            hint="run the cell again; its variables are gone",
        )
    return error


class RemoteService:
    """Runs coroutines with a live cluster, once it is set up or at once."""

    def __init__(
        self, context: Context, setups: SetupService, engines: ComputeEngineService
    ) -> None:
        self._context, self._setups, self._engines = context, setups, engines

    # ------------------------------------------------------------ once it is set up

    def begin(
        self,
        name: str,
        work: Callable[[LiveCluster], Coroutine[Any, Any, T]],
        *,
        say: Say = say_nothing,
    ) -> Steps[concurrent.futures.Future[T]]:
        """Begin a coroutine with the live cluster, its connections open.

        Waits until a launch of this name that is under way has ended; an interrupt of that wait
        leaves the launch alone. Cancelling the future interrupts the remote side.

        Raises
        ------
        UsageError
            If the cluster's run waits for Launch.
        Unavailable, SetupFailed
            If that launch fails.
        NotFound
            If no live cluster has this name.
        """
        engine = self._context.engine
        run = self._context.runs.get(name)
        if (
            run is not None
            and not run.done
            and (run.launched or engine.ledger.clusters.named(name) is None)
        ):
            yield from run.until_set_up()
        failed = yield from until_settled(engine, name, say)
        if failed is not None:
            raise failed
        setup = self._setups.of_run(engine.cluster(name).run_id)
        if setup is not None and not setup.done:
            yield from setup.until_done()

        async def attached() -> T:
            live = await engine.attach(name)
            await self._engines.find_running(live)
            try:
                return await work(live)
            except NbprovError as error:
                raise cut_off(engine, live.run_id, error) from error

        return engine.thread.call(with_readable_errors(attached()))

    def call(
        self,
        name: str,
        work: Callable[[LiveCluster], Coroutine[Any, Any, T]],
        timeout: Seconds | None = None,
        *,
        say: Say = say_nothing,
    ) -> Steps[T]:
        """As `begin`, and wait for the result; whatever ends the wait early cancels the work.

        Raises
        ------
        CloudTrouble
            If the machine cannot be reached.
        Interrupted
            On Ctrl-C.
        TimeoutError
            After `timeout` seconds.
        """
        future = yield from self.begin(name, work, say=say)
        try:
            return (yield from result(future, timeout))
        except KeyboardInterrupt:
            raise Interrupted(
                f"interrupted on {name}; the machine and its variables are still there"
            ) from None
        finally:
            future.cancel()

    # ------------------------------------------------------------ at once

    def begin_attached(
        self, name: str, work: Callable[[LiveCluster], Coroutine[Any, Any, T]]
    ) -> concurrent.futures.Future[T]:
        """Begin a coroutine with the live cluster, without waiting for the end of its setup."""
        engine = self._context.engine

        async def attached() -> T:
            return await work(await engine.attach(name))

        return engine.thread.call(with_readable_errors(attached()))

    def call_attached(
        self, name: str, work: Callable[[LiveCluster], Coroutine[Any, Any, T]]
    ) -> Steps[T]:
        """As `begin_attached`, and wait for the result.

        Raises
        ------
        CloudTrouble
            If the machine cannot be reached.
        """
        future = self.begin_attached(name, work)
        try:
            return (yield from result(future))
        except KeyboardInterrupt:
            raise Interrupted(f"interrupted on {name}; its jobs go on") from None
        finally:
            future.cancel()
