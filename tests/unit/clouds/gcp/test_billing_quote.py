"""Google's list price of one machine, read behind a quote and kept."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from gcp_billing import KEY, SKUS_PATH, GcpDouble
from web_double import Answer, Asked, WebDouble

from nbprov.clouds.gcp.account.price_list_auth import KEY_VARIABLES
from nbprov.clouds.gcp.billing_quote import BILLING_VARIABLE, BillingQuotes
from nbprov.model.money import usd
from nbprov.model.offers import Offer
from nbprov.model.places import Market

PATIENCE = 30.0


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebDouble]:
    with WebDouble() as double:
        monkeypatch.setenv(BILLING_VARIABLE, double.url())
        monkeypatch.setenv(KEY_VARIABLES[0], KEY)
        yield double
        assert double.unexpected == []


def offer(kind: str, market: Market = Market.ON_DEMAND, region: str = "us-central1") -> Offer:
    return Offer("gcp", region, "", kind, "", 0.0, None, None, market, usd("4.42"))


def test_the_parts_of_a_machine_are_added_up(web: WebDouble) -> None:
    GcpDouble(web, page=5000)
    quotes = BillingQuotes()
    for kind, dollars in {
        "a3-highgpu-8g": "88.4902",  # what a list with a wrong match has at $4.42
        "n1-standard-4+1xT4": "0.54",
    }.items():
        quote = quotes.quote(offer(kind), PATIENCE)
        assert quote is not None
        assert quote.hourly == pytest.approx(usd(dollars), rel=0.01)
    spot = quotes.quote(offer("g2-standard-4", Market.SPOT), PATIENCE)
    assert spot is not None
    assert spot.hourly == usd("0.22402") + usd(str(4 * 0.01375 + 16 * 0.00161))
    assert quotes.quote(offer("m9-mega-1"), PATIENCE) is None
    assert quotes.quote(offer("a3-highgpu-8g", region="mars-1"), PATIENCE) is None
    assert len(web.asked) == 1, "the catalogue is read once"


def test_a_quote_waits_no_longer_than_it_may_and_the_next_one_has_it(web: WebDouble) -> None:
    release, double = threading.Event(), GcpDouble(web, page=5000)

    def late(asked: Asked) -> Answer:
        release.wait(PATIENCE)
        return double.answer_skus(asked)

    web.on(SKUS_PATH, late)
    quotes = BillingQuotes()
    assert quotes.quote(offer("g2-standard-4"), 0.05) is None
    release.set()
    assert quotes.quote(offer("g2-standard-4"), PATIENCE) is not None
    assert len(web.asked) == 1


def test_a_login_that_is_refused_is_asked_no_more(
    web: WebDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLES[0], "wrong")
    GcpDouble(web)
    quotes = BillingQuotes()
    assert quotes.quote(offer("g2-standard-4"), PATIENCE) is None
    assert quotes.quote(offer("g2-standard-4"), PATIENCE) is None
    assert len(web.asked) == 1
    monkeypatch.delenv(KEY_VARIABLES[0])
    assert quotes.begin() is None, "without a login nothing is asked"
