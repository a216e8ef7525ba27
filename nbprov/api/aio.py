"""The verbs as coroutines, for code that must not block: `plan = await nbprov.aio.plan(spec)`.

Each verb that blocks in `nbprov` has its twin here, with the same arguments, result and errors. They work in any loop, the user's may be
nested or uvloop, since they only poll. A `Run`, and what `down`, `stop` and `start` return, can be awaited as they are.

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
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from nbprov.runtime.waiting import Waitable
from nbprov.runtime.worker_pool import WorkerPool

from .cluster import Cluster
from .session import Session

if TYPE_CHECKING:
    from nbprov.machines.cells.cells import CellResult, OnOutput

P = ParamSpec("P")
T = TypeVar("T")

_workers = WorkerPool("aio")


def _session() -> Session:
    from . import session

    return session()


def _verb(method: Callable[Concatenate[Session, P], T]) -> Callable[P, Coroutine[Any, Any, T]]:
    @functools.wraps(method)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> T:
        return await Waitable(_workers.submit(lambda: method(_session(), *args, **kwargs)))

    return twin


def _cluster_verb(
    method: Callable[Concatenate[Cluster, P], T],
) -> Callable[Concatenate[str, P], Coroutine[Any, Any, T]]:
    @functools.wraps(method)
    async def twin(name: str, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await Waitable(
            _workers.submit(lambda: method(_session().cluster(name), *args, **kwargs))
        )

    return twin


attempts = _verb(Session.attempts)
blocks = _verb(Session.blocks)
check = _verb(Session.check)
clear_blocks = _verb(Session.clear_blocks)
cluster = _verb(Session.cluster)
clusters = _verb(Session.clusters)
costs = _verb(Session.costs)
history = _verb(Session.history)
parse = _verb(Session.parse)
plan = _verb(Session.plan)
prices = _verb(Session.prices)
provision = _verb(Session.provision)
refresh_prices = _verb(Session.refresh_prices)
relax = _verb(Session.relax)
rename = _verb(Session.rename)
sweep = _verb(Session.sweep)
tunnels = _verb(Session.tunnels)
watch_stock = _verb(Session.watch_stock)

cancel_job = _cluster_verb(Cluster.cancel_job)
guards = _cluster_verb(Cluster.guards)
jobs = _verb(Session.jobs)
logs = _verb(Session.logs)
outputs = _cluster_verb(Cluster.outputs)
pull = _cluster_verb(Cluster.pull)
push = _cluster_verb(Cluster.push)
ssh_command = _cluster_verb(Cluster.ssh_command)
submit = _cluster_verb(Cluster.submit)
sync = _cluster_verb(Cluster.sync)
tunnel = _cluster_verb(Cluster.tunnel)
wait_job = _cluster_verb(Cluster.wait_job)


async def cell(
    name: str, code: str, *, on_output: OnOutput = None, nodes: str = "head"
) -> CellResult:
    """Run Python on the cluster `name`; see `Cluster.cell`. Cancelling the await interrupts the remote cell."""
    from nbprov.machines.cells.cells import python_cell

    return await _remote(
        name, lambda live: python_cell(live, code, nodes=nodes, on_output=on_output)
    )


async def bash(
    name: str, command: str, *, on_output: OnOutput = None, nodes: str = "head"
) -> CellResult:
    """Run a shell script on the cluster `name`; see `Cluster.bash`. Cancelling the await ends the script."""
    from nbprov.machines.cells.cells import bash_cell

    return await _remote(
        name, lambda live: bash_cell(live, command, nodes=nodes, on_output=on_output)
    )


async def _remote(name: str, work: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
    # Starting may wait for a launch that is under way, so it blocks in a worker; the rest is polled and can be cancelled.
    future = await Waitable(_workers.submit(lambda: _session().start_remote(name, work)))
    try:
        return await Waitable(future)
    finally:
        future.cancel()
