"""Refreshing from a cloud's own price list, with a fetcher that says what the test wants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import price_mirror as doubles
import price_world as world
import pytest

from nbprov.catalog.refresh import Outcome, Owner, PriceFileStore, Source
from nbprov.clouds.pricing import fetcher as prices
from nbprov.clouds.pricing.fetcher import FetchContext, Fetcher, Progress
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.price_list import PriceList, PriceRow

ROWS = tuple(
    PriceRow(
        region,
        f"gpu-{count}",
        accelerator="A100",
        count=count,
        device_gib=40,
        maker="NVIDIA",
        vcpus=8,
        memory_gib=64,
        on_demand=1_100_000 * count,
    )
    for region in ("north", "south", "west")
    for count in (1, 2)
)
LIST = PriceList(ROWS, "a price list for tests", "2026-11-20")


class Told(Fetcher):
    """A fetcher that answers what it is told to."""

    cloud = "acme"

    def __init__(self) -> None:
        self.lacking = ""
        self.answer: Callable[[FetchContext], PriceList] = lambda context: LIST
        self.context: FetchContext | None = None

    def ready(self, context: FetchContext) -> str:
        return self.lacking

    def fetch(self, context: FetchContext) -> PriceList:
        self.context = context
        context.progress(Progress(1, 3, "north", 500))
        return self.answer(context)


@pytest.fixture
def acme(monkeypatch: pytest.MonkeyPatch) -> Told:
    """A cloud from outside the tree, with a price list."""
    fetcher = Told()
    monkeypatch.setattr(prices, "find", lambda cloud: fetcher if cloud == "acme" else None)
    monkeypatch.setattr(prices, "known", lambda: ("acme",))
    return fetcher


def test_own_list_is_written_in_three_files_and_read_back(
    upkeep: PriceFileStore, acme: Told
) -> None:
    world.settings(
        upkeep.home,
        "http://127.0.0.1:9/{cloud}",
        more='[regions]\nacme = ["north"]\n[endpoints.acme]\nprices = "http://127.0.0.1:9"\n',
    )
    done = upkeep.refresh(["acme"], source=Source.PROVIDER)["acme"]
    assert (done.outcome, done.source, done.rows) == (Outcome.UPDATED, "provider", 6)
    assert done.received == 500
    assert sorted(p.name for p in (upkeep.root / "acme").glob("*.csv")) == [
        "prices.csv",
        "sources.csv",
        "types.csv",
    ]
    assert {e.on_demand for e in upkeep.present("acme")} == {1_100_000, 2_200_000}
    assert acme.context is not None
    assert tuple(acme.context.regions) == ("north",)
    assert acme.context.endpoints == {"prices": "http://127.0.0.1:9"}


def test_auto_asks_the_cloud_where_nothing_is_hosted(
    upkeep: PriceFileStore, acme: Told, mirror: doubles.Mirror
) -> None:
    assert upkeep.refresh(["acme"])["acme"].source == "provider"
    assert len(mirror.requests("acme")) == 1
    mirror.host("acme", world.v8_text())
    done = upkeep.refresh(["acme"])["acme"]
    assert (done.outcome, done.source) == (Outcome.UPDATED, "hosted")
    assert sorted(p.name for p in (upkeep.root / "acme").glob("*.csv")) == ["vms.csv"], (
        "the other form's files are gone"
    )
    assert upkeep.folder("acme").owner() is Owner.NBPROV


def test_auto_does_not_turn_to_the_cloud_where_the_mirror_is_only_down(
    upkeep: PriceFileStore, acme: Told, mirror: doubles.Mirror
) -> None:
    mirror.host("acme", "", doubles.status(500))
    assert upkeep.refresh(["acme"])["acme"].outcome is Outcome.FAILED
    assert acme.context is None


def test_a_region_that_fails_is_reported_and_keeps_its_rows(
    upkeep: PriceFileStore, acme: Told
) -> None:
    upkeep.refresh(["acme"])
    dearer = tuple(
        replace(row, on_demand=2 * row.on_demand)
        for row in ROWS
        if row.region != "south" and row.on_demand
    )
    acme.answer = lambda context: replace(
        LIST, rows=dearer, failed={"south": "503 from its price service"}
    )
    done = upkeep.refresh(["acme"])["acme"]
    assert done.failed == {"south": "503 from its price service"}
    assert "south could not be read: 503 from its price service; its old rows stay" in done.notes
    assert done.differences.counts() == {"up": 4, "down": 0, "new": 0, "gone": 0}
    assert {e.on_demand for e in upkeep.present("acme") if e.region == "south"} == {
        1_100_000,
        2_200_000,
    }
    assert upkeep.status(["acme"])[0].notes == done.notes


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (CloudError(Failure(Cause.CREDENTIALS, "401 no key")), "cloud.credentials", "401 no key"),
        (CloudError(Failure(Cause.RATE_LIMIT, "slow down")), "cloud.rate_limit", "slow down"),
        (ZeroDivisionError("division by zero"), "catalog.fetcher", "ZeroDivisionError"),
        (SystemExit(3), "catalog.fetcher", "SystemExit"),
        (TimeoutError("took too long"), "cloud.transient", "took too long"),
    ],
)
def test_a_fetcher_that_fails_fails_alone(
    upkeep: PriceFileStore,
    acme: Told,
    mirror: doubles.Mirror,
    error: BaseException,
    code: str,
    words: str,
) -> None:
    def fail(context: FetchContext) -> PriceList:
        raise error

    mirror.host("lambda", world.v8_text())
    acme.answer = fail
    done = upkeep.refresh(["acme", "lambda"])
    assert done["acme"].outcome is Outcome.FAILED
    assert done["acme"].code == code
    assert words in done["acme"].message
    assert done["lambda"].outcome is Outcome.UPDATED


def test_what_is_lacking_is_said(upkeep: PriceFileStore, acme: Told) -> None:
    acme.lacking = "no API key: set ACME_KEY"
    done = upkeep.refresh(["acme"])["acme"]
    assert (
        done.message
        == "no price file of acme is hosted, and acme cannot be asked for its prices: no API"
        " key: set ACME_KEY"
    )
    assert acme.context is None


def test_prices_that_are_none_are_left_out(upkeep: PriceFileStore, acme: Told) -> None:
    bad = (replace(ROWS[0], on_demand=0), replace(ROWS[1], on_demand=-5), *ROWS[2:])
    acme.answer = lambda context: replace(LIST, rows=bad)
    done = upkeep.refresh(["acme"])["acme"]
    assert done.rows == 4
    assert "2 rows without a price above zero were left out" in done.notes


def test_an_empty_list_is_refused(upkeep: PriceFileStore, acme: Told) -> None:
    acme.answer = lambda context: replace(LIST, rows=())
    assert upkeep.refresh(["acme"])["acme"].code == "catalog.no-prices"


def test_far_fewer_rows_need_force(upkeep: PriceFileStore, acme: Told) -> None:
    upkeep.refresh(["acme"])
    acme.answer = lambda context: replace(LIST, rows=ROWS[:1])
    done = upkeep.refresh(["acme"])["acme"]
    assert (done.outcome, done.code) == (Outcome.FAILED, "catalog.far-fewer")
    assert "has 1 prices, where 6 were known" in done.message
    assert len(upkeep.present("acme")) == 6
    forced = upkeep.refresh(["acme"], force=True)["acme"]
    assert forced.outcome is Outcome.UPDATED
    assert forced.differences.counts()["gone"] == 5


def test_a_cloud_without_a_list_of_its_own_says_so(upkeep: PriceFileStore, acme: Told) -> None:
    done = upkeep.refresh(["nebius"], source=Source.PROVIDER)["nebius"]
    assert done.code == "catalog.no-fetcher"
