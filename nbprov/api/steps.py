"""Verbs that wait for the engine, written once for blocking callers and for `nbprov.aio`.

A verb is a generator: it yields each future that it needs and is resumed with the future's result.
`run_sync` drives it in a thread that may block: the code between two futures runs there too, so
that a verb may prompt and print. `run_async` drives it from the user's event loop: it awaits the
futures there, and the code between them runs in a worker thread, so that the loop is never blocked.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import inspect
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeAlias, TypeVar

from nbprov.model.clock import Seconds
from nbprov.runtime.waiting import Waitable, wait_for
from nbprov.runtime.worker_pool import WorkerPool

P = ParamSpec("P")
T = TypeVar("T")

_workers = WorkerPool("aio")
"""Threads for code of verbs that are awaited. None of them waits for an engine."""


@dataclass(frozen=True, slots=True)
class WaitFor:
    """A future that a verb needs, and for how many seconds it waits for it."""

    future: concurrent.futures.Future[Any]
    timeout: Seconds | None = None


Steps: TypeAlias = Generator[WaitFor, Any, T]
"""A verb that ends in a `T`."""


def result(future: concurrent.futures.Future[T], timeout: Seconds | None = None) -> Steps[T]:
    """Wait for a future inside a verb: `plan = yield from result(future)`.

    Raises
    ------
    TimeoutError
        After `timeout` seconds; the work goes on.
    """
    value: T = yield WaitFor(future, timeout)
    return value


def run_sync(steps: Steps[T]) -> T:
    """Drive a verb to its end; each wait is interruptible, and the verb sees a Ctrl-C."""
    try:
        wait = next(steps)
        while True:
            try:
                value = wait_for(wait.future, wait.timeout)
            except BaseException as error:
                wait = steps.throw(error)
            else:
                wait = steps.send(value)
    except StopIteration as end:
        value_at_end: T = end.value
        return value_at_end


async def run_async(steps: Steps[T]) -> T:
    """Drive a verb from any event loop; the verb sees a cancellation of the await."""
    advance: Callable[[], WaitFor] = functools.partial(next, steps)
    while True:
        wait = await _advanced(steps, advance)
        if isinstance(wait, _End):
            value_at_end: T = wait.value
            return value_at_end
        try:
            async with asyncio.timeout(wait.timeout):
                value = await Waitable(wait.future)
        except Exception as error:
            advance = functools.partial(steps.throw, error)
        except BaseException as error:
            steps.throw(error)  # the verb cancels what it began, and ends
            raise
        else:
            advance = functools.partial(steps.send, value)


@dataclass(frozen=True, slots=True)
class _End:
    value: Any


async def _advanced(steps: Steps[Any], advance: Callable[[], WaitFor]) -> WaitFor | _End:
    """Run a verb's code up to its next wait, or to its end, in a worker thread."""

    def run() -> WaitFor | _End:
        try:
            return advance()
        except StopIteration as end:
            return _End(end.value)

    future = _workers.submit(run)
    try:
        return await Waitable(future)
    except BaseException:
        if not future.done():
            # The await was cancelled. A generator that runs cannot be closed before its next wait.
            future.add_done_callback(lambda _: steps.close())
        raise


def in_worker(call: Callable[[], T]) -> Waitable[T]:
    """Run a verb that waits for no engine in a worker thread; for event loops."""
    return Waitable(_workers.submit(call))


def blocking(steps: Callable[P, Steps[T]]) -> Callable[P, T]:
    """Make a function that blocks until a verb is done; `steps_of` gives the verb back."""

    @functools.wraps(steps)
    def verb(*args: P.args, **kwargs: P.kwargs) -> T:
        return run_sync(steps(*args, **kwargs))

    vars(verb).update(steps=steps, __signature__=public_signature(steps))
    return verb


def steps_of(verb: Callable[P, T]) -> Callable[P, Steps[T]]:
    """The verb that a function made by `blocking` drives."""
    steps: Callable[P, Steps[T]] = vars(verb)["steps"]
    return steps


def public_signature(steps: Callable[..., Any]) -> inspect.Signature:
    """The signature of a verb as its caller sees it: it returns what the steps end in."""
    signature = inspect.signature(steps)
    told = signature.return_annotation
    if isinstance(told, str) and told.startswith("Steps["):
        return signature.replace(return_annotation=told[len("Steps[") : -1])
    return signature
