"""A cloud's blocking adapter as coroutines: worker threads, deadlines, one listing at a time however many wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from nbprov.clouds.base import CALL_SECONDS, CHECK_SECONDS, LIST_SECONDS, Capabilities, Cloud
from nbprov.model.causes import Cause, CloudError, Failure, Retry
from nbprov.model.clock import Seconds
from nbprov.model.launches import CheckResult, Instance, Launch, Operation, PollResult, Quote
from nbprov.model.offers import Candidate, Offer
from nbprov.runtime.workers import Workers

T = TypeVar("T")

GRACE: Seconds = 2.0
"""An adapter has its own time-outs; the engine gives up this much later, so that the adapter's better message wins."""


UNDECIDED = frozenset({Cause.TRANSIENT, Cause.TIMEOUT, Cause.UNKNOWN})
"""A create that an adapter let fail with one of these, unclassified, may have been carried out: a broken connection, an answer that cannot be read."""


class AsyncCloud:
    """What the engine uses of a cloud. Every failure comes out as `CloudError` with a cause.

    Parameters
    ----------
    adapter
        The cloud; its calls run in daemon threads of this object's own pool.
    """

    def __init__(self, adapter: Cloud) -> None:
        self.adapter = adapter
        self.name = adapter.name
        self._workers = Workers(adapter.name)
        self._listing: dict[str, asyncio.Task[list[Instance]]] = {}

    @property
    def capabilities(self) -> Capabilities:
        """What the cloud can do."""
        return self.adapter.capabilities

    async def _call(self, function: Callable[..., T], *args: Any, seconds: Seconds) -> T:
        try:
            return await self._workers.run(function, *args, seconds=seconds + GRACE)
        except CloudError:
            raise
        except Exception as error:
            raise CloudError(self.adapter.classify(error)) from error

    async def check(self) -> CheckResult:
        """See `Cloud.check`."""
        try:
            return await self._call(self.adapter.check, seconds=CHECK_SECONDS)
        except CloudError as error:
            return CheckResult(self.name, enabled=False, problem=error.failure)

    async def offers(self) -> Sequence[Offer] | None:
        """See `Cloud.offers`."""
        return await self._call(self.adapter.offers, seconds=CHECK_SECONDS)

    async def quote(self, candidate: Candidate) -> Quote | None:
        """See `Cloud.quote`; a cloud that cannot tell in time says nothing."""
        try:
            return await self._call(self.adapter.quote, candidate, seconds=CHECK_SECONDS)
        except CloudError:
            return None

    async def submit(self, launch: Launch) -> Operation:
        """See `Cloud.submit`; silence is an unknown outcome, and so is a fault that the adapter did not itself call a refusal."""
        try:
            return await self._workers.run(self.adapter.submit, launch, seconds=CALL_SECONDS + GRACE)
        except CloudError:
            raise
        except Exception as error:
            failure = self.adapter.classify(error)
            if failure.cause in UNDECIDED:
                failure = replace(failure, cause=Cause.UNKNOWN_OUTCOME)
            raise CloudError(failure) from error

    async def poll(self, operation: Operation) -> PollResult:
        """See `Cloud.poll`."""
        return await self._call(self.adapter.poll, operation, seconds=LIST_SECONDS)

    async def list(self, owner: str) -> list[Instance]:
        """See `Cloud.list`. A caller always gets a listing that began after it asked; callers who ask together share one."""
        pending = self._listing.get(owner)
        if pending is not None:
            await asyncio.wait({pending})
        current = self._listing.get(owner)
        if current is None or current is pending or current.done():
            current = asyncio.create_task(self._call(self.adapter.list, owner, seconds=LIST_SECONDS))
            self._listing[owner] = current
        return await asyncio.shield(current)

    async def terminate(self, ids: Sequence[str]) -> None:
        """See `Cloud.terminate`."""
        await self._call(self.adapter.terminate, ids, seconds=CALL_SECONDS)

    async def start(self, ids: Sequence[str]) -> None:
        """See `Cloud.start`."""
        await self._call(self.adapter.start, ids, seconds=CALL_SECONDS)

    async def stop(self, ids: Sequence[str]) -> None:
        """See `Cloud.stop`."""
        await self._call(self.adapter.stop, ids, seconds=CALL_SECONDS)


def is_passing(failure: Failure) -> bool:
    """Whether asking the same again later may help: what a loop that must not give up (confirming an end) goes on over."""
    return failure.rule.retry is Retry.SAME or failure.cause in (Cause.UNKNOWN_OUTCOME, Cause.UNKNOWN, Cause.TIMEOUT)
