"""What changed between two lists."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbprov.catalog.refresh import change_log
from nbprov.catalog.refresh.price_diff import (
    ChangeKind,
    Differences,
    PriceChange,
    PriceKey,
    compare,
    prices_of,
)
from nbprov.catalog.sources.price_entry import PriceEntry


def _entry(kind: str, on_demand: int | None, spot: int | None = None) -> PriceEntry:
    return PriceEntry(
        "acme",
        "r",
        "",
        kind,
        "A10",
        1.0,
        24.0,
        "NVIDIA",
        8.0,
        64.0,
        "",
        on_demand,
        spot,
        "s",
        "2026-11-20",
        "s",
        "2026-11-20",
    )


def test_each_market_changes_for_itself() -> None:
    before = [_entry("a", 100, 50), _entry("b", 100), _entry("c", 100)]
    after = [_entry("a", 150, 40), _entry("b", 100), _entry("d", 70)]
    found = compare(before, after)
    assert [
        (c.key.instance_type, c.key.market, c.kind.value, c.before, c.after) for c in found
    ] == [
        ("a", "on-demand", "up", 100, 150),
        ("a", "spot", "down", 50, 40),
        ("d", "on-demand", "new", None, 70),
        ("c", "on-demand", "gone", 100, None),
    ]
    assert found.counts() == {"up": 1, "down": 1, "new": 1, "gone": 1}
    assert found[0].percent == pytest.approx(50.0)
    assert repr(found) == "<price changes: 1 up, 1 down, 1 new, 1 gone>"
    frame = found.to_frame()
    assert list(frame["change"]) == ["up", "down", "new", "gone"]
    assert frame["after"][0] == pytest.approx(0.00015)


_lists = st.lists(
    st.builds(
        _entry,
        st.sampled_from("abcde"),
        st.none() | st.integers(1, 9),
        st.none() | st.integers(1, 9),
    )
)


@given(_lists, _lists)
def test_the_changes_lead_from_one_list_to_the_other(
    before: list[PriceEntry], after: list[PriceEntry]
) -> None:
    prices = prices_of(before)
    for change in compare(before, after):
        assert prices.get(change.key) == change.before
        if change.after is None:
            del prices[change.key]
        else:
            prices[change.key] = change.after
        assert change.kind is not ChangeKind.UP or change.percent is not None
    assert prices == prices_of(after)


def test_what_is_kept_belongs_to_the_files_it_led_to(tmp_path: Path) -> None:
    path = tmp_path / "changes.json.gz"
    kept = Differences([PriceChange(PriceKey("acme", "r", "", "a", "A10", 1.0, "spot"), 5, None)])
    change_log.write(path, kept, {"vms.csv": "1"})
    assert list(change_log.read(path, {"vms.csv": "1"})) == list(kept)
    assert not change_log.read(path, {"vms.csv": "2"})
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at])
        assert not change_log.read(path, {"vms.csv": "1"})
