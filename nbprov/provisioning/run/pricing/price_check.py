"""The only way to a create or a start: ask for the price of now, and buy only what was agreed to.

`tests/unit/test_structure.py` sees to it that nothing else calls `submit` or `start` of a cloud.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from nbprov.model.clock import Seconds
from nbprov.model.errors import UsageError
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import CreateOperation, Launch
from nbprov.model.money import Micros
from nbprov.model.offers import Candidate
from nbprov.provisioning.async_cloud import AsyncCloud
from nbprov.provisioning.ledger import ClusterRow, Ledger

from .requote import beyond_agreed, quoted

MOST_AGE: Seconds = 30.0
"""A price that was asked longer ago is asked again before the request: writing the intent may have
waited for a locked ledger."""


class TooDear(CloudError):
    """Nothing is bought: the price of now is beyond what was agreed to."""

    def __init__(self, words: str) -> None:
        super().__init__(Failure(Cause.CANCELLED, words))


class PriceCheck:
    """An answer of a cloud on its price, which allows one create or one start.

    Use `ask` to make one. It is good for a single request, so whoever sends a request again has to
    ask again.

    Attributes
    ----------
    candidate
        What is bought, at the price of now.
    """

    def __init__(
        self, cloud: AsyncCloud, candidate: Candidate, refusal: Callable[[Candidate], str]
    ) -> None:
        self.candidate = candidate
        self._cloud, self._refusal = cloud, refusal
        self._asked, self._is_used = time.monotonic(), False

    @classmethod
    async def ask(
        cls,
        cloud: AsyncCloud,
        candidate: Candidate,
        agreed: Micros,
        also: Callable[[Candidate], None] | None = None,
    ) -> PriceCheck:
        """Ask a cloud what a candidate costs now.

        Parameters
        ----------
        agreed
            The most that the whole cluster may cost an hour.
        also
            Raises `UsageError` where something else forbids the purchase at that price.

        Raises
        ------
        TooDear
            If that is more than was agreed to.
        """

        def refusal(now: Candidate) -> str:
            if beyond := beyond_agreed(now, agreed):
                return beyond
            try:
                if also is not None:
                    also(now)
            except UsageError as error:
                return error.message
            return ""

        check = cls(cloud, candidate, refusal)
        await check._ask()
        return check

    async def _ask(self) -> None:
        self._asked = time.monotonic()
        self.candidate = quoted(self.candidate, await self._cloud.quote(self.candidate))
        if words := self._refusal(self.candidate):
            raise TooDear(words)

    def _use(self) -> None:
        if self._is_used:
            raise RuntimeError("a price allows one request: ask again before the next one")
        self._is_used = True

    async def _renew(self) -> None:
        if time.monotonic() - self._asked > MOST_AGE:
            await self._ask()

    async def submit(
        self, launch: Launch, book: Callable[[Candidate], Awaitable[None]]
    ) -> CreateOperation:
        """Send a create; see `AsyncCloud.submit`.

        Parameters
        ----------
        book
            Called before it is sent where it costs more now than the launch says. Which of several
            requests makes the machine is not known: the dearest price is booked, until the cloud's
            listing tells what it is.
        """
        self._use()
        await self._renew()
        while self.candidate.hourly > launch.candidate.hourly:
            await book(self.candidate)
            launch = replace(launch, candidate=self.candidate)
            await self._renew()  # the ledger may have been locked for long
        return await self._cloud.submit(launch)

    async def start(self, ids: Sequence[str]) -> None:
        """Start machines; see `AsyncCloud.start`."""
        self._use()
        await self._renew()
        await self._cloud.start(ids)


def agreed_for(ledger: Ledger, row: ClusterRow) -> Micros:
    """The most that a cluster may cost an hour: by Launch, or by its last start."""
    run = ledger.runs.get(row.run_id)
    return max(run.consent if run is not None else 0, row.candidate.hourly)
