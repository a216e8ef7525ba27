"""The places of a plan in the order of attempts: what comes next, and when it is quicker to plan again than to look on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import overload

from nbprov.model.clock import Instant
from nbprov.model.money import Micros
from nbprov.model.offers import Block, Candidate

SKIPS = 100
"""So many blocked places in a row, and the rest is planned again: a block over a whole cloud takes out thousands, each built only to be skipped."""


@dataclass(slots=True)
class Itinerary:
    """Where a run goes next.

    Parameters
    ----------
    candidates
        In the order of attempts.
    blocks
        What is known to be blocked now.
    ceiling
        The most that Launch agreed to, for the whole cluster an hour; a dearer place is passed over.
    can_replan
        Somebody answers where a new plan is asked for.
    """

    candidates: Sequence[Candidate] = ()
    blocks: list[Block] = field(default_factory=list)
    ceiling: Micros | None = None
    can_replan: bool = False
    is_planning: bool = False
    _plans_fail: bool = False
    _cursor: int = 0
    _skipped: int = 0
    _tried: set[tuple[str, ...]] = field(default_factory=set)
    _has_tried_sold_out: bool = False

    @property
    def is_exhausted(self) -> bool:
        """Whether no place is left to be looked at."""
        return self._cursor >= len(self.candidates)

    def next(
        self, now: Instant, tiers: Collection[int], meet: Callable[[Block], object]
    ) -> Candidate | None:
        """The next place that may be tried, left where it is until it is taken.

        Parameters
        ----------
        tiers
            Of what is under way: a race stays within one tier, since a wish that comes second does not overtake the first.
        meet
            Told of each block that keeps a place from being tried.
        """
        while not self.is_exhausted and not self.is_planning:
            candidate = self.candidates[self._cursor]
            if any(tier != candidate.request.tier for tier in tiers):
                return None
            block = next((b for b in self.blocks if b.is_live(now) and b.matches(candidate)), None)
            if block is None and self._may_be_tried(candidate):
                return candidate
            self._cursor += 1
            if block is not None:
                meet(block)
                self._skipped += 1
                self.is_planning = (
                    self.can_replan and not self._plans_fail and self._skipped >= SKIPS
                )
        return None

    def _may_be_tried(self, candidate: Candidate) -> bool:
        if candidate.is_sold_out and self._has_tried_sold_out:
            return False  # of what its cloud says is not there the best is tried, once a pass: the word may be out of date, but hardly so often
        return candidate.offer.key not in self._tried and (
            self.ceiling is None or candidate.hourly <= self.ceiling
        )

    def take(self, candidate: Candidate) -> None:
        """A place is tried."""
        self._tried.add(candidate.offer.key)
        self._has_tried_sold_out = self._has_tried_sold_out or candidate.is_sold_out
        self._cursor += 1
        self._skipped = 0

    def replanned(self, candidates: Sequence[Candidate] | None) -> None:
        """Go on with another plan; without one, with what is left of the old until the next pass asks again."""
        self.is_planning, self._skipped = False, 0
        self._plans_fail = candidates is None
        if candidates is None:
            return
        self.candidates, self._cursor = candidates, 0

    def begin_again(self) -> bool:
        """Try every place anew; whether that needs a new plan."""
        self._tried.clear()
        self._has_tried_sold_out = False
        self._cursor = self._skipped = 0
        self._plans_fail = False
        self.is_planning = self.can_replan
        return self.is_planning


class Unranked(Sequence[Candidate]):
    """The candidates of a later plan: their ranks are not those of the plan that is shown."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._candidates = candidates

    def __len__(self) -> int:
        return len(self._candidates)

    @overload
    def __getitem__(self, index: int) -> Candidate: ...
    @overload
    def __getitem__(self, index: slice) -> Unranked: ...
    def __getitem__(self, index: int | slice) -> Candidate | Unranked:
        if isinstance(index, slice):
            return Unranked(self._candidates[index])
        return replace(self._candidates[index], rank=-1)
