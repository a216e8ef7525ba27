"""Tracks machines that a listing lacks: one listing without a machine is not yet its end."""

from __future__ import annotations

from collections.abc import Collection

from nbprov.model.clock import Seconds


class AbsenceTracker:
    """Knows since when each machine has been missing from its cloud's listing.

    Listings are eventually consistent: a machine that runs may be missing from one. It counts as
    gone once a second listing lacks it too, which was asked for at least the cloud's `settle`
    after the first one was answered.

    Examples
    --------
    >>> absences = AbsenceTracker()
    >>> absences.look("c", {"i-1"}, set(), asked=0.0, answered=1.0, settle=10.0)
    (set(), {'i-1'})
    >>> absences.look("c", {"i-1"}, set(), asked=11.0, answered=11.5, settle=10.0)
    ({'i-1'}, set())
    """

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], Seconds] = {}

    def look(
        self,
        cluster_id: str,
        expected: Collection[str],
        listed: Collection[str],
        *,
        asked: Seconds,
        answered: Seconds,
        settle: Seconds,
    ) -> tuple[set[str], set[str]]:
        """Take a listing into account.

        Parameters
        ----------
        expected, listed
            Ids that the cluster should have, and those that are listed in whatever state.
        asked, answered
            When the listing was asked for and when it came, on a clock that never jumps.

        Returns
        -------
        tuple
            Ids that are surely gone, and ids of which nothing can be said yet.
        """
        for found in listed:
            self._since.pop((cluster_id, found), None)
        absent = set(expected) - set(listed)
        since = {i: self._since.setdefault((cluster_id, i), answered) for i in absent}
        gone = {i for i, first in since.items() if first <= asked and asked - first >= settle}
        return gone, absent - gone

    def found(self, cluster_id: str, instance_id: str) -> None:
        """Drop what is known of one machine, whose fate is settled."""
        self._since.pop((cluster_id, instance_id), None)

    def any_of(self, cluster_id: str) -> bool:
        """Whether a machine of this cluster is missing."""
        return any(missing == cluster_id for missing, _ in self._since)

    def forget(self, cluster_id: str) -> None:
        """Drop what is known of a cluster that has ended."""
        for key in [k for k in self._since if k[0] == cluster_id]:
            del self._since[key]
