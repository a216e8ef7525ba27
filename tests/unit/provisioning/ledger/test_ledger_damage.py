"""A ledger that is damaged, lost or not writable says so in one typed error, or goes on."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from engine_world import EngineWorld
from manual_clock import ManualClock
from provisioning_samples import candidate, instance, launch_row

from nbprov.model.blocks import block_after
from nbprov.model.clusters import ClusterState, RunState
from nbprov.model.errors import LedgerError
from nbprov.model.events import EventKind
from nbprov.model.failures import Cause, Failure
from nbprov.provisioning.ledger import Ledger
from nbprov.provisioning.live_rows import has_live_rows

Harm = Callable[[Path], None]


def _made(path: Path) -> str:
    """A ledger with a row in most tables, closed; returns its owner id."""
    ledger = Ledger(path, ManualClock(), "kernel-1")
    ledger.runs.open(
        "run-1", "dev", "name: dev", folder="", race=1, consent=5, state=RunState.LAUNCHING
    )
    ledger.launches.intend(launch_row("t1", candidate(), now=ledger.clock.now()))
    ledger.launches.accepted("t1", ("i-1",))
    ledger.instances.seen([instance("t1", "i-1")])
    ledger.clusters.hand_over("run-1", "dev", "run-1", "t1", candidate())
    ledger.events.add("run-1", EventKind.CLUSTER_STARTED, "started", "t1")
    ledger.guards.set_all("run-1", 1, {"idle_seconds": 60.0})
    block = block_after(candidate(), Failure(Cause.CAPACITY, "none"), now=ledger.clock.now())
    assert block is not None
    ledger.blocks.remember(block)
    ledger.close()
    return ledger.owner


def _used(path: Path) -> None:
    """What a session reads and writes."""
    ledger = Ledger(path, ManualClock(), "kernel-2")
    try:
        ledger.runs.unfinished(), ledger.runs.get("run-1"), ledger.runs.latest()
        ledger.launches.of_run("run-1"), ledger.launches.ids_of("t1"), ledger.launches.known(["t1"])
        ledger.instances.of_launch("t1"), ledger.clusters.latest(), ledger.blocks.standing()
        ledger.clusters.named("dev"), ledger.events.of_run("run-1"), ledger.guards.get("run-1")
        ledger.prices.cost("run-1"), ledger.prices.segments(), ledger.side_objects.listed()
        ledger.leases.take("run-1")
        ledger.blocks.free_quota(candidate())
        ledger.clusters.move("run-1", ClusterState.ENDED, "you ended it")
    finally:
        ledger.close()


def _error_of(path: Path) -> LedgerError | None:
    try:
        _used(path)
    except LedgerError as error:
        return error
    return None


def _bytes(at: int, junk: bytes) -> Harm:
    def harm(path: Path) -> None:
        with path.open("r+b") as file:
            file.seek(at)
            file.write(junk)

    return harm


def _cut(size: int) -> Harm:
    return lambda path: os.truncate(path, size)


def _sql(*statements: str) -> Harm:
    def harm(path: Path) -> None:
        with sqlite3.connect(path) as db:
            db.execute("PRAGMA foreign_keys = OFF")
            for statement in statements:
                db.execute(statement)
        db.close()

    return harm


def _pages(first: int) -> Harm:
    def harm(path: Path) -> None:
        size = path.stat().st_size
        with path.open("r+b") as file:
            for page in range(first, size // 4096):
                file.seek(page * 4096)
                file.write(b"\xa5" * 512)

    return harm


def _column(table: str, column: str, value: str) -> Harm:
    return _sql(f"UPDATE {table} SET {column} = {value}")


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


HARMS: dict[str, Harm] = {
    "text": lambda path: path.write_text("this is no ledger at all, " * 400) and None,
    "zeros": lambda path: path.write_bytes(bytes(8192)) and None,
    "a folder": _folder,
    "magic": _bytes(0, b"SQLite format 2\0"),
    "page size": _bytes(16, b"\x00\x03"),
    "versions": _bytes(18, b"\x09\x09"),
    "header": _bytes(20, b"\xff" * 60),
    "schema page": _bytes(100, b"\xa5" * 400),
    **{f"cut to {size}": _cut(size) for size in (1, 100, 4096, 8192, 20000)},
    **{f"pages from {first}": _pages(first) for first in (1, 2, 3, 5, 9)},
    "no meta": _sql("DROP TABLE meta"),
    "no owner": _sql("DELETE FROM meta WHERE key = 'owner'"),
    "owner is junk": _column("meta", "value", "x'ff00'"),
    "no runs": _sql("DROP TABLE runs"),
    "no events": _sql("DROP TABLE events"),
    "no column": _sql("ALTER TABLE runs DROP COLUMN message"),
    "other tables": _sql("DROP TABLE blocks", "CREATE TABLE blocks (a TEXT)"),
    "newer": _sql("PRAGMA user_version = 99"),
    "below zero": _sql("PRAGMA user_version = -3"),
    "older": _sql("PRAGMA user_version = 0"),
    "run state": _column("runs", "state", "'flying'"),
    "cluster state": _column("clusters", "state", "'flying'"),
    "desired state": _column("clusters", "desired_state", "''"),
    "launch state": _column("launches", "state", "x'00ff'"),
    "candidate": _column("clusters", "candidate", "'{'"),
    "candidate is a list": _column("launches", "candidate", "'[1]'"),
    "launch": _column("launches", "launch", "'{}'"),
    "operation": _column("launches", "operation", "'7'"),
    "ids": _column("launches", "ids", "'{\"a\"'"),
    "ids is a number": _column("launches", "ids", "'7'"),
    "instance": _column("instances", "data", "'null'"),
    "event kind": _column("events", "kind", "'unheard of'"),
    "event data": _column("events", "data", "'['"),
    "event text": _column("events", "text", "cast(x'ff' as text)"),
    "guards": _column("guards", "config", "'<'"),
    "block": _column("blocks", "data", "'{\"cause\": 1}'"),
    "price": _column("price_segments", "hourly", "'dear'"),
    "price start": _column("price_segments", "started", "'now'"),
    "lease": _column("runs", "lease_renewed", "'soon'"),
    "side object": _sql("INSERT INTO side_objects VALUES ('a','b','c','d','t1',2,'?',0,0,'')"),
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_damage_is_one_typed_error(tmp_path: Path, harm: Harm) -> None:
    path = tmp_path / "ledger.sqlite3"
    owner = _made(path)
    harm(path)
    error = _error_of(path)
    if error is not None:
        assert error.code.startswith("ledger"), error.code
        assert "stuck" not in error.hint, "no other kernel did that"
        assert str(path) in error.message
        assert error.hint
        if error.code == "ledger.damaged":
            assert f"mv '{path}' " in error.hint
            assert "backup" in error.hint
    else:
        ledger = Ledger(path, ManualClock(), "kernel-3")
        assert ledger.owner == owner, "it is no new ledger in silence"
        ledger.close()


def test_most_damage_is_called_so() -> None:
    assert len(HARMS) >= 40


@pytest.mark.parametrize("left", [b"", b"\x00" * 17, b"not an id\n"])
def test_an_owner_file_that_was_written_in_part_is_mended_at_the_next_opening(
    tmp_path: Path, left: bytes
) -> None:
    path = tmp_path / "ledger.sqlite3"
    owner = _made(path)
    (tmp_path / "owner").write_bytes(left)
    _used(path)
    assert (tmp_path / "owner").read_text() == f"{owner}\n"
    for file in tmp_path.glob("ledger*"):
        file.unlink()
    ledger = Ledger(path, ManualClock(), "kernel-3")
    assert ledger.owner == owner, "its machines are found"
    ledger.close()


def test_a_full_disk_leaves_no_empty_owner_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "ledger.sqlite3"
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        owner = _made(path)
    assert [f.name for f in tmp_path.iterdir() if "owner" in f.name] == []
    _used(path)
    assert (tmp_path / "owner").read_text() == f"{owner}\n"


def test_no_ledger_is_begun_beside_an_owner_id_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "owner").mkdir()
    with pytest.raises(LedgerError, match="Is a directory"):
        Ledger(tmp_path / "ledger.sqlite3", ManualClock(), "kernel-1")
    assert not (tmp_path / "ledger.sqlite3").exists()


@pytest.mark.parametrize("what", ["gone", "empty", "without its journal"])
def test_a_lost_ledger_keeps_its_id_and_says_so(tmp_path: Path, what: str) -> None:
    path = tmp_path / "ledger.sqlite3"
    if what == "without its journal":
        first = Ledger(path, ManualClock(), "kernel-1")
        owner = first.owner
        shutil.copy(path, tmp_path / "main")  # all that it has is in the journal still
        first.close()
        shutil.move(tmp_path / "main", path)
    else:
        owner = _made(path)
        path.unlink() if what == "gone" else path.write_bytes(b"")
    assert has_live_rows(path), "the load looks"
    ledger = Ledger(path, ManualClock(), "kernel-2")
    assert ledger.owner == owner
    assert what in ledger.store.warning
    assert owner in ledger.store.warning
    assert ledger.lost_at
    ledger.end_loss()
    assert ledger.lost_at is None
    ledger.close()
    assert not has_live_rows(path)


def test_a_lost_ledger_of_which_only_keys_are_left_says_so(tmp_path: Path) -> None:
    (tmp_path / "keys" / "run-1").mkdir(parents=True)
    ledger = Ledger(tmp_path / "ledger.sqlite3", ManualClock(), "kernel-1")
    assert "its id is not known" in ledger.store.warning
    ledger.close()


def test_a_new_home_is_not_called_lost(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "home" / "ledger.sqlite3", ManualClock(), "kernel-1")
    assert (ledger.store.warning, ledger.lost_at) == ("", None)
    ledger.close()
    assert not has_live_rows(tmp_path / "home" / "ledger.sqlite3")


@pytest.mark.machine
def test_the_machines_of_a_lost_ledger_are_named_and_not_ended(world: EngineWorld) -> None:
    first = world.engine()
    world.finish(world.launch(first, world.prepare(first)))
    first.shut_down()
    world.engines.remove(first)
    for file in world.home.glob("ledger.sqlite3*"):
        file.unlink()
    (world.home / "local").mkdir()
    second = world.engine()
    assert second.ledger.owner == first.ledger.owner
    told = world.take_up(second)
    assert "is gone, though this home has been used" in told
    assert "is of the ledger that was lost" in told
    assert len(world.alive()) == 1
    assert second.ledger.lost_at is not None
    second.cloud("local").adapter.terminate([m["id"] for m in world.alive()])
    world.until(lambda: not world.alive(), "its owner ends it")
    world.take_up(second)
    assert second.ledger.lost_at is None, "nothing of it is left"


# ---------------------------------------------------------------- not writable


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], Path]:
    """A ledger whose file cannot be opened for writing while the test wants, as on such a disk."""
    path = tmp_path / "ledger.sqlite3"
    _made(path)
    real = os.open

    def set_to(is_closed: bool) -> Path:
        def opened(name: object, flags: int, *rest: int, **more: int) -> int:
            if is_closed and str(name) == str(path) and flags & os.O_RDWR:
                raise OSError(30, "Read-only file system", str(path))
            return real(name, flags, *rest, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(os, "open", opened)
        return path

    return set_to


def test_a_ledger_that_cannot_be_written_is_read(closed: Callable[[bool], Path]) -> None:
    path = closed(True)
    ledger = Ledger(path, ManualClock(), "kernel-2")
    assert ledger.store.is_copy
    row = ledger.clusters.named("dev")
    assert row is not None
    with pytest.raises(LedgerError) as caught:
        ledger.runs.request_cancel("run-1")
    assert caught.value.code == "ledger.unwritable"
    assert "Read-only file system" in caught.value.message
    closed(False)
    ledger.runs.request_cancel("run-1")
    assert not ledger.store.is_copy, "it is written once it can be"
    ledger.close()
    other = Ledger(path, ManualClock(), "kernel-3")
    found = other.runs.get("run-1")
    assert found is not None
    assert found.cancelled
    other.close()


def test_a_ledger_that_cannot_be_made_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    with pytest.raises(LedgerError) as caught:
        Ledger(tmp_path / "home" / "ledger.sqlite3", ManualClock(), "kernel-1")
    assert caught.value.code == "ledger.unwritable"
