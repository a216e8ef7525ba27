"""Amounts of money as strangers' price lists write them."""

from __future__ import annotations

import time

import pytest

from nbprov.clouds.pricing.region_fetch import price
from nbprov.model.money import usd

AT_ONCE = 1.0


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
