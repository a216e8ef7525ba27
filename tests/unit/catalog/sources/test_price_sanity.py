"""Absurd prices are hidden and reported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nbprov.catalog import Catalog, Query
from nbprov.catalog.sources.price_sanity import (
    ABSURD_FOR_CPUS,
    ABSURD_FOR_KIND,
    ABSURD_FOR_TYPE,
    ABSURD_SPOT,
)
from nbprov.model.places import Market

WriteV8 = Callable[..., Path]
Open = Callable[..., Catalog]


def gpu(region: str, price: str, spot: str = "", name: str = "h") -> dict[str, object]:
    return {
        "InstanceType": name,
        "AcceleratorName": "H100",
        "AcceleratorCount": 8,
        "vCPUs": 208,
        "Price": price,
        "SpotPrice": spot,
        "Region": region,
    }


@pytest.fixture
def others(write_v8: WriteV8) -> Path:
    write_v8("lambda", [gpu("r", "32")])
    return write_v8("nebius", [gpu("r", "24")])


@pytest.mark.parametrize(
    ("rows", "reason", "left"),
    [
        ([gpu("a", "0.5"), gpu("b", "55")], ABSURD_FOR_KIND, {("b", "on-demand")}),
        ([gpu("a", "9000"), gpu("b", "55")], ABSURD_FOR_KIND, {("b", "on-demand")}),
        ([gpu("a", "55", "0.01")], ABSURD_FOR_KIND, {("a", "on-demand")}),
        ([gpu("a", "55", "60")], ABSURD_SPOT, {("a", "on-demand")}),
        (
            [gpu("a", "33.6"), *(gpu(r, "88.5") for r in "bcde")],
            ABSURD_FOR_TYPE,
            {(r, "on-demand") for r in "bcde"},
        ),
        (
            [{"InstanceType": "c", "vCPUs": 4, "Price": "0.0001", "Region": "a"}, gpu("b", "55")],
            ABSURD_FOR_CPUS,
            {("b", "on-demand")},
        ),
        ([gpu("a", "55", "55.001")], "", {("a", "on-demand"), ("a", "spot")}),
    ],
)
def test_hidden_and_reported(
    rows: list[dict[str, object]],
    reason: str,
    left: set[tuple[str, str]],
    others: Path,
    write_v8: WriteV8,
    open_catalog: Open,
) -> None:
    assert others == write_v8("aws", rows)
    catalog = open_catalog(others)
    assert {(o.region, o.market.value) for o in catalog.offers(Query(cloud="aws"))} == left
    assert catalog.info("aws").left_out == ({reason: 1} if reason else {})


def test_a_kind_only_one_cloud_sells_is_not_judged(write_v8: WriteV8, open_catalog: Open) -> None:
    catalog = open_catalog(write_v8("vast", [gpu("a", "1.0")]))
    assert len(catalog.select(Query(market=Market.ON_DEMAND))) == 1
