"""The verbs as coroutines, for code that must not block: `plan = await nbprov.aio.plan(spec)`.

Each verb that blocks in `nbprov` has its twin here, with the same arguments, result and errors.
They work in any event loop, nested ones and uvloop included, and await the engine's futures
themselves. A `Run`, and what `down`, `stop` and `start` return, can be awaited as they are.

Examples
--------
::

    run = await nbprov.aio.provision(spec, "dev")
    dev = await run.launch()
    result = await nbprov.aio.cell("dev", "x = 41; x + 1")
    await dev.down()
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from .cluster import Cluster
from .launching.provision_service import ProvisionService
from .planner import Planner
from .services.clouds import CloudService
from .services.prices import PriceService
from .services.stock_watch import StockWatchService
from .services.tunnels import TunnelService
from .session import Session
from .steps import Steps, in_worker, public_signature, run_async, steps_of

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


def _session() -> Session:
    from . import session

    return session()


def _opened(begin: Callable[[], Steps[T]]) -> Steps[T]:
    """A verb whose session and cluster are found in its first step: that opens the engine."""
    return (yield from begin())


def _without_self(signature: inspect.Signature) -> inspect.Signature:
    return signature.replace(parameters=list(signature.parameters.values())[1:])


def _named(cluster: str, /) -> None:
    """The parameter that names a cluster."""


def _verb(
    steps: Callable[Concatenate[S, P], Steps[T]], owner: Callable[[Session], S]
) -> Callable[P, Coroutine[Any, Any, T]]:
    """The coroutine of a verb that waits for the engine."""

    @functools.wraps(steps)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> T:
        return await run_async(_opened(lambda: steps(owner(_session()), *args, **kwargs)))

    vars(twin)["__signature__"] = _without_self(public_signature(steps))
    return twin


def _session_verb(
    method: Callable[Concatenate[Session, P], T],
) -> Callable[P, Coroutine[Any, Any, T]]:
    return _verb(steps_of(method), _of)


def _cluster_verb(
    method: Callable[Concatenate[Cluster, P], T],
) -> Callable[Concatenate[str, P], Coroutine[Any, Any, T]]:
    """The coroutine of a cluster's method; the cluster is given by its name."""
    steps = steps_of(method)

    @functools.wraps(method)
    async def twin(name: str, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await run_async(_opened(lambda: steps(_session().cluster(name), *args, **kwargs)))

    named = inspect.signature(_named)
    own = _without_self(inspect.signature(method))
    vars(twin)["__signature__"] = own.replace(
        parameters=[*named.parameters.values(), *own.parameters.values()]
    )
    return twin


def _in_worker(
    verb: Callable[Concatenate[S, P], T], owner: Callable[[Session], S]
) -> Callable[P, Coroutine[Any, Any, T]]:
    """The coroutine of a verb that waits for no engine."""

    @functools.wraps(verb)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> T:
        return await in_worker(lambda: verb(owner(_session()), *args, **kwargs))

    vars(twin)["__signature__"] = _without_self(inspect.signature(verb))
    return twin


def _of(session: Session) -> Session:
    return session


plan = _verb(Planner.plan, lambda session: session.planner)
relax = _verb(Planner.relax, lambda session: session.planner)
prices = _verb(PriceService.prices, lambda session: session.services.prices)
check = _verb(CloudService.check, lambda session: session.services.clouds)
watch_stock = _verb(StockWatchService.watch_stock, lambda session: session.services.watches)
provision = _verb(ProvisionService.provision, lambda session: session.provision_service)
jobs = _session_verb(Session.jobs)
logs = _session_verb(Session.logs)
rename = _session_verb(Session.rename)
sweep = _session_verb(Session.sweep)

attempts = _in_worker(Session.attempts, _of)
blocks = _in_worker(Session.blocks, _of)
clear_blocks = _in_worker(Session.clear_blocks, _of)
cluster = _in_worker(Session.cluster, _of)
clusters = _in_worker(Session.clusters, _of)
costs = _in_worker(Session.costs, _of)
history = _in_worker(Session.history, _of)
parse = _in_worker(Planner.parse, lambda session: session.planner)
refresh_prices = _in_worker(Session.refresh_prices, _of)
tunnels = _in_worker(TunnelService.tunnels, lambda session: session.services.tunnels)

bash = _cluster_verb(Cluster.bash)
cancel_job = _cluster_verb(Cluster.cancel_job)
cell = _cluster_verb(Cluster.cell)
guards = _cluster_verb(Cluster.guards)
outputs = _cluster_verb(Cluster.outputs)
pull = _cluster_verb(Cluster.pull)
push = _cluster_verb(Cluster.push)
submit = _cluster_verb(Cluster.submit)
sync = _cluster_verb(Cluster.sync)
tunnel = _cluster_verb(Cluster.tunnel)
wait_job = _cluster_verb(Cluster.wait_job)


async def ssh_command(name: str, node: int = 0) -> str:
    """The ssh command that logs in to a machine of a cluster; see `Cluster.ssh_command`."""
    return await in_worker(lambda: _session().cluster(name).ssh_command(node))
