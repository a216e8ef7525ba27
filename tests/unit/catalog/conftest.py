from __future__ import annotations

import csv
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from nbprov.catalog import Catalog
from nbprov.catalog.catalog import shipped_folder

V8_HEADER = (
    "InstanceType", "AcceleratorName", "AcceleratorCount", "vCPUs", "MemoryGiB", "GpuInfo", "Price", "SpotPrice", "Region", "AvailabilityZone", "Arch",
)  # fmt: skip

WriteV8 = Callable[..., Path]


@pytest.fixture
def write_v8(tmp_path: Path) -> WriteV8:
    """Writes `<folder>/<cloud>/vms.csv` and returns the folder; rows are dicts of the columns that
    matter.
    """

    def write(
        cloud: str,
        rows: Sequence[dict[str, object]],
        *,
        header: Sequence[str] = V8_HEADER,
        folder: str = "prices",
    ) -> Path:
        place = tmp_path / folder / cloud
        place.mkdir(parents=True, exist_ok=True)
        with (place / "vms.csv").open("w", newline="", encoding="utf-8") as file:
            lines = csv.DictWriter(file, header, restval="", extrasaction="raise")
            lines.writeheader()
            lines.writerows(rows)
        return tmp_path / folder

    return write


@pytest.fixture
def open_catalog(tmp_path: Path) -> Callable[..., Catalog]:
    def make(*folders: Path, **options: object) -> Catalog:
        return Catalog.open(folders, cache=tmp_path / "cache", **options)  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="session")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """The project's own snapshot, with a cache of its own: one for all processes of a run."""
    base = tmp_path_factory.getbasetemp()
    cache = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return Catalog.open(shipped_folder(), cache=cache / "catalog-cache")
