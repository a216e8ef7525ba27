"""Amounts of money as strangers' price lists write them."""

from __future__ import annotations

import time

import pytest

from nbprov.clouds.pricing.region_fetch import price
from nbprov.model.errors import UsageError
from nbprov.model.money import usd
from nbprov.notebook.arguments import MagicParser, dollars
from nbprov.spec import SpecError, parse

AT_ONCE = 10.0
"""Seconds, also on a busy computer; they took minutes before."""


@pytest.mark.parametrize(
    "amount",
    ["1e12", "1e99999", "1e999990", "1e999999999", "-1e999990", "9" * 4000, "nan", "inf", "-inf"],
)
def test_an_absurd_price_is_no_price_at_once(amount: str) -> None:
    began = time.monotonic()
    assert price(amount) is None
    with pytest.raises(ValueError, match="money"):
        usd(amount)
    assert time.monotonic() - began < AT_ONCE


def test_what_can_be_paid_is_read() -> None:
    assert price("2.50") == 2_500_000
    assert usd("999999999999") < 2**63
    assert usd("1e-999999999") == 0


def test_an_absurd_amount_that_a_person_wrote_is_told_as_such() -> None:
    with pytest.raises(SpecError, match="not an amount between"):
        parse("budget: {total: 1000000000000}")
    parser = MagicParser("%prices", "")
    parser.add_argument("--max-price", type=dollars)
    with pytest.raises(UsageError, match="not a number of dollars"):
        parser.parse_line("--max-price 1e13")
