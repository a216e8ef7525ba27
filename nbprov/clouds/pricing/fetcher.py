"""The contract of a cloud's price fetcher.

A fetcher lives in its cloud's folder as `prices.py` and is found by that name: `fetcher() -> Fetcher`. A cloud from outside this
tree registers one under the entry point group `nbprov.prices`. It needs no adapter: most price lists are public.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from importlib.util import find_spec

from nbprov.clouds.web.client import Http
from nbprov.model.clock import Seconds
from nbprov.model.price_list import PriceList

ENTRY_POINT_GROUP = "nbprov.prices"
FETCH_SECONDS: Seconds = 900.0
"""How long one cloud's fetch may take: AWS serves up to 190 MB a region, which a slow line needs minutes for."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a fetch is: `done` of `total` parts (0: not known yet), what is being read now, and bytes so far."""

    done: int
    total: int
    what: str
    received: int = 0


def _silent(progress: Progress) -> None:
    """Nobody is looking."""


@dataclass(frozen=True, slots=True)
class FetchContext:
    """What a fetch is given.

    Attributes
    ----------
    http
        The way to the network; it heeds the caller's stop at every request and every chunk.
    today
        The date that prices read now bear, `YYYY-MM-DD`.
    regions
        Regions the person asked for; empty: the fetcher's own choice.
    keys
        Credentials by name, where the caller gives any (`api_key`); a fetcher looks at its cloud's usual places otherwise. Never shown.
    endpoints
        Base addresses by name instead of the provider's own, for a double or a mirror.
    progress
        Called now and then, from any thread.
    """

    http: Http
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
        """Why this list cannot be read now (an SDK or a key that is missing, and how to get it); empty where it can. No network."""

    @abstractmethod
    def fetch(self, context: FetchContext) -> PriceList:
        """Read the list. At most `FETCH_SECONDS`.

        Raises
        ------
        CloudError
            If nothing could be read at all; a region that fails is named in the result instead.
        Stopped
            If the caller stopped it.
        """


def folder_of(cloud: str) -> str:
    """The package of a cloud: its name, or with `_cloud` behind it where the name is a word of Python (`lambda`)."""
    import keyword

    return f"{cloud}_cloud" if keyword.iskeyword(cloud) else cloud


def find(cloud: str) -> Fetcher | None:
    """The fetcher of a cloud, imported now; None where it has none of its own."""
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
    """The clouds that have a fetcher of their own, sorted; none is imported."""
    from pathlib import Path

    here = Path(__file__).parent.parent
    inside = {path.parent.name.removesuffix("_cloud") for path in here.glob("*/prices.py")}
    return tuple(sorted(inside | {point.name for point in entry_points(group=ENTRY_POINT_GROUP)}))
