"""The inputs of a price fetcher in a test: an `HttpClient` that does not sleep, and a double's
addresses.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from nbprov.clouds.pricing.fetcher import FetchContext, Progress
from nbprov.clouds.web.client import HttpClient

TODAY = "2026-11-22"


class Fetching:
    """A context, and a record of its fetch.

    Attributes
    ----------
    pauses
        The seconds that would have been slept between attempts, in order.
    seen
        The reported progress.
    stop
        Setting it ends the fetch with `Stopped`.
    """

    def __init__(
        self,
        endpoints: Mapping[str, str],
        *,
        regions: Sequence[str] = (),
        keys: Mapping[str, str] | None = None,
    ) -> None:
        self.pauses: list[float] = []
        self.seen: list[Progress] = []
        self.stop = threading.Event()
        self.context = FetchContext(
            HttpClient(stop=self.stop, pause=self.pauses.append),
            TODAY,
            tuple(regions),
            dict(keys or {}),
            dict(endpoints),
            self.seen.append,
        )
