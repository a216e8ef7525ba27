"""Outages of clouds: which of them cannot be listed, and since when."""

from __future__ import annotations

from collections.abc import Collection

from nbprov.model.clock import Seconds
from nbprov.provisioning.supervision.outages import Streak

CLOUD_SAID: Seconds = 600.0
"""A cloud is reported as out of reach after this long.

Being offline for less is everyday life.
"""

REFUSED_ROUNDS = 2
"""A refusal of the account is reported in this round of failures: one may be the cloud's slip."""


class CloudOutage:
    """Since when one cloud cannot be listed."""

    def __init__(self) -> None:
        self._rounds = Streak()

    def failed(self, now: Seconds, *, is_refusal: bool) -> bool:
        """Note that a round failed; whether it is to be reported, in this and all later rounds.

        Parameters
        ----------
        is_refusal
            The account was refused, which does not pass by itself.
        """
        self._rounds.failed(now)
        return self._rounds.count >= REFUSED_ROUNDS and (
            is_refusal or self._rounds.span >= CLOUD_SAID
        )

    @property
    def span(self) -> Seconds:
        """Seconds from the first failed round to the last."""
        return self._rounds.span


class CloudOutages:
    """The clouds that could not be listed the last time, by their names."""

    def __init__(self) -> None:
        self._unlisted: set[str] = set()
        self._outages: dict[str, CloudOutage] = {}

    def is_out(self, name: str) -> bool:
        """Whether a cloud could not be listed the last time: it cannot end anything either."""
        return name in self._unlisted

    def failed(self, name: str) -> None:
        """Note that a cloud could not be listed."""
        self._unlisted.add(name)

    def listed(self, name: str) -> None:
        """Note that a cloud was listed."""
        self._unlisted.discard(name)

    def of(self, name: str) -> CloudOutage:
        """The outage of a cloud that could not be looked at in a whole round."""
        return self._outages.setdefault(name, CloudOutage())

    def end(self, name: str) -> None:
        """Note that a round over a cloud went well."""
        self._outages.pop(name, None)

    def keep(self, names: Collection[str]) -> None:
        """Forget the outages of all other clouds."""
        self._outages = {name: o for name, o in self._outages.items() if name in names}

    def __len__(self) -> int:
        return len(self._outages)
