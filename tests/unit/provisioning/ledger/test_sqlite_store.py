"""The ledger's file: migrations, newer and foreign files, durability, several processes, network
file systems, nothing secret in it.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from manual_clock import ManualClock
from provisioning_samples import candidate, instance, launch_row

from nbprov.model.clusters import AttemptState, RunState
from nbprov.model.errors import LedgerError
from nbprov.model.events import EventKind
from nbprov.model.failures import Cause, Failure
from nbprov.model.launches import CreateOperation
from nbprov.provisioning.ledger import Ledger, sqlite_store
from nbprov.provisioning.ledger.schema import MIGRATIONS
from nbprov.provisioning.live_rows import has_live_rows
from nbprov.runtime.clocks import SystemClock

HERE = Path(__file__).parents[1]


def _open(path: Path, holder: str = "kernel-1") -> Ledger:
    return Ledger(path, ManualClock(), holder)


def _run(ledger: Ledger, run_id: str = "run-1", name: str = "dev") -> None:
    ledger.runs.open(
        run_id, name, "name: dev", folder="/home/me", race=1, consent=5, state=RunState.LAUNCHING
    )


def test_a_new_file_has_the_newest_schema_an_owner_and_belongs_to_its_user(tmp_path: Path) -> None:
    path = tmp_path / "home" / "ledger.sqlite3"
    ledger = _open(path)
    assert len(ledger.owner) == 16
    assert sqlite3.connect(path).execute("PRAGMA user_version").fetchone()[0] == len(MIGRATIONS)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    ledger.close()
    again = _open(path)
    assert again.owner == ledger.owner
    again.close()


def test_an_older_file_is_brought_up_to_date_and_keeps_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.sqlite3"
    old = _open(path)
    _run(old)
    old.close()
    newer = (
        *MIGRATIONS,
        "ALTER TABLE runs ADD COLUMN colour TEXT NOT NULL DEFAULT 'blue; green';\nCREATE TABLE"
        " extra (a TEXT); -- a; b\n",
    )
    monkeypatch.setattr(sqlite_store, "MIGRATIONS", newer)
    new = _open(path)
    assert new.store.rows("SELECT colour FROM runs")[0][0] == "blue; green"
    assert new.store.rows("SELECT * FROM extra") == []
    assert new.runs.get("run-1") is not None
    assert new.owner == old.owner
    new.close()


def test_a_file_of_the_first_schema_gets_the_indices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.sqlite3"
    with monkeypatch.context() as patched:
        patched.setattr(sqlite_store, "MIGRATIONS", MIGRATIONS[:1])
        first = _open(path)
        _run(first)
        first.close()
    ledger = _open(path)
    assert ledger.store.rows("SELECT 1 FROM sqlite_master WHERE name = 'clusters_by_run'")
    assert ledger.runs.get("run-1") is not None
    ledger.close()


def test_a_migration_that_fails_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.sqlite3"
    _open(path).close()
    with monkeypatch.context() as patched:
        patched.setattr(
            sqlite_store,
            "MIGRATIONS",
            (*MIGRATIONS, "CREATE TABLE half (a TEXT);\nCREATE TABLE runs (a TEXT);\n"),
        )
        with pytest.raises(LedgerError):
            _open(path)
    ledger = _open(path)
    assert ledger.store.rows("SELECT name FROM sqlite_master WHERE name = 'half'") == []
    ledger.close()


def test_a_newer_file_is_refused_politely_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite3"
    _open(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(LedgerError) as caught:
        _open(path)
    assert "newer nbprov (schema 99" in caught.value.message
    assert "upgrade nbprov" in caught.value.hint
    assert sqlite3.connect(path).execute("PRAGMA user_version").fetchone()[0] == 99


def test_a_file_that_is_no_ledger_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite3"
    path.write_bytes(b"this is a text of no meaning to anybody, and long enough to look at" * 40)
    with pytest.raises(LedgerError, match="cannot be read"):
        _open(path)
    assert has_live_rows(path), "unreadable is not empty"


def test_live_rows_are_told_without_opening_the_ledger(tmp_path: Path) -> None:
    path = tmp_path / "a #1 ? 50%" / "ledger.sqlite3"
    assert not has_live_rows(path)
    ledger = _open(path)
    assert not has_live_rows(path)
    _run(ledger)
    assert has_live_rows(path)
    ledger.runs.move("run-1", RunState.FAILED)
    assert not has_live_rows(path)
    ledger.close()


def test_on_a_network_file_system_the_journal_is_deleted_and_a_warning_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_store, "file_system", lambda path: "nfs4")
    ledger = _open(tmp_path / "ledger.sqlite3")
    assert ledger.store.row("PRAGMA journal_mode")[0] == "delete"  # type: ignore[index]
    assert "network file system" in ledger.store.warning
    _run(ledger)
    assert not (tmp_path / "ledger.sqlite3-wal").exists()
    ledger.close()


def test_elsewhere_every_commit_is_forced_to_disk(ledger: Ledger) -> None:
    assert ledger.store.row("PRAGMA journal_mode")[0] == "wal"  # type: ignore[index]
    assert ledger.store.row("PRAGMA synchronous")[0] == 2  # type: ignore[index]
    assert ledger.store.warning == ""


@pytest.mark.skipif(sys.platform != "linux", reason="mounts are read from /proc")
def test_the_file_system_of_a_path_is_that_of_the_longest_mount() -> None:
    assert sqlite_store.file_system(Path("/proc/self")) == "proc"
    assert sqlite_store.file_system(Path("/")) != ""


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {here!r})
from nbprov.model.clusters import RunState
from nbprov.model.events import EventKind
from nbprov.model.launches import CreateOperation
from nbprov.provisioning.ledger import Ledger
from nbprov.runtime.clocks import SystemClock
from provisioning_samples import candidate, launch_row

ledger = Ledger(Path({path!r}), SystemClock(), "doomed", 0.5)
steps = [
    lambda: ledger.runs.open(
        "run-1", "dev", "name: dev", folder="", race=1, consent=5, state=RunState.LAUNCHING
    ),
    lambda: ledger.launches.intend(launch_row("t1", candidate())),
    lambda: ledger.launches.sent("t1", CreateOperation("aws", "t1", "op-1")),
    lambda: ledger.launches.accepted("t1", ("i-1",)),
    lambda: ledger.clusters.hand_over("run-1", "dev", "run-1", "t1", candidate()),
]
for step in steps[: {steps}]:
    step()
with ledger.together():
    ledger.events.add("run-1", EventKind.ATTEMPT_CHANGED, "never committed")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
@pytest.mark.parametrize("steps", range(1, 6))
def test_what_was_written_before_a_kill_is_there_afterwards_and_nothing_else(
    tmp_path: Path, steps: int
) -> None:
    path = tmp_path / "ledger.sqlite3"
    code = KILLED.format(here=str(HERE), path=str(path), steps=steps)
    child = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    ledger = Ledger(path, SystemClock(), "next")
    run = ledger.runs.get("run-1")
    assert run is not None
    assert run.state is (RunState.READY if steps == 5 else RunState.LAUNCHING)
    launches = ledger.launches.of_run("run-1")
    assert [row.state for row in launches] == [
        *{
            2: [AttemptState.INTENT],
            3: [AttemptState.SENT],
            4: [AttemptState.ACCEPTED],
            5: [AttemptState.READY],
        }.get(steps, [])
    ]
    assert ledger.events.of_run("run-1") == []
    if steps >= 4:
        assert launches[0].ids == ("i-1",)
        assert launches[0].operation == CreateOperation("aws", "t1", "op-1")
    assert (ledger.clusters.named("dev") is not None) == (steps == 5)
    assert has_live_rows(path)
    ledger.close()


WRITER = """
import sys
from pathlib import Path
from nbprov.model.clusters import RunState
from nbprov.model.events import EventKind
from nbprov.provisioning.ledger import Ledger, NameTaken
from nbprov.runtime.clocks import SystemClock

