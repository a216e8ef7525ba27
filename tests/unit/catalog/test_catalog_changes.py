"""A change on disk is picked up by the next question, whoever made it and however."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import nbprov.catalog.catalog as catalog_module
from nbprov.catalog import Catalog, Query, default_catalog
from nbprov.catalog.sources.price_files import override_folder, user_folder
from nbprov.model.money import usd
from nbprov.model.offers import Offer
from nbprov.model.places import Market

WriteV8 = Callable[..., Path]
LONG_AGO = 1_700_000_000

LIVE = Offer("local", "hall", "", "box", "", 0, 4, 8, Market.ON_DEMAND, usd(1), as_of="2026-01-01")


def row(price: str, name: str = "t") -> dict[str, object]:
    return {"InstanceType": name, "Price": price, "vCPUs": "4", "Region": "r"}


@pytest.fixture(autouse=True)
def small_shipped(write_v8: WriteV8, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shipped snapshot of one row, so that a change costs no second of parsing."""
    folder = write_v8("lambda", [row("1", "shipped")], folder="shipped")
    monkeypatch.setattr(catalog_module, "shipped_folder", lambda: folder)
    monkeypatch.setattr(catalog_module, "_default", None)
    settle(folder)
    return folder


@pytest.fixture
def mine(write_v8: WriteV8, nbprov_home: Path) -> Callable[[str], Path]:
    """Puts the user's copy of one cloud's prices in place in one step, as a refresh does, and
    returns the file.
    """

    def put(price: str) -> Path:
        fresh = write_v8("lambda", [row(price)], folder="fresh") / "lambda" / "vms.csv"
        place = user_folder() / "lambda"
        place.mkdir(parents=True, exist_ok=True)
        return fresh.replace(place / "vms.csv")

    return put


def price(catalog: Catalog) -> list[int]:
    return [offer.hourly for offer in catalog.offers(Query(cloud="lambda", instance_type="t"))]


def settle(*folders: Path) -> None:
    """Date all files far back, so that their time stamps can be relied on."""
    for folder in folders:
        for path in [*folder.rglob("*"), folder]:
            os.utime(path, (LONG_AGO, LONG_AGO))


def test_a_file_that_appears_changes_or_goes_is_seen_at_once(mine: Callable[[str], Path]) -> None:
    assert price(default_catalog()) == []
    path = mine("1")
    assert price(default_catalog()) == [usd(1)]
    mine("2")
    assert price(default_catalog()) == [usd(2)]
    path.unlink()
    assert price(default_catalog()) == []


def test_an_edit_in_place_is_seen_at_once_though_size_and_time_are_the_same(
    mine: Callable[[str], Path],
) -> None:
    path = mine("1")
    assert price(default_catalog()) == [usd(1)]
    status = path.stat()
    path.write_text(path.read_text(encoding="utf-8").replace(",1,", ",3,"), encoding="utf-8")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert price(default_catalog()) == [usd(3)]


def test_overrides_are_seen_at_once(mine: Callable[[str], Path]) -> None:
    mine("1")
    assert price(default_catalog()) == [usd(1)]
    override_folder().mkdir()
    (override_folder() / "lambda.csv").write_text("InstanceType,Price\nt,5\n", encoding="utf-8")
    assert price(default_catalog()) == [usd(5)]
    (user_folder() / "lambda" / "x_custom.csv").write_text(
        "InstanceType,Region,Price\nt,r2,6\n", encoding="utf-8"
    )
    assert price(default_catalog()) == [usd(5), usd(5)]
    (override_folder() / "lambda.csv").unlink()
    assert price(default_catalog()) == [usd(1), usd(6)]


def test_the_same_object_answers_while_nothing_changes(mine: Callable[[str], Path]) -> None:
    mine("1")
    first = default_catalog()
    assert price(first) == [usd(1)]
    assert default_catalog() is first
    os.utime(user_folder() / "lambda" / "vms.csv")  # touched, but the same
    assert default_catalog() is first


