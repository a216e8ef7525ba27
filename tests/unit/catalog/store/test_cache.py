"""The binary cache: fast when it is there, never wrong, never needed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import nbprov.catalog.store.builder as build_module
import nbprov.catalog.store.cache as cache_module
from nbprov.catalog import Catalog, CatalogError, Query
from nbprov.catalog.catalog import shipped_folder
from nbprov.catalog.store.columns import ColumnStore

WriteV8 = Callable[..., Path]
LONG_AGO = 1_700_000_000

Builds = list[int]


@pytest.fixture
def folder(write_v8: WriteV8) -> Path:
    place = write_v8("lambda", [{"InstanceType": "t", "Price": "1", "vCPUs": "4", "Region": "r"}])
    os.utime(place / "lambda" / "vms.csv", (LONG_AGO, LONG_AGO))
    return place


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> Builds:
    """Grows by one each time price files are parsed."""
    made: Builds = []
    real = build_module.build

    def counting(files: cache_module.Files) -> bytes:
        made.append(len(files))
        return real(files)

    monkeypatch.setattr(build_module, "build", counting)
    return made


def price(folder: Path, cache: Path) -> int:
    return Catalog.open(folder, cache=cache).offers(Query())[0].hourly


def test_second_opening_parses_nothing(folder: Path, tmp_path: Path, builds: Builds) -> None:
    assert price(folder, tmp_path / "c") == price(folder, tmp_path / "c") == 1_000_000
    assert builds == [1]


def test_second_opening_does_not_even_hash(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    price(folder, tmp_path / "c")

    def never(files: cache_module.Files) -> str:
        raise AssertionError("the inputs were hashed")

    monkeypatch.setattr(cache_module, "_content", never)
    assert price(folder, tmp_path / "c") == 1_000_000


def test_an_edit_is_seen_even_with_size_and_time_unchanged_just_now(
    folder: Path, tmp_path: Path, builds: Builds
) -> None:
    path = folder / "lambda" / "vms.csv"
    # A little ahead: a busy machine may take longer from here to the next look than a time counts
    # as just now.
    os.utime(path, (time.time() + 60.0,) * 2)
    status = path.stat()
    price(folder, tmp_path / "c")
    path.write_text(
        path.read_text(encoding="utf-8").replace("t,,,4,,,1,", "t,,,4,,,2,"), encoding="utf-8"
    )
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert price(folder, tmp_path / "c") == 2_000_000
    assert builds == [1, 1]


def test_the_same_content_elsewhere_shares_the_cache(
    folder: Path, tmp_path: Path, builds: Builds
) -> None:
    price(folder, tmp_path / "c")
    moved = folder.rename(tmp_path / "moved")
    assert price(moved, tmp_path / "c") == 1_000_000
    assert builds == [1]


@pytest.mark.parametrize("damage", ["empty", "cut", "head", "tail", "garbage", "pointer"])
def test_a_damaged_cache_is_made_again(
    folder: Path, tmp_path: Path, builds: Builds, damage: str
) -> None:
    place = tmp_path / "c"
    price(folder, place)
    (binary,) = place.glob("*.bin")
    (pointer,) = place.glob("*.json")
    data = binary.read_bytes()
    if damage == "pointer":
        pointer.write_text('{"content": 1', encoding="utf-8")
    else:
        torn = {
            "empty": b"",
            "cut": data[:-64],
            "head": data[:40] + b"\0" + data[41:],
            "tail": data[:-65] + bytes([data[-65] ^ 1]) + data[-64:],
            "garbage": os.urandom(4096),
        }[damage]
        binary.write_bytes(torn)
    assert price(folder, place) == 1_000_000
    assert len(builds) == (1 if damage == "pointer" else 2)
    assert price(folder, place) == 1_000_000
    assert len(builds) == (1 if damage == "pointer" else 2)
    assert not list(place.glob("*.tmp"))


def test_a_place_that_cannot_be_written_is_no_hindrance(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    assert price(folder, tmp_path / "file" / "cache") == 1_000_000


def test_the_cache_lies_in_the_home(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NBPROV_HOME", str(tmp_path / "home"))
    Catalog.open(folder).clouds()
    assert len(list((tmp_path / "home" / "cache").glob("catalog-*.bin"))) == 1


def test_prices_in_the_home_stand_before_the_shipped(
    tmp_path: Path, write_v8: WriteV8, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NBPROV_HOME", str(tmp_path / "home"))
    write_v8(
        "lambda",
        [{"InstanceType": "mine", "Price": "1", "vCPUs": "4", "Region": "r"}],
        folder="home/catalogs",
    )
    catalog = Catalog.open()
    assert [o.instance_type for o in catalog.offers(Query(cloud="lambda"))] == ["mine"]
    assert "aws" in catalog.clouds()


def test_old_caches_are_swept(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "c"
    place.mkdir()
    old, recent = place / "catalog-0-old.bin", place / "catalog-1-recent.bin"
    for path in (old, recent):
        path.write_bytes(b"x")
    os.utime(old, (LONG_AGO, LONG_AGO))
    price(folder, place)
    assert not old.exists()
    assert recent.exists()


def test_kernels_that_start_together_all_get_the_prices(folder: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from nbprov.catalog import *; print(Catalog.open(sys.argv[1],"
        " cache=sys.argv[2]).offers(Query())[0].hourly)"
    )
    command = [sys.executable, "-c", code, str(folder), str(tmp_path / "c")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate()[0].strip() for process in running] == ["1000000"] * 3
    assert len(list((tmp_path / "c").iterdir())) == 2


def test_bytes_that_are_no_store_are_refused() -> None:
    with pytest.raises(CatalogError, match="too short"):
        ColumnStore.of(b"")
    with pytest.raises(CatalogError, match="torn"):
        ColumnStore.of(b"\0" * 1000)


def test_import_and_names_need_no_numpy(tmp_path: Path) -> None:
    code = (
        "import sys; from nbprov.catalog import Catalog, Query\n"
        "heavy = lambda: sorted({'numpy', 'pandas', 'IPython'} & set(sys.modules))\n"
        "print(heavy()); c = Catalog.open(sys.argv[1], cache=sys.argv[2])\n"
        "c.accelerators(); c.regions('aws'); c.info('gcp'); print(heavy())\n"
        "c.select(Query(accelerator='A100')); print(heavy())"
    )
    command = [sys.executable, "-c", code, str(shipped_folder()), str(tmp_path / "c")]
    for expected in (["[]", "['numpy']", "['numpy']"], ["[]", "[]", "['numpy']"]):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.split("\n")[:3] == expected
