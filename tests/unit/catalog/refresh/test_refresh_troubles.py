"""What else happens to a refresh: no network, odd bytes, a full disk, links, a person who edits
meanwhile. One typed line, and nothing lost.
"""

from __future__ import annotations

import errno
import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import price_mirror as doubles
import price_world as world
import pytest

from nbprov.catalog import Catalog
from nbprov.catalog.refresh import (
    CloudRefresh,
    Outcome,
    Owner,
    PriceFileStore,
    atomic_files,
    cloud_folder,
    refresh_cloud,
)
from nbprov.catalog.refresh.status import RefreshStep
from nbprov.model.files import durable

TEXT = world.v8_text()
HEAD, *LINES = TEXT.splitlines()


def _bytes(data: bytes, **headers: str) -> doubles.Behaviour:
    return lambda handler, file: handler.answer(
        200, data, {name.replace("_", "-"): value for name, value in headers.items()}
    )


def _one(upkeep: PriceFileStore) -> CloudRefresh:
    return upkeep.refresh(["lambda"])["lambda"]


def _files(upkeep: PriceFileStore) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (upkeep.root / "lambda").glob("*.csv")}


@pytest.mark.parametrize(
    "data",
    [
        TEXT.replace("\n", "\r\n").encode(),
        TEXT.encode("utf-8-sig"),
        "\n".join([f"{HEAD},Quality,Extra", *(f"{line},5,x" for line in LINES), ""]).encode(),
        "\n".join([f"Extra,{HEAD}", *(f"x,{line}" for line in LINES), ""]).encode(),
    ],
    ids=["CRLF", "BOM", "more columns", "another order"],
)
def test_other_ways_to_write_the_same_file(
    upkeep: PriceFileStore, mirror: doubles.Mirror, data: bytes
) -> None:
    mirror.host("lambda", "", _bytes(data))
    done = _one(upkeep)
    assert (done.outcome, done.rows) == (Outcome.UPDATED, 20)
    assert len(Catalog.open([upkeep.root], cache=upkeep.home / "cache")) == 20


def test_a_compressed_answer_is_the_same_file(
    upkeep: PriceFileStore, mirror: doubles.Mirror
) -> None:
    mirror.host("lambda", "", _bytes(gzip.compress(TEXT.encode()), Content_Encoding="gzip"))
    assert (_one(upkeep).outcome, _files(upkeep)) == (Outcome.UPDATED, {"vms.csv": TEXT.encode()})


@pytest.mark.parametrize(
    ("data", "headers", "words"),
    [
        (
            TEXT.replace("us-east-1", "us-éast-1").encode("latin-1"),
            {},
            "the file that was sent cannot be read: 'utf-8' codec",
        ),
        (f"{HEAD}\n".encode(), {}, "holds no price"),
        (b"", {}, "cut short"),
        (TEXT.encode("utf-16"), {}, "cut short"),
        (
            f"{HEAD}\n{'x' * 200_000}\n".encode(),
            {},
            "the file that was sent cannot be read: field larger",
        ),
        (
            TEXT.replace("0.7500", "-1").replace("1.1000", "1e400").encode(),
            {},
            "8 of 20 lines that were sent cannot be read",
        ),
        (TEXT.encode(), {"Content_Encoding": "gzip"}, "could not be decompressed"),
        (gzip.compress(TEXT.encode())[:100], {"Content_Encoding": "gzip"}, "cut short"),
        (gzip.compress(bytes(65 << 20)), {"Content_Encoding": "gzip"}, "is larger than"),
    ],
    ids=[
        "not UTF-8",
        "a header only",
        "nothing",
        "UTF-16",
        "no lines",
        "prices that are none",
        "not compressed",
        "half compressed",
        "a bomb",
    ],
)
def test_bytes_that_are_no_price_list_change_nothing(
    upkeep: PriceFileStore, mirror: doubles.Mirror, data: bytes, headers: dict[str, str], words: str
) -> None:
    mirror.host("lambda", TEXT)
    _one(upkeep)
    mirror.host("lambda", "", _bytes(data, **headers))
    done = _one(upkeep)
    assert done.outcome is Outcome.FAILED
    assert done.code
    assert words in done.message
    assert "\n" not in done.message
    assert _files(upkeep) == {"vms.csv": TEXT.encode()}
    assert upkeep.status(["lambda"])[0].error == done.message


@pytest.mark.parametrize(
    "data",
    [b"InstanceType,Price\nx,1\n", b"<html>moved</html>", TEXT.encode()[:-3]],
    ids=["columns", "page", "cut"],
)
def test_the_fallback_is_asked_where_the_primary_sends_no_price_list(
    upkeep: PriceFileStore, mirror: doubles.Mirror, data: bytes
) -> None:
    mirror.host("lambda", "", _bytes(data))
    with doubles.mirror() as other:
        other.host("lambda", TEXT)
        world.settings(upkeep.home, mirror.address, other.address)
        done = _one(upkeep)
        assert (done.outcome, done.url) == (
            Outcome.UPDATED,
            other.address.replace("{cloud}", "lambda"),
        )


