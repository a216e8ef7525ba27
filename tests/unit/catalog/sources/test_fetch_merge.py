"""What a fetch brought, laid over what was known, and written as our own form."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbprov.catalog import Catalog, Query
from nbprov.catalog.sources.fetch_merge import entries, merge, write
from nbprov.catalog.sources.price_entry import PriceEntry
from nbprov.catalog.sources.price_files import read_prices
from nbprov.model.money import usd
from nbprov.model.places import Market
from nbprov.model.price_list import PriceList, PriceRow


def old(
    region: str,
    kind: str = "g",
    zone: str = "",
    price: int | None = 1,
    spot: int | None = None,
    accelerator: str = "L4",
) -> PriceEntry:
    gpu = (accelerator, 1.0, 24.0, "NVIDIA") if accelerator else ("", 0.0, None, "")
    amount = None if price is None else usd(price)
    return PriceEntry(
        "x",
        region,
        zone,
        kind,
        *gpu,
        8.0,
        32.0,
        "x86_64",
        amount,
        None if spot is None else usd(spot),
        "old list",
        "2026-01-01",
        "old spot",
        "2026-01-02",
    )


def new(
    region: str,
    kind: str = "g",
    zone: str = "",
    price: int | None = 2,
    spot: int | None = None,
    accelerator: str = "L4",
) -> PriceRow:
    return PriceRow(
        region, kind, zone, accelerator, 1.0 if accelerator else 0.0, None, "", None, None, "",
        None if price is None else usd(price), None if spot is None else usd(spot),
    )  # fmt: skip


def listed(
    *rows: PriceRow,
    failed: Mapping[str, str] | None = None,
    covered: frozenset[str] | None = None,
    unseen: frozenset[str] = frozenset(),
) -> PriceList:
    return PriceList(rows, "new list", "2026-08-01", "new spot list", failed or {}, covered, unseen)


def prices(rows: list[PriceEntry]) -> dict[tuple[str, str, str], tuple[int | None, int | None]]:
    return {(e.region, e.zone, e.instance_type): (e.on_demand, e.spot) for e in rows}


def test_a_full_list_replaces_everything() -> None:
    merged = merge([old("a"), old("b")], listed(new("a"), new("c", price=None)), "x")
    assert prices(merged) == {("a", "", "g"): (usd(2), None)}
    (entry,) = merged
    assert (entry.source, entry.as_of, entry.spot_source) == (
        "new list",
        "2026-08-01",
        "new spot list",
    )


def test_sizes_that_are_not_said_come_from_the_same_type() -> None:
    (entry,) = merge([old("b")], listed(new("a")), "x")
    assert (entry.vcpus, entry.memory_gib, entry.device_gib, entry.maker, entry.arch) == (
        8.0,
        32.0,
        24.0,
        "NVIDIA",
        "x86_64",
    )
    assert entries(listed(new("a")), "x")[0].vcpus is None


def test_a_region_that_failed_keeps_its_old_rows() -> None:
    merged = merge([old("a"), old("b")], listed(new("a"), new("b"), failed={"b": "503"}), "x")
    assert prices(merged) == {("a", "", "g"): (usd(2), None), ("b", "", "g"): (usd(1), None)}
    assert {e.region: e.source for e in merged} == {"a": "new list", "b": "old list"}
    assert prices(merge([], listed(new("b"), failed={"b": "half of it"}), "x")) == {
        ("b", "", "g"): (usd(2), None)
    }


def test_regions_that_are_not_covered_keep_their_old_rows() -> None:
    merged = merge(
        [old("a"), old("a", "gone"), old("b")], listed(new("a"), covered=frozenset({"a"})), "x"
    )
    assert prices(merged) == {("a", "", "g"): (usd(2), None), ("b", "", "g"): (usd(1), None)}


def test_machines_without_accelerators_that_were_not_read_are_kept() -> None:
    before = [old("a"), old("a", "cpu", accelerator=""), old("b", "cpu", accelerator="")]
    merged = merge(
        before,
        listed(new("a"), new("a", "cpu", price=9, accelerator=""), unseen=frozenset({"cpu"})),
        "x",
    )
    assert prices(merged) == {
        ("a", "", "g"): (usd(2), None),
        ("a", "", "cpu"): (usd(9), None),
        ("b", "", "cpu"): (usd(1), None),
    }


def test_spot_prices_that_were_not_read_are_kept_with_their_source() -> None:
    before = [old("a", zone="a1", spot=3), old("a", zone="a2", spot=4)]
    merged = merge(before, listed(new("a"), unseen=frozenset({"spot"})), "x")
    assert prices(merged) == {
        ("a", "a1", "g"): (usd(2), usd(3)),
        ("a", "a2", "g"): (usd(2), usd(4)),
    }
    assert {(e.source, e.spot_source, e.spot_as_of) for e in merged} == {
        ("new list", "old spot", "2026-01-02")
    }
    assert prices(merge(before, listed(new("a")), "x")) == {
        ("a", "a1", "g"): (usd(2), None),
        ("a", "a2", "g"): (usd(2), None),
    }


def test_zones_the_list_names_stand_instead_of_the_known() -> None:
    merged = merge([old("a", zone="a1"), old("a", zone="a2")], listed(new("a", zone="a9")), "x")
    assert prices(merged) == {("a", "a9", "g"): (usd(2), None)}


def test_what_is_written_is_read_back_and_answers(tmp_path: Path) -> None:
    merged = merge(
        [old("a", zone="a1", spot=3)],
        listed(new("a"), new("b", price=None, spot=1), unseen=frozenset({"spot"})),
        "x",
    )
    write(tmp_path / "prices" / "x", merged)
    back = read_prices(tmp_path / "prices" / "x", "x")
    assert prices(back) == prices(merged)
    catalog = Catalog.open(tmp_path / "prices", cache=tmp_path / "cache")
    assert {(o.region, o.market, o.hourly, o.source, o.as_of) for o in catalog.offers(Query())} == {
        ("a", Market.ON_DEMAND, usd(2), "new list", "2026-08-01"),
        ("b", Market.SPOT, usd(1), "new spot list", "2026-08-01"),
    }
    assert catalog.info("x").left_out == {"spot price above on-demand": 1}


def test_many_sources_keep_their_own_keys(tmp_path: Path) -> None:
    rows = [old(f"r{i}")._replace(source=f"list {i}") for i in range(60)]
    write(tmp_path / "x", rows)
    assert {(e.region, e.source) for e in read_prices(tmp_path / "x", "x")} == {
        (e.region, e.source) for e in rows
    }


REGIONS = st.sampled_from(["a", "b", "c"])
ROWS = st.builds(
    new,
    REGIONS,
    st.sampled_from(["g", "h"]),
    st.sampled_from(["", "z1", "z2"]),
    st.sampled_from([1, 2]),
    st.sampled_from([None, 1]),
)
OLD = st.builds(
    old,
    REGIONS,
    st.sampled_from(["g", "h"]),
    st.sampled_from(["", "z1", "z2"]),
    st.sampled_from([1, 2]),
    st.sampled_from([None, 1]),
)


@given(
    st.lists(OLD, max_size=8),
    st.lists(ROWS, max_size=8),
    st.sets(REGIONS),
    st.none() | st.frozensets(REGIONS),
    st.frozensets(st.sampled_from(["cpu", "spot"])),
)
def test_no_region_loses_its_rows_by_a_failure(
    before: list[PriceEntry],
    rows: list[PriceRow],
    failed: set[str],
    covered: frozenset[str] | None,
    unseen: frozenset[str],
) -> None:
    merged = merge(
        before,
        listed(*rows, failed=dict.fromkeys(failed, "503"), covered=covered, unseen=unseen),
        "x",
    )
    for region in "abc":
        was = {e for e in before if e.region == region}
        if was and (region in failed or (covered is not None and region not in covered)):
            assert was <= set(merged)
    assert all(e.on_demand is not None or e.spot is not None for e in merged)


@pytest.mark.parametrize("missing", ["source", "spot_source"])
def test_a_price_that_is_not_there_needs_no_source(tmp_path: Path, missing: str) -> None:
    entry = old("a", price=None, spot=1) if missing == "source" else old("a", price=1)
    write(tmp_path / "x", [entry._replace(**{missing: "", missing.replace("source", "as_of"): ""})])
    assert prices(read_prices(tmp_path / "x", "x")) == prices([entry])
