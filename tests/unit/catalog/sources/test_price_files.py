"""Which files stand for a cloud, and what happens where they cannot be read."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import nbprov.catalog.catalog as catalog_module
from nbprov.catalog import Catalog, CatalogError, Query
from nbprov.catalog.catalog import shipped_folder
from nbprov.catalog.sources.price_entry import PriceEntry
from nbprov.catalog.sources.price_files import LAST_GOOD, Layout, find, read_prices, user_folder
from nbprov.catalog.sources.snapshot import read as read_own
from nbprov.catalog.sources.snapshot import write as write_own

WriteV8 = Callable[..., Path]
LONG_AGO = 1_600_000_000


def row(name: str, price: str = "1", **more: object) -> dict[str, object]:
    return {
        "InstanceType": name,
        "Price": price,
        "vCPUs": "4",
        "MemoryGiB": "16",
        "Region": "r",
        **more,
    }


def types(catalog: Catalog, cloud: str = "lambda") -> set[str]:
    return {offer.instance_type for offer in catalog.offers(Query(cloud=cloud))}


@pytest.fixture(autouse=True)
def small_shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shipped snapshot of two clouds with one row each, so that a test costs no second of
    parsing.
    """
    folder = tmp_path / "shipped"
    for cloud in ("aws", "lambda"):
        entry = PriceEntry(
            cloud,
            "us-east-1",
            "",
            "shipped",
            "",
            0.0,
            None,
            "",
            4.0,
            16.0,
            "",
            1_000_000,
            None,
            "s",
            "2026-01-01",
            "s",
            "2026-01-01",
        )
        write_own(folder / cloud, [entry], [("A", "2026-01-01", "s")])
    monkeypatch.setattr(catalog_module, "shipped_folder", lambda: folder)
    return folder


@pytest.fixture
def mine(write_v8: WriteV8, nbprov_home: Path) -> Path:
    """The user's own copy of one cloud."""
    folder = user_folder() / "lambda"
    folder.parent.mkdir(parents=True)
    (write_v8("lambda", [row("mine")]) / "lambda").rename(folder)
    return folder


def test_the_users_copy_stands_instead_of_the_shipped(mine: Path) -> None:
    catalog = Catalog.open()
    assert types(catalog) == {"mine"}
    assert (catalog.info("lambda").origin, catalog.info("aws").origin) == ("your copy", "shipped")
    assert catalog.problems() == ()


def test_a_copy_older_than_the_shipped_is_passed_over_and_told(mine: Path) -> None:
    os.utime(mine / "vms.csv", (LONG_AGO, LONG_AGO))
    info = Catalog.open().info("lambda")
    assert info.origin == "shipped"
    assert info.passed_over.startswith(
        "your copy of 2020-09-13 is older than the shipped prices of 2026-01-01"
    )
    assert "mine" not in types(Catalog.open())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe\x00garbage",
        b"nonsense,columns\n1,2\n",
        b"InstanceType,AcceleratorName,AcceleratorCount,Price,Region\nmine,,,1,r\nmine,,",
    ],
)
def test_a_file_that_cannot_be_read_takes_only_its_cloud_back_to_the_shipped(
    mine: Path, data: bytes
) -> None:
    (mine / "vms.csv").write_bytes(data)
    catalog = Catalog.open()
    info = catalog.info("lambda")
    assert info.origin == "shipped"
    assert "lambda/vms.csv" in info.error
    assert types(catalog) == {"shipped"}
    (problem,) = catalog.problems()
    assert (problem.cloud, problem.hint) == ("lambda", "prices used instead: shipped")
    assert catalog.clouds() == ["aws", "lambda"]


def test_a_last_good_copy_stands_before_the_shipped(mine: Path, write_v8: WriteV8) -> None:
    (write_v8("lambda", [row("good")], folder="other") / "lambda").rename(mine / LAST_GOOD)
    assert types(Catalog.open()) == {"mine"}
    (mine / "vms.csv").write_bytes(b"")
    catalog = Catalog.open()
    assert types(catalog) == {"good"}
    assert catalog.info("lambda").origin == "your last good copy"
    assert catalog.info("lambda").error


