"""How a run orders places, how many it tries at once, how long it waits, and when it asks."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from .clock import Seconds
from .errors import UsageError
from .money import Micros


class OrderPolicy(StrEnum):
    """What decides the order inside a tier."""

    CHEAPEST = "cheapest"
    SOONEST = "soonest"
    BALANCED = "balanced"


@dataclass(frozen=True, slots=True)
class Race:
    """How many machines may be tried at once.

    Attributes
    ----------
    width
        1 tries one place at a time.
    hedge
        Seconds after which another place is tried beside one that is not ready. None waits only
        for the cloud's answer: another place is tried beside one that has not accepted within its
        cloud's usual time.

    Examples
    --------
    >>> Race(2, hedge=4.0).widened(3, hedge=20.0), Race().widened(3, hedge=20.0)
    (Race(width=3, hedge=4.0), Race(width=3, hedge=20.0))
    """

    width: int = 2
    hedge: Seconds | None = None

    def widened(self, width: int, *, hedge: Seconds) -> Race:
        """This race with another width, and with this hedge where it has none of its own.

        Raises
        ------
        UsageError
            If the width is less than 1.
        """
        if width < 1:
            raise UsageError(
                f"a race needs at least 1 attempt at a time, not {width}",
                hint="--race 1 tries one place after the other",
            )
        return Race(width, hedge if self.hedge is None else self.hedge)


@dataclass(frozen=True, slots=True)
class WaitPolicy:
    """How long to watch for stock after every place has refused for capacity, spot or quota.

    Attributes
    ----------
    seconds
        0 tries every place once.
    notify
        Whether to notify the person when it ends.
    webhook
        The address that the end is posted to. Whoever knows it can post there, so it is neither
        shown nor stored.
    """

    seconds: Seconds = 0.0
    notify: bool = False
    webhook: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class ConfirmAbove:
    """What a run may not do without asking again, beyond what Launch consented to.

    If it is empty nothing is asked.

    Attributes
    ----------
    jump
        Share (0.2 is 20 %) by which a place may be dearer than the first one.
    hourly, total
        Of the whole cluster.
    """

    jump: float | None = None
    hourly: Micros | None = None
    total: Micros | None = None
