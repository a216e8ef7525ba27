"""Verbs that wait for the engine, written once for blocking callers and for `nbprov.aio`.

A verb is a generator: it yields each future that it needs and is resumed with the future's result.
`run_sync` drives it from a thread that may block, `run_async` from the user's event loop. In both
cases the code between two futures runs in the caller's thread, so a verb may prompt and print.
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

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Wait:
    """A future that a verb needs, and for how many seconds it waits for it."""

    future: concurrent.futures.Future[Any]
    timeout: Seconds | None = None


Steps: TypeAlias = Generator[Wait, Any, T]
"""A verb that ends in a `T`."""


def result(future: concurrent.futures.Future[T], timeout: Seconds | None = None) -> Steps[T]:
    """Wait for a future inside a verb: `plan = yield from result(future)`.

    Raises
    ------
    TimeoutError
        After `timeout` seconds; the work goes on.
    """
    value: T = yield Wait(future, timeout)
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
    try:
        wait = next(steps)
        while True:
            try:
                async with asyncio.timeout(wait.timeout):
                    value = await Waitable(wait.future)
            except BaseException as error:
                wait = steps.throw(error)
            else:
                wait = steps.send(value)
    except StopIteration as end:
        value_at_end: T = end.value
        return value_at_end


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
