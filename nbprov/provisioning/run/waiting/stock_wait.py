"""Whether a run that found no stock waits, and when it tries again. Pure: time is a parameter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from nbprov.model.blocks import Block
from nbprov.model.clock import Instant, Seconds
from nbprov.model.failures import Cause

STOCK = frozenset({Cause.CAPACITY, Cause.SPOT, Cause.QUOTA})
"""Causes that pass with time: somebody gives a machine back, or one of ours ends."""

LEAST_PAUSE: Seconds = 30.0
"""The time between the first two passes, and the least between any others.

A pass asks every cloud of the plan, and their rate limits are per minute.
"""

LONGEST_PAUSE: Seconds = 600.0
"""The pause doubles from pass to pass up to this.

A refused create costs nothing, and the stock of many GPUs comes and goes within minutes.
"""

LAST_PASS: Seconds = 10.0
"""The last pass begins this long before the wait ends, so that its creates are still sent."""

LOOK_EVERY: Seconds = 15.0
"""How often a run that waits reads the blocks again.

Another kernel may have cleared one, or ended a machine that used up a quota.
"""


@dataclass(slots=True)
class StockWait:
    """How long a run waits for stock, and what for.

    Parameters
    ----------
    until
        When the run gives up; 0 where it makes one pass only.
    least_pause
        The least time between two passes.
    passes
        How often the places were tried, counting the pass that goes on.
    own
        The patterns of the blocks that this run's own failures made. A later pass tries those
        places again: a block keeps other launches away, and not the one that waits for the place.
    """

    until: Instant = 0.0
    least_pause: Seconds = LEAST_PAUSE
    passes: int = 1
    next_pass: Instant | None = None
    _rests_since: Instant = 0.0
    causes: set[Cause] = field(default_factory=set)
    own: set[tuple[str, ...]] = field(default_factory=set)
    _met: dict[tuple[str, ...], Block] = field(default_factory=dict)
    _lifted: dict[tuple[str, ...], Instant] = field(default_factory=dict)
    _made_last_pass: bool = False

    @property
    def is_waiting(self) -> bool:
        """Whether nothing is tried until the next pass."""
        return self.next_pass is not None

    def meet(self, block: Block) -> None:
        """Note a block that kept a place of this run from being tried."""
        self.causes.add(block.cause)
        self._met[block.pattern] = block

    def learn(self, block: Block) -> None:
        """Note a block that a failure of this run's own made."""
        self.own.add(block.pattern)
        self.meet(block)

    def holding(self, blocks: Iterable[Block]) -> list[Block]:
        """Return the blocks that hold in this pass: those met before a pass are tried again."""
        return [b for b in blocks if b.expires > self._lifted.get(b.pattern, 0.0)]

    def may_wait(self, now: Instant) -> bool:
        """Whether a run that has tried all places waits: there is time, and stock was missing."""
        return now < self.until and bool(self.causes & STOCK)

    def may_start(self, now: Instant) -> bool:
        """Whether a pass may try another place; not once the wait is over."""
        return self.passes == 1 or now < self.until

    def rest(self, now: Instant) -> None:
        """End a pass over the places, and set when the next one begins.

        It begins after a rest, which is twice as long each time, or earlier if a block of another
        launch ends. A last pass is made shortly before the wait is over.
        """
        self._met = {pattern: block for pattern, block in self._met.items() if block.is_live(now)}
        pause = min(max(self.least_pause, LONGEST_PAUSE), self.least_pause * 2 ** (self.passes - 1))
        ends = [b.expires for pattern, b in self._met.items() if pattern not in self.own]
        following = min(now + pause, max(now + self.least_pause, min(ends, default=self.until)))
        if following > self.until - LAST_PASS:
            following = self._last_pass(now)
        self.next_pass, self._rests_since = following, now

    def _last_pass(self, now: Instant) -> Instant:
        if self._made_last_pass:
            return self.until
        self._made_last_pass = True
        # A wait that is shorter than that is tried again in the middle of it.
        return max(self.until - LAST_PASS, now + (self.until - now) / 2)

    def compare(self, blocks: Iterable[Block], now: Instant) -> None:
        """End the rest at once if a block that this run met is gone before its time."""
        live = {block.pattern for block in blocks if block.is_live(now)}
        gone = [
            pattern
            for pattern, block in self._met.items()
            if block.is_live(now) and pattern not in live
        ]
        for pattern in gone:
            del self._met[pattern]
        if gone and self.is_waiting:
            self.next_pass = now

    def prolong(self, until: Instant) -> None:
        """Wait until a later time, with another last pass before that."""
        self.until = max(self.until, until)
        self._made_last_pass = False

    def hurry(self, now: Instant) -> None:
        """Begin the next pass as soon as the least pause allows: there is stock again."""
        if self.next_pass is not None:
            self.next_pass = min(self.next_pass, max(now, self._rests_since + self.least_pause))

    def is_due(self, now: Instant) -> bool:
        """Whether the next pass begins now.

        It does also where the clock was set back, which hides how long the run has rested.
        """
        return (
            self.next_pass is not None
            and now < self.until
            and not self._rests_since <= now < self.next_pass
        )

    def begin_pass(self) -> None:
        """Begin another pass, which the blocks of this run's own failures do not hinder.

        The causes stay: stock is missing until something else is learnt.
        """
        self.next_pass = None
        self.passes += 1
        for pattern in self.own & self._met.keys():
            if self._met[pattern].cause in STOCK:
                self._lifted[pattern] = self._met.pop(pattern).expires

    def pause(self, now: Instant) -> Seconds:
        """How long nothing needs to be looked at."""
        return 0.0 if self.next_pass is None else max(0.0, min(self.next_pass - now, LOOK_EVERY))
