"""The candidates of a plan in the order of attempts: which one comes next, and when to replan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import overload

from nbprov.model.blocks import Block
from nbprov.model.clock import Instant
from nbprov.model.money import Micros
from nbprov.model.offers import Candidate

from .exclusions import Exclusion
from .waiting.stock_wait import STOCK

SKIPS = 100
"""After this many blocked candidates in a row the rest is planned again.

A block over a whole cloud removes thousands, and each would be built only to be skipped.
"""


LOOKED_AHEAD = 25
"""So many candidates are looked at to tell which one comes next."""


@dataclass(slots=True)
class CandidateQueue:
    """The candidates that a run has yet to try.

    Parameters
    ----------
    candidates
        In the order of attempts.
    blocks
        The blocks that hold now.
    ceiling
        The most that Launch agreed to, for the whole cluster an hour; dearer candidates are
        passed over.
    is_simulated
        Launch was told that nobody pays, so that no place is taken for which somebody does.
    can_replan
        Whether somebody answers when a new plan is asked for.
    exclusions
        What this run never tries again.
    has_alternatives
        Whether the spec has several alternatives. A plan has each offer for one of them.
    """

    candidates: Sequence[Candidate] = ()
    blocks: list[Block] = field(default_factory=list)
    ceiling: Micros | None = None
    is_simulated: bool = False
    can_replan: bool = False
    exclusions: list[Exclusion] = field(default_factory=list)
    has_alternatives: bool = False
    is_planning: bool = False
    _cannot_plan: bool = False
    _cursor: int = 0
    _skipped: int = 0
    _postponed: set[str] = field(default_factory=set)
    _tried: set[tuple[str, ...]] = field(default_factory=set)
    _has_tried_sold_out: bool = False

    @property
    def is_exhausted(self) -> bool:
        """Whether no candidate is left to be looked at."""
        return self._cursor >= len(self.candidates) and not self._postponed

    def next(
        self, now: Instant, tiers: Collection[int], meet: Callable[[Block], object]
    ) -> Candidate | None:
        """The next candidate that may be tried; it stays in the queue until it is taken.

        Parameters
        ----------
        tiers
            The preference tiers of the attempts that run. A race stays within one tier, so that a
            second choice does not overtake the first.
        meet
            Called with each block that keeps a candidate from being tried.
        """
        while not self.is_exhausted and not self.is_planning:
            if self._cursor >= len(self.candidates):
                self._postponed.clear()
                self._cursor = 0
                continue
            candidate = self.candidates[self._cursor]
            if any(tier != candidate.request.tier for tier in tiers):
                return None
            block = next((b for b in self.blocks if b.is_live(now) and b.matches(candidate)), None)
            is_later = candidate.offer.cloud in self._postponed
            if block is None and not is_later and self._may_be_tried(candidate):
                return candidate
            self._cursor += 1
            if block is not None:
                meet(block)
                self._skipped += 1
                self.is_planning = (
                    self.can_replan and not self._cannot_plan and self._skipped >= SKIPS
                )
        return None

    def following(self, now: Instant) -> Candidate | None:
        """The candidate that would be tried next, whatever its tier, for displays. Any thread.

        None where all of the next `LOOKED_AHEAD` are blocked or come last, or there is none.
        """
        candidates, first = self.candidates, self._cursor
        for at in range(first, min(len(candidates), first + LOOKED_AHEAD)):
            candidate = candidates[at]
            if candidate.offer.cloud in self._postponed:
                continue
            is_blocked = any(b.is_live(now) and b.matches(candidate) for b in list(self.blocks))
            if not is_blocked and self._may_be_tried(candidate):
                return candidate
        return None

    def may_return(self, now: Instant) -> bool:
        """Whether stock alone is lacking for some candidate, or no candidate is known yet."""
        lasting = [b for b in self.blocks if b.is_live(now) and b.cause not in STOCK]
        return not len(self.candidates) or any(
            not self._is_excluded(candidate) and not any(b.matches(candidate) for b in lasting)
            for candidate in self.candidates
        )

    def postpone(self, cloud: str) -> None:
        """Try the candidates of a cloud after those of all others; none of them is left out."""
        self._postponed.add(cloud)

    def exclude(self, exclusion: Exclusion) -> bool:
        """Never try candidates like one again; return whether that needs a new plan.

        It does where another alternative of the spec may take the offers of the excluded one.
        """
        self.exclusions.append(exclusion)
        if not (self.can_replan and self.has_alternatives and exclusion.frees_offers):
            return False
        self.is_planning = True
        return True

    def _is_excluded(self, candidate: Candidate) -> bool:
        return any(exclusion.matches(candidate) for exclusion in self.exclusions)

    def _may_be_tried(self, candidate: Candidate) -> bool:
        if self._is_excluded(candidate) or (self.is_simulated and not candidate.offer.is_simulated):
            return False
        if candidate.is_sold_out and self._has_tried_sold_out:
            # Of the candidates that their clouds call sold out, one is tried in each pass: the
            # word may be out of date, but hardly for all of them.
            return False
        is_affordable = self.ceiling is None or candidate.hourly <= self.ceiling
        return is_affordable and candidate.key not in self._tried

    def take(self, candidate: Candidate) -> None:
        """Remove the candidate that `next` returned: it is tried."""
        self._tried.add(candidate.key)
        self._has_tried_sold_out = self._has_tried_sold_out or candidate.is_sold_out
        self._cursor += 1
        self._skipped = 0

    def replace_plan(self, candidates: Sequence[Candidate] | None) -> None:
        """Go on with another plan.

        None where no plan could be made: the old one goes on, and the next pass asks again.
        """
        self.is_planning, self._skipped = False, 0
        self._cannot_plan = candidates is None
        if candidates is None:
            return
        self.candidates, self._cursor = candidates, 0

    def begin_again(self) -> bool:
        """Try every candidate again; return whether that needs a new plan."""
        self._tried.clear()
        self._has_tried_sold_out = False
        self._postponed.clear()
        self._cursor = self._skipped = 0
        self._cannot_plan = False
        self.is_planning = self.can_replan
        return self.is_planning


class UnrankedCandidates(Sequence[Candidate]):
    """The candidates of a later plan. They have no rank: the table numbers the first plan's."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._candidates = candidates

    def __len__(self) -> int:
        return len(self._candidates)

    @overload
    def __getitem__(self, index: int) -> Candidate: ...
    @overload
    def __getitem__(self, index: slice) -> UnrankedCandidates: ...
    def __getitem__(self, index: int | slice) -> Candidate | UnrankedCandidates:
        if isinstance(index, slice):
            return UnrankedCandidates(self._candidates[index])
        return replace(self._candidates[index], rank=-1)
