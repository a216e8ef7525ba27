"""Small catalogues for the planning tests, in the v8 CSV layout, and the shipped one."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest

from nbprov.catalog import Catalog, shipped_folder
from nbprov.clouds.base import Capabilities
from nbprov.model.offers import Offer
from nbprov.planning import EnabledCloud

HEADER = (
    "InstanceType",
    "AcceleratorName",
    "AcceleratorCount",
    "vCPUs",
    "MemoryGiB",
    "Price",
    "SpotPrice",
    "Region",
    "AvailabilityZone",
)
Row = tuple[object, ...]
ALL = Capabilities(spot=True, stop=True, multi_node=True, ports=True, docker=True, disk_sizes=True)

# Type, accelerator, count, vCPUs, GiB, on-demand, spot, region, zone.
PRICES: Mapping[str, tuple[Row, ...]] = {
    "aws": (
        ("g6.xlarge", "L4", 1, 4, 16, 0.80, 0.30, "us-east-1", "use1-az1"),
        ("g6.xlarge", "L4", 1, 4, 16, 0.80, 0.28, "us-east-1", "use1-az2"),
        ("g6.xlarge", "L4", 1, 4, 16, 0.88, 0.30, "eu-west-1", "euw1-az1"),
        ("g6.2xlarge", "L4", 1, 8, 32, 0.98, 0.40, "us-east-1", "use1-az1"),
        ("p4d.24xlarge", "A100", 8, 96, 1152, 22.0, 11.0, "us-east-1", "use1-az1"),
        ("m6i.large", "", "", 2, 8, 0.10, 0.04, "us-east-1", "use1-az1"),
        ("m6i.2xlarge", "", "", 8, 32, 0.38, "", "us-east-1", "use1-az1"),
        ("r6i.xlarge", "", "", 4, 32, 0.25, "", "us-east-1", "use1-az1"),
        ("c6i.2xlarge", "", "", 8, 16, 0.34, "", "us-east-1", "use1-az1"),
        ("t3.2xlarge", "", "", 8, 32, 0.33, "", "us-east-1", "use1-az1"),
    ),
    "gcp": (
        ("g2-standard-4", "L4", 1, 4, 16, 0.80, 0.30, "us-central1", "us-central1-a"),
        ("g2-standard-24", "L4", 2, 24, 96, 2.00, 0.90, "us-central1", "us-central1-a"),
        ("a2-highgpu-8g", "A100", 8, 96, 680, 29.4, 12.0, "us-central1", "us-central1-a"),
        ("n2-standard-8", "", "", 8, 32, 0.39, 0.10, "us-central1", "us-central1-a"),
    ),
    "lambda": (
        ("gpu_1x_a10", "A10", 1, 30, 200, 1.29, "", "us-west-1", ""),
        ("gpu_8x_a100", "A100", 8, 124, 1800, 16.0, "", "us-west-1", ""),
        ("cpu_4x_general", "", "", 4, 16, 0.20, "", "us-west-1", ""),
    ),
    "runpod": (
        ("1x_L4_SECURE", "L4", 1, 8, 45, 0.49, 0.49, "CZ", "EU-CZ-1"),
        ("1x_L4_SECURE", "L4", 1, 8, 45, 0.49, 0.49, "US", "US-CA-1"),
    ),
    "primeintellect": (("crusoe__1xL40S", "L40S", 1, 8, 147, 1.10, "", "US", "us-east1-a"),),
}


def _write(folder: Path, prices: Mapping[str, Iterable[Row]]) -> Path:
    for cloud, rows in prices.items():
        (folder / cloud).mkdir(parents=True)
        with (folder / cloud / "vms.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(HEADER)
            writer.writerows(rows)
    return folder


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """Five clouds with two dozen lines, many of them of one price."""
    folder = tmp_path_factory.mktemp("prices")
    return Catalog.open([_write(folder / "v8", PRICES)], cache=folder / "cache")


@pytest.fixture(scope="session")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """The prices that come with the project."""
    return Catalog.open([shipped_folder()], cache=tmp_path_factory.mktemp("shipped-cache"))


@pytest.fixture
def catalog_of(tmp_path: Path) -> Callable[..., Catalog]:
    """Make a catalogue of given lines and live offers."""

    def make(prices: Mapping[str, Iterable[Row]], live: tuple[Offer, ...] = ()) -> Catalog:
        return Catalog.open([_write(tmp_path / "v8", prices)], live, cache=tmp_path / "cache")

    return make


@pytest.fixture(scope="session")
def enable() -> Callable[..., dict[str, EnabledCloud]]:
    """Enable clouds by name, with all capabilities or with the given ones."""

    def make(*names: str, **capabilities: Capabilities) -> dict[str, EnabledCloud]:
        return {
            name: EnabledCloud(f"{name}-account", capabilities.get(name, ALL))
            for name in (*names, *capabilities)
        }

    return make


@pytest.fixture(scope="session")
def everything(
    small: Catalog, enable: Callable[..., dict[str, EnabledCloud]]
) -> dict[str, EnabledCloud]:
    """All clouds of the small catalogue, enabled."""
    return enable(*small.clouds())