def test_without_a_network_no_cloud_is_waited_for_long(
    nbprov_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = "http://127.0.0.1:9"
    more = "".join(
        f'[endpoints.{c}]\n{name} = "{nowhere}"\n'
        for c, name in (("azure", "prices"), ("runpod", "graphql"), ("vast", "api"))
    )
    world.settings(nbprov_home, nowhere + "/{cloud}", nowhere + "/else/{cloud}", more=more)
    made: list[world.QuickHttp] = []

    def http(stop: object) -> world.QuickHttp:
        made.append(world.QuickHttp(stop))  # type: ignore[arg-type]
        return made[-1]

    done = PriceFileStore(nbprov_home, http=http).refresh()
    assert done.sentence() == "offline: no price source could be reached; the prices in place stay"
    assert {cloud.outcome for cloud in done if cloud.cloud != "runpod"} == {Outcome.OFFLINE}
    # Four clouds may find out at the same time; whoever comes later is told.
    assert sum(made[0].pauses) <= 4 + 3, (
        "seconds that would have been waited, were they one after the other"
    )


def test_a_file_that_is_edited_while_its_prices_come_in_is_not_overwritten(
    upkeep: PriceFileStore, mirror: doubles.Mirror
) -> None:
    mirror.host("lambda", TEXT)
    _one(upkeep)
    mirror.host("lambda", world.v8_text(factor=1.1))
    path = upkeep.root / "lambda" / "vms.csv"
    edited = TEXT.replace("0.7500", "0.5000")

    def watch(step: RefreshStep) -> None:
        if step.doing == "checking":
            path.write_text(edited, encoding="utf-8", newline="")

    done = upkeep.refresh(["lambda"], watch=watch)["lambda"]
    assert (done.outcome, path.read_bytes()) == (Outcome.EDITED, edited.encode())
    assert upkeep.folder("lambda").owner() is Owner.PERSON


REFRESH = """
import sys
from pathlib import Path
from nbprov.catalog.refresh import PriceFileStore
upkeep = PriceFileStore(Path(sys.argv[1]), shipped=Path(sys.argv[2]))
print(upkeep.refresh(["lambda"])["lambda"].outcome.value)
"""


def test_four_kernels_at_once_of_which_the_first_is_killed(
    upkeep: PriceFileStore, mirror: doubles.Mirror, tmp_path: Path
) -> None:
    mirror.host("lambda", TEXT, doubles.hanging, doubles.whole)
    command = [sys.executable, "-c", REFRESH, str(upkeep.home), str(tmp_path / "shipped")]
    kernels = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True)]
    try:
        assert mirror.held.wait(60)
        kernels += [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        kernels[0].kill()
        said = [kernel.communicate(timeout=120)[0].strip() for kernel in kernels]
    finally:
        for kernel in kernels:
            kernel.kill()
            kernel.wait()
    assert said[0] == ""
    # Whoever comes when the prices are there asks whether they are still the same, or was told by
    # waiting.
    assert sorted(said[1:]) == ["current", "current", "updated"]
    assert _files(upkeep) == {"vms.csv": TEXT.encode()}
    assert not list((upkeep.root / "lambda" / ".refresh" / "next").glob("*"))


def _disk_full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    "step",
    [
        (durable, "sync"),
        (atomic_files, "copy"),
        (cloud_folder, "_replace"),
        (refresh_cloud.change_log, "write"),
    ],
    ids=lambda s: s[1],
)
def test_a_full_disk_is_one_line_and_the_next_refresh_works(
    upkeep: PriceFileStore,
    mirror: doubles.Mirror,
    monkeypatch: pytest.MonkeyPatch,
    step: tuple[object, str],
) -> None:
    mirror.host("lambda", TEXT)
    _one(upkeep)
    new = world.v8_text(factor=1.1)
    mirror.host("lambda", new)
    with monkeypatch.context() as full:
        full.setattr(*step, _disk_full)
        done = _one(upkeep)
    assert (done.outcome, done.code) == (Outcome.FAILED, "catalog.unwritable")
    assert "No space left on device" in done.message
    assert _files(upkeep)["vms.csv"] in (TEXT.encode(), new.encode())
    again = _one(upkeep)
    assert again.ok
    assert _files(upkeep) == {"vms.csv": new.encode()}
    assert upkeep.folder("lambda").owner() is Owner.NBPROV


@pytest.mark.parametrize("link", ["catalogs", "lambda"])
def test_folders_may_be_links(
    upkeep: PriceFileStore,
    mirror: doubles.Mirror,
    tmp_path: Path,
    link: str,
    questions: Callable[[Path], int],
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    place = upkeep.root if link == "catalogs" else upkeep.root / link
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(elsewhere, target_is_directory=True)
    mirror.host("lambda", TEXT)
    assert _one(upkeep).outcome is Outcome.UPDATED
    mirror.host("lambda", world.v8_text(factor=1.1))
    assert _one(upkeep).outcome is Outcome.UPDATED
    assert place.is_symlink()
    assert questions(upkeep.root) == 20


@pytest.fixture
def questions(tmp_path: Path) -> Callable[[Path], int]:
    """How many rows a catalogue over these folders has."""
    return lambda root: len(Catalog.open([root], cache=tmp_path / "cache"))
