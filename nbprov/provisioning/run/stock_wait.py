"""Waiting for stock: whether a run that found nothing waits, and when it tries again. Pure: readings of time are handed in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from nbprov.model.clock import Instant, Seconds
from nbprov.model.failures import Cause
from nbprov.model.offers import Block

STOCK = frozenset({Cause.CAPACITY, Cause.SPOT, Cause.QUOTA})
"""What time mends: somebody gives a machine back, or one of our own ends."""

HOPELESS = frozenset(
    {Cause.CREDENTIALS, Cause.BALANCE, Cause.PERMISSION, Cause.BAD_REQUEST, Cause.UNHEALTHY}
)
"""What time does not mend. A machine that was bought and did not work is one of them: it would be bought again with every pass."""

LEAST_PAUSE: Seconds = 30.0
"""Between two passes, whatever the blocks say: a pass asks every cloud of the plan, and their rate limits are per minute."""

LOOK_EVERY: Seconds = 15.0
"""While a run waits, blocks are read again this often: another kernel may have cleared them, or ended a machine that used up a quota."""


@dataclass(slots=True)
class Patience:
    """How long a run waits for stock, and what it waits for.

    Parameters
    ----------
    until
        When it gives up; 0 where one pass is all.
    least_pause
        Between two passes.
    passes
        How often the places were tried, the pass that goes on included.
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
        """Whether a run whose places are exhausted waits: stock was what was missing, and nothing stands in the way that time does not mend."""
        return now < self.until and bool(self.causes & STOCK) and not self.causes & HOPELESS

    def may_start(self, now: Instant) -> bool:
        """Whether a pass may try a further place: a wait that is over begins nothing more."""
        return self.passes == 1 or now < self.until

    def rest(self, now: Instant) -> None:
        """A pass has ended: wait until the first of the blocks that it met ends, but at least the pause."""
        self._met = {pattern: block for pattern, block in self._met.items() if block.is_live(now)}
        ends = [block.expires for block in self._met.values()]
        self.next_pass = min(self.until, max(now + self.least_pause, min(ends, default=now)))
        self._rests_since = now

    def look(self, blocks: Iterable[Block], now: Instant) -> None:
        """Compare with the blocks that hold now: one that was cleared before its time ends the rest at once."""
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
        """There is stock again: the next pass begins as soon as the least pause allows."""
        if self.next_pass is not None:
            self.next_pass = min(self.next_pass, max(now, self._rests_since + self.least_pause))

    def is_due(self, now: Instant) -> bool:
        """Whether the next pass begins now. A clock that was set back says nothing of how long it rested: then it does."""
        return (
            self.next_pass is not None
            and now < self.until
            and not self._rests_since <= now < self.next_pass
        )

    def begin(self) -> None:
        """A further pass begins. That it was stock that was missing stays true until something else is learnt."""
        self.next_pass = None
        self.passes += 1

    def pause(self, now: Instant) -> Seconds:
        """How long nothing needs to be looked at."""
        return 0.0 if self.next_pass is None else max(0.0, min(self.next_pass - now, LOOK_EVERY))
