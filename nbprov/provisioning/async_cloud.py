"""A cloud's blocking adapter as coroutines.

Its calls run in worker threads with deadlines, and all who wait for a list share one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from nbprov.clouds.base import (
    CALL_SECONDS,
    CHECK_SECONDS,
    LIST_SECONDS,
    STOCK_SECONDS,
    Capabilities,
    Cloud,
)
from nbprov.clouds.web.error_text import without
from nbprov.model.clock import Clock, Seconds
from nbprov.model.failures import Cause, CloudError, Failure, Retry
from nbprov.model.launches import (
    CheckResult,
    CreateOperation,
    Instance,
    Launch,
    PollResult,
    Quote,
    Refused,
    SideObject,
)
from nbprov.model.offers import Candidate, Offer
from nbprov.model.stock import Stock
from nbprov.runtime.worker_pool import WorkerPool

log = logging.getLogger("nbprov.provisioning")

T = TypeVar("T")

GRACE: Seconds = 2.0
"""How much longer than the adapter the engine waits.

An adapter has time-outs of its own, and its message is the better one.
"""


ACCOUNT_KEPT: Seconds = 30.0
"""How long the account of the credentials in use is remembered."""

UNDECIDED = frozenset({Cause.TRANSIENT, Cause.TIMEOUT, Cause.UNKNOWN})
"""A create that fails with one of these, unclassified, may have been carried out.

The connection may have broken, or the answer could not be read.
"""


class AsyncCloud:
    """The calls of a cloud as the engine uses them; each failure is a `CloudError` with a cause.

    Parameters
    ----------
    adapter
        The cloud; its calls run in daemon threads of this object's own pool.
    clock
        The ledger's. An adapter reads the system's clock, which may have been set since.
    """

    def __init__(self, adapter: Cloud, clock: Clock | None = None) -> None:
        self.adapter = adapter
        self._clock = clock
        self.name = adapter.name
        self._workers = WorkerPool(adapter.name)
        self._listing: dict[str, asyncio.Task[list[Instance]]] = {}
        self._checked: tuple[Seconds, CheckResult] | None = None

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

    async def is_of(self, account: str) -> bool:
        """Whether the credentials in use are of this account; an empty name stands for any.

        If they are not, a list that lacks a machine of the account says nothing.
        """
        if not account:
            return True
        if self._checked is None or time.monotonic() - self._checked[0] > ACCOUNT_KEPT:
            self._checked = (time.monotonic(), await self.check())
        told = self._checked[1]
        return told.account == account or (told.enabled and not told.account)

    async def offers(self) -> Sequence[Offer] | None:
        """See `Cloud.offers`."""
        return await self._call(self.adapter.offers, seconds=CHECK_SECONDS)

    async def stock(self, offers: Sequence[Offer], count: int) -> Sequence[Stock]:
        """See `Cloud.stock`."""
        return await self._call(self.adapter.stock, offers, count, seconds=STOCK_SECONDS)

    async def quote(self, candidate: Candidate) -> Quote | None:
        """See `Cloud.quote`; None where the cloud does not answer in time."""
        try:
            return await self._call(self.adapter.quote, candidate, seconds=CHECK_SECONDS)
        except CloudError:
            return None

    async def submit(self, launch: Launch) -> CreateOperation:
        """See `Cloud.submit`.

        Silence is an unknown outcome, and so is an error that the adapter does not call a refusal.
        """
        if self._clock is not None and launch.answer_by:
            # In whole seconds, so that a launch that is sent again is the same to the byte.
            set_by = round(time.time() - self._clock.now())
            launch = replace(launch, answer_by=launch.answer_by + set_by)
        try:
            return await self._workers.run(
                self.adapter.submit, launch, seconds=CALL_SECONDS + GRACE
            )
        except CloudError as error:
            raise CloudError(_clean(error.failure, launch.template_values.values())) from None
        except Exception as error:
            failure = self.adapter.classify(error)
            if failure.cause in UNDECIDED:
                failure = replace(failure, cause=Cause.UNKNOWN_OUTCOME)
            raise CloudError(_clean(failure, launch.template_values.values())) from None

    async def poll(self, operation: CreateOperation, secrets: Iterable[str]) -> PollResult:
        """See `Cloud.poll`.

        Parameters
        ----------
        secrets
            What the start script holds. A cloud may repeat it where it refuses the create later,
            and its adapter does not know it any more by then.
        """
        try:
            result = await self._call(self.adapter.poll, operation, seconds=LIST_SECONDS)
        except CloudError as error:
            raise CloudError(_clean(error.failure, secrets)) from None
        if isinstance(result, Refused):
            return Refused(_clean(result.failure, secrets))
        return result

    async def list(self, owner: str) -> list[Instance]:
        """See `Cloud.list`.

        A caller gets a list that was asked for after its call; callers who wait together share it.
        """
        pending = self._listing.get(owner)
        if pending is not None:
            await asyncio.wait({pending})
        current = self._listing.get(owner)
        if current is None or current is pending or current.done():
            current = asyncio.create_task(
                self._call(self.adapter.list, owner, seconds=LIST_SECONDS)
            )
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

    async def admit(self, ids: Sequence[str]) -> bool:
        """See `Cloud.admit`. A cloud without rules of admission answers at once."""
        if type(self.adapter).admit is Cloud.admit:
            return False
        return await self._call(self.adapter.admit, ids, seconds=CALL_SECONDS)

    @property
    def leaves_side_objects(self) -> bool:
        """Whether launches leave objects beside their machines that this cloud can name."""
        return getattr(self.adapter.side_objects, "__func__", None) is not Cloud.side_objects

    async def console(self, instance_id: str) -> str:
        """See `Cloud.console`."""
        return await self._call(self.adapter.console, instance_id, seconds=LIST_SECONDS)

    async def side_objects(self, owner: str) -> Sequence[SideObject]:
        """See `Cloud.side_objects`."""
        return await self._call(self.adapter.side_objects, owner, seconds=LIST_SECONDS)

    async def remove(self, objects: Sequence[SideObject]) -> Sequence[SideObject]:
        """See `Cloud.remove`."""
        return await self._call(self.adapter.remove, objects, seconds=CALL_SECONDS)


def is_passing(failure: Failure) -> bool:
    """Whether the same request may succeed later.

    A loop that must not give up, such as one that confirms an end, goes on after such a failure.
    """
    return failure.rule.retry is Retry.SAME or failure.cause in (
        Cause.UNKNOWN_OUTCOME,
        Cause.UNKNOWN,
        Cause.TIMEOUT,
    )


async def try_request(verb: Callable[[list[str]], Awaitable[None]], ids: list[str]) -> bool:
    """Ask a cloud to do something with machines; whether it took the request.

    A refusal is only logged: the caller asks again, and believes nothing but a listing.
    """
    try:
        await verb(ids)
    except CloudError as error:
        log.warning("%s; tried again", error.failure.sentence())
        return False
    return True


def _clean(failure: Failure, secrets: Iterable[str]) -> Failure:
    """Return a failure whose message repeats none of these secrets."""
    return replace(failure, message=without(failure.message, secrets))
