"""When another place is tried beside the attempts that run. Pure: time is a parameter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nbprov.model.clock import Seconds
from nbprov.model.clusters import AttemptState
from nbprov.model.offers import Candidate
from nbprov.provisioning.run.attempt import Attempt

UNACCEPTED = (AttemptState.INTENT, AttemptState.SENT, AttemptState.UNKNOWN)
"""States in which the cloud has not accepted the create."""


def always(racing: Sequence[Candidate], candidate: Candidate) -> bool:
    """Let the budget pay for every candidate that joins a race."""
    return True


@dataclass(frozen=True, slots=True)
class Hedging:
    """When one more place is tried beside attempts that are overdue.

    Each overdue attempt lets one more place be tried beside it. An attempt that failed is not
    overdue. It counts among those that run until its machine is confirmed gone; places of the same
    tier do not wait for that, those of another tier do.

    Parameters
    ----------
    width
        How many attempts may run at once.
    after
        How long an attempt at a candidate may take before it counts as overdue.
    until_ready
        An attempt is overdue until it is ready. Otherwise only until its cloud has accepted it.
    affords
        Whether the budget pays for a candidate beside those that race.
    """

    width: int = 1
    after: Callable[[Candidate], Seconds] = lambda candidate: 0.0
    until_ready: bool = False
    affords: Callable[[Sequence[Candidate], Candidate], bool] = always

    def lets_join(self, active: Iterable[Attempt], elapsed: Seconds) -> bool:
        """Whether one more place may be tried beside these attempts."""
        hopeful = [a for a in active if a.state is not AttemptState.ENDING]
        return len(hopeful) < 1 + sum(elapsed >= self._due(a) for a in hopeful)

    def next_due(self, active: Iterable[Attempt], elapsed: Seconds) -> Seconds | None:
        """When the next of these attempts becomes overdue; None where none will."""
        times = [
            due
            for a in active
            if a.state is not AttemptState.ENDING and elapsed < (due := self._due(a)) < float("inf")
        ]
        return min(times, default=None)

    def _due(self, attempt: Attempt) -> Seconds:
        if not self.until_ready and attempt.state not in UNACCEPTED:
            return float("inf")
        return attempt.begun + self.after(attempt.candidate)
