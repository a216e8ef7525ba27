"""The results of refreshes, and the state of each cloud's prices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from nbprov.clouds.pricing.fetcher import Progress
from nbprov.clouds.web.error_text import PROXY_LOGIN, WEB_PAGE
from nbprov.clouds.web.proxies import BAD_PROXY
from nbprov.model.clock import Instant, Seconds

from .cloud_folder import Owner
from .policy import RefreshPolicy
from .price_diff import Differences, words

if TYPE_CHECKING:
    from pandas import DataFrame


class Outcome(StrEnum):
    """The outcome of one cloud's refresh.

    UPDATED
        New files are in place.
    CURRENT
        The files in place are what the service has.
    EDITED
        Files that were edited by hand stay; nothing was fetched.
    PASSED
        The cloud's policy is never, and the refresh did not name it.
    OFFLINE
        No service answered.
    FAILED
        The prices could not be fetched or used; the prices in place stay.
    STOPPED
        A person stopped the refresh before this cloud was done; the prices in place stay.
    """

    UPDATED = "updated"
    CURRENT = "current"
    EDITED = "edited"
    PASSED = "passed over"
    OFFLINE = "offline"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class CloudRefresh:
    """The result of one cloud's refresh.

    Attributes
    ----------
    source, url
        `hosted` or `provider`, and the address or the list's own name.
    rows
        Price rows in the files now; 0 where none were written.
    differences
        The changes against the prices that were in place before.
    failed
        Regions that could not be read, with the reason; their old rows stay.
    notes
        Remarks on the new prices, for people to read.
    message, hint, code
        Why the prices were not renewed and what to do next; empty after a success.
    """

    cloud: str
    outcome: Outcome
    source: str = ""
    url: str = ""
    rows: int = 0
    received: int = 0
    seconds: Seconds = 0.0
    differences: Differences = field(default_factory=lambda: Differences(()))
    failed: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    message: str = ""
    hint: str = ""
    code: str = ""

    @property
    def ok(self) -> bool:
        """Whether the prices in place are current, or kept by hand."""
        return self.outcome in (Outcome.UPDATED, Outcome.CURRENT, Outcome.EDITED, Outcome.PASSED)

    def sentence(self) -> str:
        """The result in one line."""
        if self.outcome is Outcome.UPDATED:
            return f"{self.rows:,} rows; prices: {words(self.differences.counts())}"
        if self.outcome is Outcome.CURRENT:
            return self.message or "nothing has changed at the source"
        return self.message


OFFLINE = "catalog.offline"
"""Prefix of the code of an `Outcome.OFFLINE`; the cause follows it."""
_NOBODY = {
    f"{OFFLINE}.{BAD_PROXY}": "the address of this computer's proxy cannot be used"
    " (HTTPS_PROXY=http://HOST:PORT)",
    f"{OFFLINE}.{WEB_PAGE}": "a web page of this network came instead of prices, does it ask for"
    " a login?",
    f"{OFFLINE}.{PROXY_LOGIN}": "the proxy wants a login"
    " (HTTPS_PROXY=http://NAME:PASSWORD@HOST:PORT)",
}


class Refreshed(Sequence[CloudRefresh]):
    """The results of a refresh, cloud by cloud.

    Examples
    --------
    >>> done = nbprov.refresh_prices(["gcp", "lambda"])   # doctest: +SKIP
    >>> done["gcp"].differences.counts()                  # doctest: +SKIP
    {'up': 0, 'down': 12, 'new': 3, 'gone': 0}
    """

    def __init__(self, clouds: Iterable[CloudRefresh]) -> None:
        self._clouds = tuple(clouds)

    def __len__(self) -> int:
        return len(self._clouds)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str):
            found = next((cloud for cloud in self._clouds if cloud.cloud == index), None)
            if found is None:
                raise KeyError(index)
            return found
        return self._clouds[index]

    def __iter__(self) -> Iterator[CloudRefresh]:
        return iter(self._clouds)

    @property
    def ok(self) -> bool:
        """Whether every cloud's prices are current, or kept by hand."""
        return all(cloud.ok for cloud in self._clouds)

    @property
    def is_offline(self) -> bool:
        """Whether no service answered."""
        asked = [
            cloud for cloud in self._clouds if cloud.outcome not in (Outcome.EDITED, Outcome.PASSED)
        ]
        return bool(asked) and all(cloud.outcome is Outcome.OFFLINE for cloud in asked)

    def sentence(self) -> str:
        """The results of all clouds in one line."""
        if self.is_offline:
            codes = {cloud.code for cloud in self._clouds if cloud.outcome is Outcome.OFFLINE}
            why = _NOBODY.get(codes.pop(), "") if len(codes) == 1 else ""
            return f"offline: {why or 'no price source could be reached'}; the prices in place stay"
        counts = {
            outcome: sum(1 for cloud in self._clouds if cloud.outcome is outcome)
            for outcome in Outcome
        }
        told = ", ".join(f"{n} {outcome.value}" for outcome, n in counts.items() if n)
        return f"prices: {told}" if told else "no cloud was to be refreshed"

    def to_frame(self) -> DataFrame:
        """Return a pandas table with one row a cloud."""
        import pandas as pd

        rows = [
            {
                "cloud": c.cloud,
                "outcome": c.outcome.value,
                "source": c.source,
                "rows": c.rows,
                **c.differences.counts(),
                "received": c.received,
                "seconds": round(c.seconds, 3),
                "message": c.sentence(),
                "code": c.code,
            }
            for c in self._clouds
        ]
        columns = [
            "cloud",
            "outcome",
            "source",
            "rows",
            "up",
            "down",
            "new",
            "gone",
            "received",
            "seconds",
            "message",
            "code",
        ]
        return pd.DataFrame(rows, columns=columns)

    def __repr__(self) -> str:
        return f"<{self.sentence()}>"


@dataclass(frozen=True, slots=True)
class CloudStatus:
    """The state of one cloud's prices.

    Attributes
    ----------
    source
        `shipped`, `hosted`, `provider`, or `yours` where they were written by hand; empty where
        there are none.
    owner
        Whose the files are.
    fetched
        When they were last known to be current; 0 for prices that no refresh wrote.
    next_refresh
        When the next automatic refresh is due; None if none is.
    edited
        Files that were changed by hand, which no refresh overwrites.
    changes
        What the last refresh changed, by kind.
    error
        What went wrong with the last refresh; empty after a success.
    """

    cloud: str
    source: str
    owner: Owner
    fetched: Instant
    policy: RefreshPolicy
    next_refresh: Instant | None
    edited: tuple[str, ...] = ()
    changes: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class RefreshStep:
    """The progress of one cloud's refresh.

    Attributes
    ----------
    doing
        In a word or two: `waiting`, `asking`, `reading`, `checking`.
    progress
        The fetch's own progress.
    result
        The result, once the refresh is over.
    """

    cloud: str
    doing: str
    progress: Progress | None = None
    result: CloudRefresh | None = None


Watch = Callable[[RefreshStep], object]
"""Called with every step, from any thread."""


def interrupted(done: Mapping[str, CloudRefresh]) -> str:
    """Say what was renewed by a refresh that was interrupted."""
    names = sorted(name for name, result in done.items() if result.outcome is Outcome.UPDATED)
    renewed = f"renewed before that: {', '.join(names)}" if names else "no cloud was renewed"
    return f"the refresh was interrupted; {renewed}, all others stay as they were"
