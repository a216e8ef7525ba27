"""The agent's journal: bounded, numbered, replayed from any number; nothing twice, and a gap is
told.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbprov.on_machine.agent.agent import Agent
from nbprov.on_machine.agent.tasks import task as tasks
from nbprov.on_machine.agent.tasks.journal import ENTRY_LIMIT, Cursor, Journal
from nbprov.on_machine.agent.tasks.output_reader import in_pieces
from nbprov.on_machine.agent.tasks.task import Task

sizes = st.lists(st.lists(st.integers(0, 120), min_size=1, max_size=5), max_size=40)


def _drain(cursor: Cursor) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    while entries := cursor.read():
        found += entries
    return found


def _check(entries: list[dict[str, object]], since: int, last: int) -> None:
    """Every number after `since` comes exactly once, itself or inside a gap."""
    expected = since + 1
    for entry in entries:
        if entry["k"] == "gap":
            assert entry["from"] == expected
            expected = int(str(entry["to"])) + 1
        else:
            assert entry["n"] == expected
            expected += 1
    assert expected == last + 1


@settings(max_examples=60)
@given(sizes, st.integers(0, 250), st.integers(0, 40))
def test_replay_from_any_number_tells_everything_once(
    batches: list[list[int]], since: int, reopen_at: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder), 4000)
        early = Cursor(journal, 0)
        seen: list[dict[str, object]] = []
        for number, batch in enumerate(batches):
            journal.append(*({"k": "stdout", "text": "x" * size} for size in batch))
            if number % 3 == 0:
                seen += early.read()
            if number == reopen_at:
                journal = Journal(Path(folder), 4000)
                early = Cursor(journal, early.number)
        _check(seen + _drain(early), 0, journal.last)
        since = min(since, journal.last)
        _check(_drain(Cursor(journal, since)), since, journal.last)
        assert journal.last == sum(map(len, batches))


def test_the_journal_stays_within_its_bound_and_keeps_the_newest(tmp_path: Path) -> None:
    journal = Journal(tmp_path, 20_000)
    for number in range(5000):
        journal.append({"k": "stdout", "text": f"line {number}\n"})
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 20_000
    entries = _drain(Cursor(journal, 0))
    assert entries[0]["k"] == "gap"
    assert entries[-1]["text"] == "line 4999\n"
    assert len(entries) > 100


def test_a_line_torn_by_a_power_cut_is_dropped(tmp_path: Path) -> None:
    journal = Journal(tmp_path, 20_000)
    journal.append({"k": "stdout", "text": "whole"})
    with journal.path(1).open("ab") as file:
        file.write(b'{"n":2,"t":1,"k":"stdo')
    again = Journal(tmp_path, 20_000)
    again.append({"k": "stdout", "text": "after"})
    assert [(entry["n"], entry["text"]) for entry in _drain(Cursor(again, 0))] == [
        (1, "whole"),
        (2, "after"),
    ]


def test_an_entry_beyond_all_measure_is_replaced_by_a_word(tmp_path: Path) -> None:
    journal = Journal(tmp_path, 1000)
    journal.append(
        {"k": "display_data", "content": {"data": {"image/png": "x" * (ENTRY_LIMIT + 1)}}}
    )
    (entry,) = _drain(Cursor(journal, 0))
    assert entry["k"] == "note"
    assert "too large" in str(entry["text"])


@given(st.lists(st.text("ab\n", max_size=9000), max_size=4))
def test_pieces_of_a_flood_make_the_whole(parts: list[str]) -> None:
    text = "".join(parts) + "\n"
    pieces = in_pieces(text)
    assert "".join(pieces) == text
    assert all(piece.endswith("\n") for piece in pieces)


def _cell(folder: Path) -> Task:
    task = Task(
        folder,
        {"id": "c1", "kind": "cell", "name": "cell", "state": "queued", "created": 1.0},
        4000,
    )
    task.save()
    return task


def _saved(folder: Path) -> dict[str, object]:
    found = json.loads((folder / "meta.json").read_text())
    assert isinstance(found, dict)
    return found


async def test_who_follows_a_cell_is_told_of_its_end_before_that_is_saved(tmp_path: Path) -> None:
    task, woken = _cell(tmp_path), asyncio.Event()
    task.journal.waiters.add(woken)
    task.begin_cell()
    task.end("ok", is_told_first=True)
    assert woken.is_set()
    assert _saved(tmp_path)["state"] == "queued"
    await asyncio.sleep(0)
    assert (_saved(tmp_path)["state"], _saved(tmp_path)["status"]) == ("ended", "ok")


async def test_that_a_cell_runs_is_saved_once_it_has_run_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: Any
) -> None:
    monkeypatch.setattr(tasks, "BEGUN_SECONDS", 0.0)
    task = _cell(tmp_path)
    task.begin_cell()
    assert _saved(tmp_path)["state"] == "queued"
    await until(lambda: _saved(tmp_path)["state"] == "running", "it is saved", 30)


def test_an_end_that_was_told_and_not_saved_is_taken_up_by_the_next_agent(tmp_path: Path) -> None:
    for name, has_ended in (("over", True), ("lost", False)):
        first = _cell(tmp_path / name)
        first.journal.append(
            {"k": "stdout", "text": "1\n"},
            *([{"k": "end", "status": "error", "exit_code": None}] if has_ended else []),
        )
        found = Task(tmp_path / name, _saved(tmp_path / name), 4000)
        found.restore_end()
        assert found.is_live is not has_ended
        assert _saved(tmp_path / name).get("status") == ("error" if has_ended else None)
        assert found.journal.last == first.journal.last


async def test_of_a_cell_that_may_have_begun_the_next_agent_does_not_say_that_it_had_not(
    tmp_path: Path,
) -> None:
    agent = Agent(tmp_path, 0o022)
    for kind in ("cell", "job"):
        agent.tasks.create({"task": f"a-{kind}", "kind": kind}, {})
    agent.tasks[
        "a-cell"
    ].begin_cell()  # which is saved a little later, when this agent is there no more
    again = Agent(tmp_path, 0o022, is_restart=True)
    said = {
        name: _drain(Cursor(task.journal, 0))
        for name, task in [(one.id, one) for one in again.tasks.all()]
    }
    words = {
        name: "".join(str(entry.get("text", "")) for entry in entries)
        for name, entries in said.items()
    }
    assert (
        words["a-cell"] == "nbprov: the agent on the machine was restarted; this was lost with it\n"
    )
    assert "before this began" in words["a-job"]
    assert {name: entries[-1]["status"] for name, entries in said.items()} == {
        "a-cell": "lost",
        "a-job": "lost",
    }
