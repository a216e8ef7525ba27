"""Small price files, and a home whose prices are fetched from a mirror on loopback."""

from __future__ import annotations

import csv
import io
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from nbprov.catalog.refresh import PriceFileStore
from nbprov.clouds.web.client import HttpClient

HEADER = (
    "InstanceType",
    "AcceleratorName",
    "AcceleratorCount",
    "vCPUs",
    "MemoryGiB",
    "GpuInfo",
    "Price",
    "SpotPrice",
    "Region",
    "AvailabilityZone",
)

INFO = (
    "{{'Gpus': [{{'Name': '{0}', 'Manufacturer': 'NVIDIA', 'Count': {1}, 'MemoryInfo': "
    "{{'SizeInMiB': {2}}}}}], 'TotalGpuMemoryInMiB': {2}}}"
)

TYPES = (
    ("A10", 1, 24576, 0.75),
    ("A100", 1, 40960, 1.1),
    ("A100", 8, 40960, 8.8),
    ("H100", 1, 81920, 2.5),
    ("H100", 8, 81920, 20.0),
)
REGIONS = ("us-east-1", "us-west-1", "europe-central-1", "asia-south-1")


def v8_text(
    *,
    factor: float = 1.0,
    regions: Iterable[str] = REGIONS,
    spot: float | None = None,
    types: Iterable[tuple[str, int, int, float]] = TYPES,
) -> str:
    """A price file in the v8 layout: the same types in each region, prices times `factor`."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(HEADER)
    for name, count, mib, price in types:
        for region in regions:
            spot_price = "" if spot is None else f"{price * factor * spot:.4f}"
            kind = f"gpu_{count}x_{name.lower()}"
            lines.writerow(
                (
                    kind,
                    name,
                    count,
                    30 * count,
                    200 * count,
                    INFO.format(name, count, mib),
                    f"{price * factor:.4f}",
                    spot_price,
                    region,
                    "",
                )
            )
    return text.getvalue()


class QuickHttp(HttpClient):
    """The real client without pauses between attempts."""

    def __init__(self, stop: threading.Event) -> None:
        self.pauses: list[float] = []
        super().__init__(stop=stop, pause=self.pauses.append)


def settings(home: Path, primary: str, fallback: str = "", more: str = "") -> None:
    """Set the addresses from which a home fetches its prices."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "catalog.toml").write_text(
        f'[mirror]\nprimary = "{primary}"\nfallback = "{fallback}"\n{more}', encoding="utf-8"
    )


def upkeep(
    home: Path,
    shipped: Path,
    *,
    http: Callable[[threading.Event], HttpClient] = QuickHttp,
    clock: Callable[[], float] = time.time,
) -> PriceFileStore:
    """Return the refresher of a home with other shipped prices than the project's.

    If the folder is empty, there are no clouds.
    """
    shipped.mkdir(parents=True, exist_ok=True)
    return PriceFileStore(home, shipped=shipped, http=http, clock=clock)