path, me = Path(sys.argv[1]), sys.argv[2]
ledger = Ledger(path, SystemClock(), me)
taken = 0
for i in range(40):
    try:
        name = f"name-{i}"
        ledger.runs.open(
            f"{me}-{i}", name, "", folder="", race=1, consent=0, state=RunState.LAUNCHING
        )
    except NameTaken:
        taken += 1
        continue
    ledger.events.add(f"{me}-{i}", EventKind.ATTEMPT_CHANGED, "mine")
print(taken)
"""


def test_two_processes_write_at_once_and_each_name_is_given_once(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite3"
    children = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WRITER), str(path), me],
            stdout=subprocess.PIPE,
            text=True,
        )
        for me in ("left", "right")
    ]
    taken = [int(child.communicate()[0]) for child in children]
    assert [child.returncode for child in children] == [0, 0]
    ledger = _open(path)
    assert len(ledger.runs.latest(limit=1000)) == 40
    assert sum(taken) == 40
    assert len({row.name for row in ledger.runs.latest(limit=1000)}) == 40
    ledger.close()


def test_another_kernel_that_holds_the_file_too_long_is_named(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = sqlite3.connect(ledger.store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    ledger.store._connection.execute("PRAGMA busy_timeout = 20")
    with pytest.raises(LedgerError, match="locked"):
        _run(ledger)
    other.execute("ROLLBACK")
    other.close()
    _run(ledger)
    assert ledger.runs.get("run-1") is not None


def test_a_change_that_fails_half_way_leaves_no_trace(ledger: Ledger) -> None:
    _run(ledger)

    def half() -> None:
        with ledger.together():
            ledger.events.add("run-1", EventKind.ATTEMPT_CHANGED, "outer")
            with ledger.together():
                ledger.events.add("run-1", EventKind.ATTEMPT_CHANGED, "inner")
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half()
    assert ledger.events.of_run("run-1") == []
    ledger.events.add("run-1", EventKind.ATTEMPT_CHANGED, "after")
    assert [event.text for event in ledger.events.of_run("run-1")] == ["after"]


def test_no_key_material_reaches_the_file(ledger: Ledger) -> None:
    _run(ledger)
    row = launch_row("t1", candidate())
    assert "CANARY-4711" in row.launch.user_data()
    ledger.launches.intend(row)
    ledger.launches.intend_again("t1", row.launch)
    ledger.launches.sent("t1", CreateOperation("aws", "t1", "op-1"))
    ledger.launches.accepted("t1", ("i-1",))
    ledger.instances.seen([instance("t1")])
    ledger.close()
    for file in ledger.store.path.parent.iterdir():
        assert b"CANARY-4711" not in file.read_bytes(), file


def test_half_a_surrogate_pair_in_a_message_is_no_reason_to_stop(ledger: Ledger) -> None:
    _run(ledger)
    ledger.launches.intend(launch_row("t1", candidate()))
    broken = b"no \xff stock".decode("utf-8", "surrogateescape")
    ledger.launches.failed("t1", Failure(Cause.CAPACITY, broken), AttemptState.REFUSED)
    ledger.events.add("run-1", EventKind.ATTEMPT_CHANGED, broken)
    ledger.runs.move("run-1", RunState.FAILED, broken, broken)
    failure = ledger.launches.of_run("run-1")[0].failure
    assert failure is not None
    assert failure.message == broken
    assert ledger.events.of_run("run-1")[0].text == "no ? stock"


def test_an_attempt_costs_three_fsyncs_at_most(ledger: Ledger) -> None:
    """A commit that wrote something is an fsync; from the intent to the answer there are three."""
    _run(ledger)
    commits: list[int] = []
    connection = ledger.store._connection

    def trace(statement: str) -> None:
        if statement == "COMMIT":
            commits.append(connection.total_changes)

    connection.set_trace_callback(trace)
    before = connection.total_changes
    with ledger.together():
        ledger.launches.intend(launch_row("t1", candidate()))
        ledger.events.add("run-1", EventKind.ATTEMPT_CHANGED, "asked", "t1")
    ledger.launches.sent("t1", CreateOperation("aws", "t1", "op-1"))
    with ledger.together():
        ledger.launches.failed("t1", Failure(Cause.CAPACITY, "none"), AttemptState.REFUSED)
        ledger.events.add("run-1", EventKind.ATTEMPT_CHANGED, "refused", "t1")
    with ledger.together():
        pass
    connection.set_trace_callback(None)
    written = [
        after
        for after, earlier in zip(commits, [before, *commits], strict=False)
        if after != earlier
    ]
    assert len(written) == 3


def test_the_folder_of_a_process_umask_matters_not(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        ledger = _open(tmp_path / "open" / "ledger.sqlite3")
        _run(ledger)
        for file in ledger.store.path.parent.iterdir():
            assert file.stat().st_mode & 0o077 == 0, file
        ledger.close()
    finally:
        os.umask(before)