def test_asking_again_reads_no_file_once_their_times_tell(
    write_v8: WriteV8, open_catalog: Callable[..., Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_v8("lambda", [row("1")])
    settle(folder)
    catalog = open_catalog(folder)
    assert price(catalog) == [usd(1)]

    def never(self: object) -> None:
        raise AssertionError("the folders were looked at again")

    monkeypatch.setattr(catalog_module.WatchedFolders, "reread", never)
    assert catalog.current() is catalog


def test_what_was_found_keeps_its_meaning_after_a_change(mine: Callable[[str], Path]) -> None:
    mine("1")
    before = default_catalog()
    rows = before.select(Query(cloud="lambda"))
    mine("2")
    after = default_catalog()
    assert after is not before
    assert [before.offer(row).hourly for row in rows] == [usd(1)]
    assert price(after) == [usd(2)]


def test_live_offers_stay_through_a_change(
    write_v8: WriteV8, open_catalog: Callable[..., Catalog]
) -> None:
    folder = write_v8("lambda", [row("1")])
    catalog = open_catalog(folder).with_offers([LIVE])
    assert catalog.clouds() == ["lambda", "local"]
    write_v8("lambda", [row("2")])
    fresh = catalog.current()
    assert fresh.clouds() == ["lambda", "local"]
    assert price(fresh) == [usd(2)]


def test_a_file_torn_while_a_notebook_runs_goes_back_to_the_shipped(
    mine: Callable[[str], Path],
) -> None:
    path = mine("1")
    assert price(default_catalog()) == [usd(1)]
    path.write_bytes(path.read_bytes()[:20])
    assert default_catalog().info("lambda").origin == "shipped"
    assert default_catalog().problems()
    mine("1")
    assert price(default_catalog()) == [usd(1)]
    assert default_catalog().problems() == ()


def test_another_home_is_another_catalogue(
    mine: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine("1")
    assert price(default_catalog()) == [usd(1)]
    monkeypatch.setenv("NBPROV_HOME", str(tmp_path / "elsewhere"))
    assert price(default_catalog()) == []


def test_a_store_made_from_a_file_that_is_replaced_meanwhile_stays_whole(
    write_v8: WriteV8, tmp_path: Path
) -> None:
    """The cache is mapped into memory; a new one is another file, and sweeping it away must not
    pull it from under a reader.
    """
    folder = write_v8("lambda", [row(f"{1 + i / 1000}", f"t{i}") for i in range(500)])
    catalog = Catalog.open(folder, cache=tmp_path / "cache")
    assert len(catalog) == 500
    reopened = Catalog.open(folder, cache=tmp_path / "cache")
    assert len(reopened) == 500
    for path in (tmp_path / "cache").iterdir():
        path.unlink()
    assert [offer.hourly for offer in reopened.offers(Query())] == [
        usd(1 + i / 1000) for i in range(500)
    ]


READER = """
import sys
from nbprov.catalog import Catalog, Query
catalog = Catalog.open(sys.argv[1], cache=sys.argv[2])
for line in sys.stdin:
    catalog = catalog.current()
    offers = catalog.offers(Query(cloud="lambda"))
    print(len({o.hourly for o in offers}), len(offers), len(catalog.problems()), flush=True)
"""


def test_processes_that_read_while_prices_are_replaced_see_one_state_or_the_other(
    write_v8: WriteV8, tmp_path: Path
) -> None:
    """Two readers with one cache, prices replaced under them again and again.

    Each answer is of one price list, whole.
    """
    place = tmp_path / "read" / "lambda"
    place.mkdir(parents=True)

    def put(amount: int) -> None:
        rows = [{**row(f"{1 + amount / 100}"), "Region": f"r{i}"} for i in range(100)]
        fresh = write_v8("lambda", rows, folder="fresh") / "lambda" / "vms.csv"
        fresh.replace(place / "vms.csv")

    put(0)
    command = [sys.executable, "-c", READER, str(place.parent), str(tmp_path / "cache")]
    readers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        for amount in range(20):
            for reader in readers:
                assert reader.stdin
                reader.stdin.write("ask\n")
                reader.stdin.flush()
            put(amount)
            for reader in readers:
                assert reader.stdout
                assert reader.stdout.readline().split() == ["1", "100", "0"]
    finally:
        for reader in readers:
            reader.communicate()


def test_the_shipped_folder_is_watched_too(small_shipped: Path) -> None:
    catalog = default_catalog()
    catalog.clouds()
    watched = set(catalog._source._watched)
    assert {
        str(small_shipped / "lambda" / "vms.csv"),
        str(user_folder()),
        str(override_folder()),
    } <= watched
