"""Verbs written as steps: driven by a blocking caller, or from an event loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import threading
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from nbprov.api.steps import Steps, blocking, result, run_async, run_sync, steps_of

LONG = 30.0


def done(value: int) -> Future[int]:
    future: Future[int] = Future()
    future.set_result(value)
    return future


def failed(error: Exception) -> Future[int]:
    future: Future[int] = Future()
    future.set_exception(error)
    return future


class Awaited(Future[int]):
    """A future that tells when somebody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_awaited = threading.Event()

    def add_done_callback(self, fn: Callable[[Future[int]], object]) -> None:
        super().add_done_callback(fn)
        self.is_awaited.set()


def total(*futures: Future[int]) -> Steps[int]:
    """The sum of futures; those that fail count as 100."""
    found = 0
    for future in futures:
        try:
            found += yield from result(future)
        except ValueError:
            found += 100
    return found


def test_both_drivers_give_the_same_result() -> None:
    def steps() -> Steps[int]:
        return total(done(1), failed(ValueError("no")), done(20))

    assert run_sync(steps()) == 121
    assert asyncio.run(run_async(steps())) == 121


def test_an_error_that_a_verb_does_not_catch_is_raised() -> None:
    for drive in (run_sync, lambda steps: asyncio.run(run_async(steps))):
        with pytest.raises(KeyError, match="gone"):
            drive(total(failed(KeyError("gone"))))


def test_a_verb_sees_that_its_time_is_over() -> None:
    def steps() -> Steps[str]:
        never: Future[int] = Future()
        try:
            yield from result(never, 0.05)
        except TimeoutError:
            return "late"
        return "in time"

    assert run_sync(steps()) == "late"
    assert asyncio.run(run_async(steps())) == "late"


def test_a_cancelled_await_lets_the_verb_cancel_what_it_began() -> None:
    begun = Awaited()

    def steps() -> Steps[int]:
        try:
            return (yield from result(begun))
        finally:
            begun.cancel()

    async def main() -> None:
        task = asyncio.create_task(run_async(steps()))
        assert await asyncio.to_thread(begun.is_awaited.wait, LONG)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert begun.cancelled()


def test_a_verb_that_computes_when_its_await_is_cancelled_ends_at_its_next_wait() -> None:
    computes, may_go_on, closed = threading.Event(), threading.Event(), threading.Event()

    def steps() -> Steps[int]:
        computes.set()
        may_go_on.wait(LONG)
        try:
            return (yield from result(Future[int]()))
        finally:
            closed.set()

    async def main() -> None:
        task = asyncio.create_task(run_async(steps()))
        await asyncio.to_thread(computes.wait, LONG)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    may_go_on.set()
    assert closed.wait(LONG)


def test_an_event_loop_goes_on_while_a_verb_computes() -> None:
    computes, may_go_on = threading.Event(), threading.Event()

    def steps() -> Steps[bool]:
        computes.set()
        went_on = may_go_on.wait(LONG)
        yield from result(done(1))
        return went_on

    async def main() -> bool:
        task = asyncio.create_task(run_async(steps()))
        assert await asyncio.to_thread(computes.wait, LONG)
        may_go_on.set()
        return await task

    assert asyncio.run(main()), "the loop did not go on before the verb had computed"


def test_a_blocking_function_tells_what_it_returns_and_gives_its_steps_back() -> None:
    @blocking
    def double(future: concurrent.futures.Future[int], *, by: int = 2) -> Steps[int]:
        """Multiply."""
        return by * (yield from result(future))

    assert double(done(4)) == 8
    assert run_sync(steps_of(double)(done(4), by=3)) == 12
    assert (double.__doc__, inspect.signature(double).return_annotation) == ("Multiply.", "int")
