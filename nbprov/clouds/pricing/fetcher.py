"""The contract of a cloud's price fetcher.

A fetcher is the function `fetcher() -> Fetcher` in `prices.py` of its cloud's folder, and is found
by that name. A cloud from outside this tree registers one under the entry point group
`nbprov.prices`. A fetcher needs no adapter, because most price lists are public.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from importlib.util import find_spec

from nbprov.clouds.web.client import HttpClient
from nbprov.model.clock import Seconds
from nbprov.model.price_list import PriceList

ENTRY_POINT_GROUP = "nbprov.prices"
FETCH_SECONDS: Seconds = 900.0
"""How long one cloud's fetch may take: AWS serves up to 190 MB for each region, which take minutes
on a slow line."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a fetch.

    `done` of `total` parts (0 if unknown), the current part, and bytes so far.
    """

    done: int
    total: int
    what: str
    received: int = 0


def _silent(progress: Progress) -> None:
    """Ignore the progress."""


@dataclass(frozen=True, slots=True)
class FetchContext:
    """The inputs of a fetch.

    Attributes
    ----------
    http
        The web client; it obeys the caller's stop at every request and every chunk.
    today
        The date of prices that are read now, `YYYY-MM-DD`.
    regions
        The regions to read; if empty, the fetcher chooses.
    keys
        Credentials by name (`api_key`), if the caller gives any; otherwise a fetcher looks in its
        cloud's usual places. Never shown.
    endpoints
        Base addresses by name that replace the provider's own, for a test double or a mirror.
    progress
        Called now and then, from any thread.
    """

    http: HttpClient
    today: str
    regions: Sequence[str] = ()
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    endpoints: Mapping[str, str] = field(default_factory=dict)
    progress: Callable[[Progress], None] = _silent


class Fetcher(ABC):
    """Reads one cloud's price list."""

    cloud: str

    @abstractmethod
    def ready(self, context: FetchContext) -> str:
        """Say why this list cannot be read now, such as a missing SDK or key, and how to get it.

        Empty if it can be read. No request is sent.
        """

    @abstractmethod
    def fetch(self, context: FetchContext) -> PriceList:
        """Read the list. At most `FETCH_SECONDS`.

        Raises
        ------
        CloudError
            If nothing could be read at all; regions that fail are named in the result instead.
        Stopped
            If the caller stopped it.
        """


def folder_of(cloud: str) -> str:
    """Return the package of a cloud: its name, with `_cloud` added to a Python keyword
    (`lambda`).
    """
    import keyword

    return f"{cloud}_cloud" if keyword.iskeyword(cloud) else cloud


def find(cloud: str) -> Fetcher | None:
    """Import and return the fetcher of a cloud; None if it has none."""
    for point in entry_points(group=ENTRY_POINT_GROUP, name=cloud):
        made: Fetcher = point.load()()
        return made
    name = f"nbprov.clouds.{folder_of(cloud)}"
    try:
        there = cloud.isidentifier() and find_spec(f"{name}.prices") is not None
    except ModuleNotFoundError:
        return None
    if not there:
        return None
    fetcher: Fetcher = importlib.import_module(f"{name}.prices").fetcher()
    return fetcher


def known() -> tuple[str, ...]:
    """Return the clouds that have a fetcher, sorted; none is imported."""
    from pathlib import Path

    here = Path(__file__).parent.parent
    inside = {path.parent.name.removesuffix("_cloud") for path in here.glob("*/prices.py")}
    return tuple(sorted(inside | {point.name for point in entry_points(group=ENTRY_POINT_GROUP)}))
