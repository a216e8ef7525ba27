"""What a list must hold before it is put in place, and what is said of one that does."""

from __future__ import annotations

import pytest

from nbprov.catalog.errors import CatalogError
from nbprov.catalog.refresh.validation import check, yardstick
from nbprov.catalog.sources.price_entry import PriceEntry


def _entry(
    cloud: str,
    price: int,
    *,
    region: str = "r",
    count: int = 1,
    spot: int | None = None,
    kind: str = "H100",
) -> PriceEntry:
    return PriceEntry(
        cloud,
        region,
        "",
        f"gpu-{kind}-{count}",
        kind,
        float(count),
        80.0,
        "NVIDIA",
        8.0,
        64.0,
        "",
        price,
        spot,
        "s",
        "2026-11-20",
        "s",
        "2026-11-20",
    )


OTHERS = yardstick(
    {
        "aws": [_entry("aws", 4_000_000), _entry("aws", 30_000_000, count=8)],
        "gcp": [_entry("gcp", 3_000_000)],
    }
)


def test_the_yardstick_is_the_cheapest_device_of_each_kind() -> None:
    assert [e.on_demand for e in OTHERS["aws"]] == [30_000_000]


def test_ordinary_prices_pass_without_a_word() -> None:
    assert (
        check(
            "acme",
            [_entry("acme", 2_500_000), _entry("acme", 20_000_000, count=8)],
            (),
            OTHERS,
            force=False,
        )
        == ()
    )


@pytest.mark.parametrize("price", [2_500, 250_000_000])
def test_a_list_of_absurd_prices_is_refused(price: int) -> None:
    wrong = [_entry("acme", price, region=f"r{i}") for i in range(10)]
    with pytest.raises(CatalogError, match="10 of 10 prices that were sent for acme are absurd"):
        check("acme", wrong, (), OTHERS, force=False)
    assert check("acme", wrong, (), OTHERS, force=True) == (
        "10 hidden: price absurd for this kind of accelerator",
    )


def test_a_few_absurd_prices_are_named() -> None:
    entries = [_entry("acme", 2_500_000, region=f"r{i}") for i in range(9)] + [
        _entry("acme", 2_500, region="x")
    ]
    assert check("acme", entries, (), OTHERS, force=False) == (
        "1 hidden: price absurd for this kind of accelerator",
    )


def test_spot_above_on_demand_is_named() -> None:
    assert check("acme", [_entry("acme", 2_500_000, spot=2_600_000)], (), OTHERS, force=False) == (
        "1 hidden: spot price above on-demand",
    )


def test_kinds_that_nobody_else_sells_are_not_judged() -> None:
    assert check("acme", [_entry("acme", 99, kind="X1")], (), OTHERS, force=False) == ()


@pytest.mark.parametrize(("now", "passes"), [(6, True), (5, False), (0, False)])
def test_far_fewer_prices_than_before_are_refused(now: int, passes: bool) -> None:
    before = [_entry("acme", 2_500_000, region=f"r{i}") for i in range(10)]
    if passes:
        assert check("acme", before[:now], before, OTHERS, force=False) == ()
        return
    with pytest.raises(CatalogError, match="was sent"):
        check("acme", before[:now], before, OTHERS, force=False)


def test_of_another_source_only_the_types_are_compared() -> None:
    everywhere = [_entry("acme", 2_500_000, region=f"r{i}") for i in range(20)] + [
        _entry("acme", 20_000_000, count=8)
    ]
    here = [_entry("acme", 2_500_000), _entry("acme", 20_000_000, count=8)]
    with pytest.raises(CatalogError, match="2 prices, where 21 were known"):
        check("acme", here, everywhere, OTHERS, force=False)
    assert check("acme", here, everywhere, OTHERS, force=False, same_source=False) == ()
    with pytest.raises(CatalogError, match="1 priced types, where 2 were known"):
        check("acme", here[:1], everywhere, OTHERS, force=False, same_source=False)