def test_a_folder_in_place_of_a_file_is_no_price_file(mine: Path) -> None:
    (mine / "vms.csv").unlink()
    (mine / "vms.csv").mkdir()
    assert Catalog.open().info("lambda").origin == "shipped"


def test_a_part_of_our_own_form_alone_is_torn(mine: Path) -> None:
    (mine / "vms.csv").unlink()
    (mine / "prices.csv").write_text(
        "id,region,zones,on_demand,spot,source,spot_source\n", encoding="utf-8"
    )
    info = Catalog.open().info("lambda")
    assert info.origin == "shipped"
    assert "sources.csv cannot be read" in info.error


def test_of_two_forms_the_newer_stands(mine: Path) -> None:
    entries = [entry._replace(instance_type="own") for entry in read_prices(mine, "lambda")]
    write_own(mine, entries, [("A", entries[0].as_of, entries[0].source)])
    later = time.time() + 10
    os.utime(mine / "prices.csv", (later, later))
    assert types(Catalog.open()) == {"own"}
    os.utime(mine / "vms.csv", (later + 10, later + 10))
    assert types(Catalog.open()) == {"mine"}


def test_nothing_readable_at_all_is_an_error(
    write_v8: WriteV8, open_catalog: Callable[..., Catalog]
) -> None:
    folder = write_v8("lambda", [row("a")])
    (folder / "lambda" / "vms.csv").write_bytes(b"")
    with pytest.raises(CatalogError, match="has no column InstanceType"):
        open_catalog(folder).clouds()


def test_a_cloud_without_any_readable_file_is_named_beside_the_others(
    write_v8: WriteV8, open_catalog: Callable[..., Catalog]
) -> None:
    folder = write_v8("lambda", [row("a")])
    write_v8("vast", [row("b")])
    (folder / "lambda" / "vms.csv").write_bytes(b"")
    catalog = open_catalog(folder)
    assert catalog.clouds() == ["vast"]
    info = catalog.info("lambda")
    assert (info.rows, info.origin, info.newest) == (0, "", "")
    assert [problem.cloud for problem in catalog.problems()] == ["lambda"]


def test_a_file_with_nothing_in_it_is_not_taken_for_a_price_list(
    mine: Path, write_v8: WriteV8
) -> None:
    empty = write_v8("lambda", [], folder="empty") / "lambda" / "vms.csv"
    empty.replace(mine / "vms.csv")
    info = Catalog.open().info("lambda")
    assert (info.origin, info.error) == ("shipped", "lambda/vms.csv holds no price")


def test_files_beside_the_prices_are_left_alone(mine: Path, small_shipped: Path) -> None:
    (mine / "az_mappings-00000000.csv").write_text("x", encoding="utf-8")
    (mine / ".vms.csv.1.new").write_text("x", encoding="utf-8")
    (user_folder() / ".locks").mkdir()
    assert Catalog.open().problems() == ()
    assert list(find(Layout.usual(small_shipped)).files) == ["aws", "lambda"]


def test_both_forms_are_read_raw(tmp_path: Path) -> None:
    assert (
        read_prices(shipped_folder() / "gcp", "gcp")
        == read_own(shipped_folder() / "gcp", "gcp").entries
    )
    with pytest.raises(CatalogError, match="no price files"):
        read_prices(tmp_path, "gcp")


def test_the_age_of_prices(write_v8: WriteV8, open_catalog: Callable[..., Catalog]) -> None:
    folder = write_v8("lambda", [row("a")])
    os.utime(folder / "lambda" / "vms.csv", (LONG_AGO, LONG_AGO))
    assert open_catalog(folder).info("lambda").newest == "2020-09-13"
