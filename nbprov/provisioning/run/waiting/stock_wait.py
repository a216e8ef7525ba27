"""Whether a run that found no stock waits, and when it tries again. Pure: time is a parameter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from nbprov.model.blocks import Block
from nbprov.model.clock import Instant, Seconds
from nbprov.model.failures import Cause

STOCK = frozenset({Cause.CAPACITY, Cause.SPOT, Cause.QUOTA})
"""Causes that pass with time: somebody gives a machine back, or one of ours ends."""

HOPELESS = frozenset(
    {Cause.CREDENTIALS, Cause.BALANCE, Cause.PERMISSION, Cause.BAD_REQUEST, Cause.UNHEALTHY}
)
"""Causes that do not pass with time.

A machine that was bought and did not work is one: every pass would buy it again.
"""

LEAST_PAUSE: Seconds = 30.0
"""The least time between two passes, whatever the blocks say.

A pass asks every cloud of the plan, and their rate limits are per minute.
"""

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
    """

    until: Instant = 0.0
    least_pause: Seconds = LEAST_PAUSE
    passes: int = 1
    next_pass: Instant | None = None
    _rests_since: Instant = 0.0
    causes: set[Cause] = field(default_factory=set)
    _met: dict[tuple[str, ...], Block] = field(default_factory=dict)

    @property
    def is_waiting(self) -> bool:
        """Whether nothing is tried until the next pass."""
        return self.next_pass is not None

    def meet(self, block: Block) -> None:
        """Note a block that kept a place of this run from being tried."""
        self.causes.add(block.cause)
        self._met[block.pattern] = block

    def may_wait(self, now: Instant) -> bool:
        """Whether a run whose places are exhausted waits.

        It waits if stock was missing and no failure stands in the way that time does not mend.
        """
        return now < self.until and bool(self.causes & STOCK) and not self.causes & HOPELESS

    def may_start(self, now: Instant) -> bool:
        """Whether a pass may try another place; not once the wait is over."""
        return self.passes == 1 or now < self.until

    def rest(self, now: Instant) -> None:
        """End a pass: wait until the first block that it met expires, and at least the pause."""
        self._met = {pattern: block for pattern, block in self._met.items() if block.is_live(now)}
        ends = [block.expires for block in self._met.values()]
        self.next_pass = min(self.until, max(now + self.least_pause, min(ends, default=now)))
        self._rests_since = now

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
        """Begin another pass. The causes stay: stock is missing until something else is learnt."""
        self.next_pass = None
        self.passes += 1

    def pause(self, now: Instant) -> Seconds:
        """How long nothing needs to be looked at."""
        return 0.0 if self.next_pass is None else max(0.0, min(self.next_pass - now, LOOK_EVERY))
