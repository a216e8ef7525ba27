"""What a run has to do and could not write down yet, since its ledger cannot be written."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nbprov.model.clock import Seconds
from nbprov.model.clusters import RunState
from nbprov.provisioning.run import events

FIRST_PAUSE: Seconds = 0.2
MOST_PAUSE: Seconds = 5.0
"""The longest pause between two tries to write to a ledger that is locked or full."""

_URGENT = (events.Abandon, events.End, events.Resolve)
"""Actions that only end something, or look for it: they wait for no write."""


class HeldActions:
    """The actions of one run that are to be written down first, in their order. Pure.

    Nothing is created before the ledger has it. What only ends machines is carried out at once.

    Attributes
    ----------
    since
        When the first write failed; None while all is written.
    """

    def __init__(self) -> None:
        self.actions: list[events.Action] = []
        self.since: Seconds | None = None
        self.retry_at: Seconds | None = None
        self._pause = FIRST_PAUSE
        self._carried: set[int] = set()

    def add(self, actions: Iterable[events.Action]) -> None:
        """Add what follows from an event."""
        self.actions += actions

    def failed(self, now: Seconds) -> list[events.Action]:
        """Note that they could not be written; those of them that are to be carried out now."""
        self.since = now if self.since is None else self.since
        self.retry_at = now + self._pause
        self._pause = min(MOST_PAUSE, self._pause * 2)
        urgent = [
            number
            for number, action in enumerate(self.actions)
            if isinstance(action, _URGENT) and number not in self._carried
        ]
        self._carried |= {*urgent}
        return [self.actions[number] for number in urgent]

    def written(self) -> list[events.Action]:
        """Note that they were written; those of them that are left to be carried out."""
        ended = {
            action.token: number
            for number, action in enumerate(self.actions)
            if isinstance(action, _URGENT) and number in self._carried
        }
        left = [
            action
            for number, action in enumerate(self.actions)
            if number not in self._carried
            and not (
                isinstance(action, events.Follow | events.Prepare)
                and ended.get(action.token, -1) > number
            )
        ]
        self.actions, self.since, self.retry_at = [], None, None
        self._carried, self._pause = set(), FIRST_PAUSE
        return left

    def withdraw(self, is_unwanted: Callable[[str], bool]) -> list[events.Submit]:
        """Take out the creates that nobody wants any more; none of them was sent."""
        taken = [
            (number, action)
            for number, action in enumerate(self.actions)
            if isinstance(action, events.Submit)
            and number not in self._carried
            and is_unwanted(action.token)
        ]
        self._carried |= {number for number, _ in taken}
        return [action for _, action in taken]

    @property
    def end(self) -> events.Finish | None:
        """The end of the run where nothing of it is left on the bill."""
        for action in self.actions:
            if isinstance(action, events.Finish) and action.state in (
                RunState.CANCELLED,
                RunState.FAILED,
            ):
                return action
        return None
