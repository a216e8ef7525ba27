"""The market file of the `local` cloud."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbprov.clouds.local import make
from nbprov.clouds.local.daemon.market import MarketError, Where, parse
from nbprov.clouds.local.daemon.market_file import MARKET_FILE, MarketFile, shipped
from nbprov.clouds.local.market_offers import offer
from nbprov.model.places import Market as Side

SMALL = """
[[regions]]
name = "here"
zones = ["here-a", "here-b"]
price = 0.5
[[types]]
name = "gpu"
accelerator = "A100"
count = 8
vcpus = 4
memory_gib = 16
family = "A100"
hourly = 2.0
spot = 0.333333
"""


def test_shipped_market_refuses_zone_after_zone_and_then_has_one() -> None:
    market = parse(shipped())
    rows = [
        r
        for r in market.rows.values()
        if r.type.accelerator == "A100" and r.type.count == 1 and r.side is Side.ON_DEMAND
    ]
    rows.sort(key=lambda r: (r.hourly, r.region, r.zone))
    story = [
        "stock"
        if market.left(r) == 0
        else "quota"
        if any(q.limit == 0 for q in market.quotas(r))
        else "ok"
        for r in rows
    ]
    assert story == ["stock"] * 3 + ["quota"] * 3 + ["stock", "ok", "ok"]


def test_shipped_market_sells_what_the_quickstart_names() -> None:
    offers = [offer(row, "local") for row in parse(shipped(), "2026-11-21").table()]
    assert {"A100:1", "A100:8", "L4:1", "T4:1", "H100:1", "–"} <= {o.gpus for o in offers}
    assert {o.market for o in offers} == {Side.ON_DEMAND, Side.SPOT}
    assert all(o.source == "simulated" and o.as_of == "2026-11-21" and o.hourly > 0 for o in offers)
    assert len({o.key for o in offers}) == len(offers)


def test_default_families_are_those_of_the_cpu_types_and_of_no_other() -> None:
    # A default family is the beginning of a type's name or the type's quota family; the CPU types
    # have only the former.
    families = make().capabilities.default_families
    types = parse(shipped()).types
    general = {t.name for t in types if t.name.startswith(families) or t.family in families}
    assert general == {t.name for t in types if not t.accelerator}


def test_prices_are_whole_micros_scaled_by_region() -> None:
    market = parse(SMALL)
    assert market.rows["here-a", "gpu", "on-demand"].hourly == 1_000_000
    assert market.rows["here-a", "gpu", "spot"].hourly == 166_667


def test_a_price_entry_replaces_what_it_matches() -> None:
    market = parse(SMALL + '[[prices]]\nzone = "here-b"\nmarket = "spot"\nhourly = 9.5\n')
    assert market.rows["here-b", "gpu", "spot"].hourly == 9_500_000
    assert market.rows["here-a", "gpu", "spot"].hourly == 166_667


def test_first_stock_entry_that_matches_counts() -> None:
    market = parse(SMALL + '[[stock]]\nzone = "here-a"\nleft = 3\n[[stock]]\nleft = 1\n')
    assert market.left(market.rows["here-a", "gpu", "spot"]) == 3
    assert market.left(market.rows["here-b", "gpu", "spot"]) == 1
    assert parse(SMALL).left(market.rows["here-b", "gpu", "spot"]) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("regions = 1", "[[regions]] is written with two brackets"),
        ("[[regions]]\nname = 'x'", "zones"),
        ("[[regions]]\nname = 'x'\nzones = []\nzone = 'y'", "has no key 'zone'"),
        ("[quota]\nlimit = 1", "two brackets"),
        ("[timings]\naccept = 1", "there is no table 'timings'"),
        ("[timing]\naccept = -1", "accept = -1"),
        ("[timing]\naccept = true", "accept = True"),
        ("[[faults]]\ndo = 'explode'", "do = 'explode'"),
        ("a = ", "not TOML"),
    ],
)
def test_a_market_that_cannot_be_used_says_where(text: str, words: str) -> None:
    with pytest.raises(MarketError) as raised:
        parse(text)
    assert words in str(raised.value)


def test_file_is_put_in_place_and_read_again_when_it_changes(tmp_path: Path) -> None:
    file = MarketFile(tmp_path)
    first = file.read()
    assert (tmp_path / MARKET_FILE).read_text() == shipped()
    assert file.read() is first
    (tmp_path / MARKET_FILE).write_text(SMALL)
    assert set(file.read().rows) != set(first.rows)
    (tmp_path / MARKET_FILE).write_text("broken")
    for _ in range(2):
        with pytest.raises(MarketError):
            file.read()


name = st.sampled_from(["", "here", "here-a", "here-b", "gpu", "spot", "on-demand", "elsewhere"])


@given(name, name, name, name)
def test_a_pattern_matches_only_where_every_named_field_does(
    region: str, zone: str, kind: str, side: str
) -> None:
    row = parse(SMALL).rows["here-a", "gpu", "spot"]
    same = all(
        said in ("", is_)
        for said, is_ in ((region, "here"), (zone, "here-a"), (kind, "gpu"), (side, "spot"))
    )
    assert Where(region, zone, kind, side).matches(row) == same
