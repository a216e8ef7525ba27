"""The shipped snapshot: what a release may not get wrong."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from nbprov.catalog import Catalog, Query
from nbprov.catalog.catalog import shipped_folder
from nbprov.catalog.vocabulary.instance_families import GENERAL_PURPOSE
from nbprov.model.money import usd
from nbprov.model.places import Market

EXPECTED_REGIONS = {
    "aws": {
        "us-east-1",
        "us-west-2",
        "eu-west-1",
        "eu-north-1",
        "ap-northeast-1",
        "ap-south-1",
        "sa-east-1",
    },
    "azure": {"eastus", "westeurope", "southcentralus", "japaneast"},
    "cudo": {"se-stockholm-1", "ca-montreal-3"},
    "do": {"nyc2", "tor1", "atl1"},
    "gcp": {"us-central1", "europe-west4", "asia-east1", "me-west1"},
    "hyperstack": {"CANADA-1", "NORWAY-1", "US-1"},
    "lambda": {"us-east-1", "us-west-1", "europe-central-1"},
    "nebius": {"eu-north1", "eu-west1", "us-central1"},
    "primeintellect": {"US", "FI", "CA"},
    "runpod": {"CZ", "NL", "SE", "US", "IS", "NO"},
    "vast": {"Texas, US, NA", "Iceland, IS, EU"},
}
EXPECTED_KINDS = {
    "A100",
    "A100-80GB",
    "H100",
    "H200",
    "B200",
    "L4",
    "L40S",
    "T4",
    "V100",
    "A10G",
    "MI300X",
    "RTX4090",
    "RTX3090",
}

# What one device cost anywhere in 2025 and 2026, from a market place's spot to the dearest region
# of a big cloud, with room on both sides.
BOUNDS = {
    "A100": ("0.20", "6"),
    "A100-80GB": ("0.30", "10"),
    "H100": ("0.60", "30"),
    "H100-SXM": ("1", "8"),
    "H200": ("0.60", "30"),
    "B200": ("1.20", "30"),
    "L40S": ("0.20", "14"),
    "L4": ("0.05", "8"),
    "A10G": ("0.20", "10"),
    "T4": ("0.08", "10"),
    "V100": ("0.03", "9"),
    "RTX4090": ("0.15", "2"),
    "RTX3090": ("0.08", "1"),
}


def test_snapshot_is_small_and_sourced() -> None:
    folder = shipped_folder()
    size = sum(path.stat().st_size for path in folder.rglob("*.csv"))
    assert 100_000 < size < 5_000_000
    text = (folder / "SOURCES.md").read_text(encoding="utf-8")
    for cloud in EXPECTED_REGIONS:
        assert re.search(rf"^\| {cloud} \|", text, re.MULTILINE), (
            f"SOURCES.md says nothing of {cloud}"
        )


def test_expected_clouds_regions_and_kinds(shipped: Catalog) -> None:
    assert set(shipped.clouds()) == set(EXPECTED_REGIONS)
    for cloud, regions in EXPECTED_REGIONS.items():
        assert regions <= set(shipped.regions(cloud)), cloud
    assert set(shipped.accelerators()) >= EXPECTED_KINDS
    assert set(shipped.zones("aws", "us-east-1")) >= {f"use1-az{i}" for i in (1, 2, 3, 4, 5, 6)}
    assert len(shipped.zones("runpod", "US")) == 25


def test_every_row_has_price_source_and_date(shipped: Catalog) -> None:
    rows = shipped.select(Query(unusual=True))
    assert len(rows) == len(shipped) > 30_000
    assert (rows.column("hourly") > 0).all()
    assert all(rows.column("source"))
    for text in set(rows.column("as_of")):
        assert date(2024, 1, 1) < date.fromisoformat(text) < date(2027, 6, 1)
    shown = " ".join(set(rows.column("source")))
    assert not re.search(r"(^|\s)/|\\|://", shown), "a source is a name, not a path"


def test_counts_and_sizes_are_consistent(shipped: Catalog) -> None:
    rows = shipped.select(Query(unusual=True))
    counts, names = rows.column("accelerator_count"), rows.column("accelerator")
    assert ((counts > 0) == (names != "")).all()
    whole = counts >= 1
    assert (counts[whole] == np.round(counts[whole])).all(), (
        "only parts of one device are fractions"
    )
    assert set(counts[(counts > 0) & ~whole].tolist()) <= {
        0.125,
        0.25,
        0.5,
        *np.float32([0.167, 0.333]).tolist(),
    }
    device = rows.column("accelerator_memory_gib")
    assert ((device[counts > 0] >= 2) & (device[counts > 0] <= 300)).all()
    vcpus, memory = rows.column("vcpus"), rows.column("memory_gib")
    known = ~np.isnan(vcpus)
    assert set(rows.column("cloud")[~known]) == {"do"}
    assert ((vcpus[known] >= 1) & (vcpus[known] <= 1024)).all()
    ratio = memory[known] / vcpus[known]
    assert ((ratio >= 0.5) & (ratio <= 64)).all()


def test_no_two_rows_have_one_key(shipped: Catalog) -> None:
    keys = [offer.key for offer in shipped.offers(Query(unusual=True))]
    assert len(keys) == len(set(keys))


def test_spot_is_not_above_on_demand_without_a_note(shipped: Catalog) -> None:
    on_demand = {
        offer.key[:4]: offer.hourly for offer in shipped.offers(Query(market=Market.ON_DEMAND))
    }
    for offer in shipped.offers(Query(market=Market.SPOT)):
        listed = on_demand.get(offer.key[:4])
        if listed is not None and offer.hourly > listed:
            assert "rounding" in offer.source, offer
            assert offer.hourly - listed < usd("0.001")


@pytest.mark.parametrize("kind", sorted(BOUNDS))
def test_price_of_a_device_is_of_this_world(shipped: Catalog, kind: str) -> None:
    low, high = (usd(bound) for bound in BOUNDS[kind])
    rows = shipped.select(Query(accelerator=kind))
    each = rows.column("hourly") / rows.column("accelerator_count")
    assert len(rows)
    assert each.min() >= low
    assert each.max() <= high


def test_nothing_of_the_snapshot_was_hidden(shipped: Catalog) -> None:
    assert {cloud: dict(shipped.info(cloud).left_out) for cloud in shipped.clouds()} == {
        cloud: {} for cloud in shipped.clouds()
    }


def test_cpu_families_are_there_in_many_regions(shipped: Catalog) -> None:
    for cloud, families in GENERAL_PURPOSE.items():
        for family in families:
            rows = shipped.select(Query(cloud=cloud, families=family))
            assert len(set(rows.column("region"))) >= 14, (cloud, family)


def test_info_says_how_old_the_prices_are(shipped: Catalog) -> None:
    info = shipped.info("aws")
    assert (info.oldest, info.newest) == ("2025-03-02", "2026-07-20")
    assert sum(n for _, _, n in info.sources) == info.rows > info.gpu_rows > 1000
    assert any("undated" in source for source, _, _ in info.sources)
    assert info.zones > 80


def test_files_are_sorted_and_without_carriage_returns() -> None:
    for path in sorted(Path(shipped_folder()).rglob("prices.csv")):
        data = path.read_bytes()
        assert b"\r" not in data
        assert data.endswith(b"\n")
