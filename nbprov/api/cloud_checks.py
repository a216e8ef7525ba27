"""Checks of clouds: asked in parallel, remembered for a while, and never waited for long."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass

from nbprov.clouds.base import CHECK_SECONDS
from nbprov.model.clock import Clock, Instant, Seconds
from nbprov.model.errors import NbprovError
from nbprov.model.failures import Cause, Failure
from nbprov.model.launches import CheckResult

log = logging.getLogger("nbprov.api")

USABLE_FOR: Seconds = 5 * 60.0
"""How long the check of a usable cloud counts. Keys and balances seldom change within minutes, and
a create call finds out anyway."""
ASKED_AGAIN: Seconds = 60.0
"""How long a refusal counts for plans; `%nbprov check` asks at once. So does an answer that a
refused create has called into doubt."""
FAULT_COUNTS: Seconds = 10.0
"""How long a check counts that met a passing fault twice in a row."""
SILENT = frozenset({Cause.TRANSIENT, Cause.RATE_LIMIT, Cause.TIMEOUT})
"""Causes with which a cloud has said nothing: it may be set up all the same."""
FAULTS = SILENT | {Cause.UNKNOWN}
"""Causes that say nothing of the account: the cloud is asked once more before they count."""
CHEAP: Seconds = 0.05
"""An answer that came so quickly took no request: no credentials were found. It never counts again,
since they may be there now."""
PATIENCE: Seconds = 1.0
"""How long a plan waits for a cloud to confirm its earlier answer, which counts until the new one
comes."""

Ask = Callable[[str], Awaitable[CheckResult]]
"""Asks one cloud, by name; never raises."""
Passed = Callable[[CheckResult, Instant], None]
"""Told of a check that passed, and when it was begun. On the loop; it must not block."""


def tell_nobody(result: CheckResult, begun: Instant) -> None:
    """Tell nobody of a check that passed."""


@dataclass(frozen=True, slots=True)
class _Known:
    result: CheckResult
    at: Seconds
    took: Seconds

    def stands(self, now: Seconds, *, doubted: bool) -> bool:
        if self.result.enabled:
            return now - self.at < (ASKED_AGAIN if doubted else USABLE_FOR)
        counts = FAULT_COUNTS if _is_fault(self.result) else ASKED_AGAIN
        return self.took > CHEAP and now - self.at < counts


class CloudChecks:
    """The results of the clouds' checks.

    Its coroutines run on one loop; `known` may be called from any thread.
    """

    def __init__(self, ask: Ask, clock: Clock, passed: Passed = tell_nobody) -> None:
        self._ask = ask
        self._clock = clock
        self._passed = passed
        self._known: dict[str, _Known] = {}
        self._under_way: dict[str, asyncio.Task[CheckResult]] = {}
        self._unanswered: dict[str, Instant] = {}

    def known(self, cloud: str) -> CheckResult | None:
        """The last check of a cloud; None where it was not asked yet."""
        known = self._known.get(cloud)
        return None if known is None else known.result

    def silent_since(self, cloud: str) -> Instant | None:
        """Since when a cloud has been asked without an answer; None where it has answered."""
        return self._unanswered.get(cloud)

    async def anew(self, clouds: Iterable[str]) -> list[CheckResult]:
        """Ask all of these clouds now.

        A cloud that does not answer in `CHECK_SECONDS` counts as one that cannot be used.
        """
        names = list(clouds)
        late = await self._late(names, CHECK_SECONDS)
        return [
            _silent(name, CHECK_SECONDS) if name in late else self._known[name].result
            for name in names
        ]

    async def at_hand(
        self,
        clouds: Iterable[str],
        *,
        doubted: Collection[str] = (),
        first: Seconds = CHECK_SECONDS,
        again: Seconds = PATIENCE,
    ) -> list[CheckResult]:
        """The checks of these clouds; those that are missing or too old are made now.

        Parameters
        ----------
        doubted
            Clouds whose credentials or balance were refused after their last check passed.
        first
            How many seconds it waits for clouds that never answered.
        again
            How many for those that did; then their earlier answer counts.
        """
        names, now = list(clouds), self._clock.elapsed()
        due = [
            name
            for name in names
            if name not in self._known or not self._known[name].stands(now, doubted=name in doubted)
        ]
        unknown = [name for name in due if name not in self._known]
        known = [name for name in due if name in self._known]
        late, _ = await asyncio.gather(self._late(unknown, first), self._late(known, again))
        for name in late:
            # Plans that are made before it answers do not wait for it again.
            self._known.setdefault(name, _Known(_silent(name, first), self._clock.elapsed(), first))
        return [self._known[name].result for name in names]

    async def _late(self, names: Iterable[str], seconds: Seconds) -> set[str]:
        """Ask clouds; the names of those that did not answer in time."""
        tasks = {name: self._begin(name) for name in names}
        if tasks:
            await asyncio.wait(tasks.values(), timeout=seconds)
        return {name for name, task in tasks.items() if not task.done()}

    def _begin(self, name: str) -> asyncio.Task[CheckResult]:
        task = self._under_way.get(name)
        if task is None:
            task = self._under_way[name] = asyncio.create_task(self._question(name))
        return task

    async def _question(self, name: str) -> CheckResult:
        begun, since = self._clock.elapsed(), self._clock.now()
        self._unanswered.setdefault(name, since)
        try:
            result = await self._ask(name)
            if _is_fault(result):
                result = await self._ask(name)
        except Exception as error:  # a broken adapter must not keep the other clouds out
            log.exception("checking %s", name)
            result = CheckResult(
                name,
                enabled=False,
                problem=Failure(Cause.UNKNOWN, f"{type(error).__name__}: {error}", "adapter"),
            )
        finally:
            self._under_way.pop(name, None)
        now = self._clock.elapsed()
        self._known[name] = _Known(result, now, now - begun)
        if not is_silence(result):
            self._unanswered.pop(name, None)
        if result.enabled:
            self._passed(result, since)
        if result.zone_names:
            _learn_zones(result)
        return result


def is_silence(result: CheckResult) -> bool:
    """Whether a cloud has said nothing of itself."""
    return result.problem is not None and result.problem.cause in SILENT


def _is_fault(result: CheckResult) -> bool:
    return result.problem is not None and result.problem.cause in FAULTS


def _learn_zones(result: CheckResult) -> None:
    """Keep an account's own names of zones, so that a spec may use them.

    Price files use the ids that all accounts share.
    """
    from nbprov.catalog.sources import aws_zone_ids

    with suppress(NbprovError):  # without the names the cloud can be used all the same
        aws_zone_ids.learn(result.account, result.zone_names)


def _silent(name: str, seconds: Seconds) -> CheckResult:
    return CheckResult(
        name,
        enabled=False,
        problem=Failure(Cause.TIMEOUT, f"no answer within {seconds:g} s"),
    )
