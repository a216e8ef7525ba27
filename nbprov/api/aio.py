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
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from nbprov.runtime.waiting import Waitable
from nbprov.runtime.worker_pool import Workers

from .cluster import Cluster
from .launching.provisioner import Provisioner
from .planner import Planner
from .services.clouds import CloudService
from .services.prices import PriceService
from .services.stock_watch import StockWatchService
from .session import Session
from .steps import Steps, run_async, steps_of

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

_workers = Workers("aio")
"""Threads for verbs that wait for no engine, but read the ledger, compute or fetch."""


def _session() -> Session:
    from . import session

    return session()


def _verb(
    steps: Callable[Concatenate[S, P], Steps[T]], owner: Callable[[Session], S]
) -> Callable[P, Coroutine[Any, Any, T]]:
    """The coroutine of a verb that waits for the engine."""

    @functools.wraps(steps)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> T:
        return await run_async(steps(owner(_session()), *args, **kwargs))

    return twin


def _session_verb(
    method: Callable[Concatenate[Session, P], T],
) -> Callable[P, Coroutine[Any, Any, T]]:
    return _verb(steps_of(method), lambda session: session)


def _cluster_verb(
    method: Callable[Concatenate[Cluster, P], T],
) -> Callable[Concatenate[str, P], Coroutine[Any, Any, T]]:
    """The coroutine of a cluster's method; the cluster is given by its name."""
    steps = steps_of(method)

    @functools.wraps(method)
    async def twin(name: str, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await run_async(steps(_session().cluster(name), *args, **kwargs))

    return twin


def _in_worker(
    method: Callable[Concatenate[Session, P], T],
) -> Callable[P, Coroutine[Any, Any, T]]:
    """The coroutine of a verb that waits for no engine."""

    @functools.wraps(method)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> T:
        return await Waitable(_workers.submit(lambda: method(_session(), *args, **kwargs)))

    return twin


plan = _verb(Planner.plan, lambda session: session.planner)
relax = _verb(Planner.relax, lambda session: session.planner)
prices = _verb(PriceService.prices, lambda session: session.services.prices)
check = _verb(CloudService.check, lambda session: session.services.clouds)
watch_stock = _verb(StockWatchService.watch_stock, lambda session: session.services.watches)
provision = _verb(Provisioner.provision, lambda session: session.provisioner)
jobs = _session_verb(Session.jobs)
logs = _session_verb(Session.logs)
rename = _cluster_verb(Cluster.rename)
sweep = _session_verb(Session.sweep)

attempts = _in_worker(Session.attempts)
blocks = _in_worker(Session.blocks)
clear_blocks = _in_worker(Session.clear_blocks)
cluster = _in_worker(Session.cluster)
clusters = _in_worker(Session.clusters)
costs = _in_worker(Session.costs)
history = _in_worker(Session.history)
refresh_prices = _in_worker(Session.refresh_prices)


async def parse(*args: Any, **kwargs: Any) -> Any:
    """Read a spec; see `nbprov.parse`."""
    return await Waitable(_workers.submit(lambda: _session().parse(*args, **kwargs)))


async def tunnels() -> Any:
    """The tunnels of this kernel; see `Session.tunnels`."""
    return await Waitable(_workers.submit(lambda: _session().tunnels()))


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
    return await Waitable(_workers.submit(lambda: _session().cluster(name).ssh_command(node)))
