"""The parts of jobs that need no machine: wording, last lines, the archive, hostile answers."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbprov.machines.jobs import archive, logs
from nbprov.machines.jobs.archive import JobArchive, with_told
from nbprov.machines.jobs.format import exit_words, gpu_words, state_words
from nbprov.machines.jobs.jobs import (
    LIVE,
    WORST_FIRST,
    Job,
    JobError,
    cancel_jobs,
    joined,
    list_jobs,
)
from nbprov.machines.jobs.logs import LogWriter, tail_of
from nbprov.machines.jobs.submit import JobRequest
from nbprov.remote.agent.framing import AgentError, parsed
from nbprov.remote.agent.messages import OutputPiece, TaskInfo


def output(number: int, kind: str, text: str) -> OutputPiece:
    return OutputPiece(number, 0.0, kind, text)


def test_pieces_of_a_line_are_joined_and_the_other_stream_does_not_get_between() -> None:
    writer = LogWriter()
    pieces = [
        ("stdout", "10%"),
        ("stdout", "\r20%"),
        ("stderr", "warn\n"),
        ("stdout", "x\n"),
        ("end", ""),
    ]
    assert (
        "".join(writer.text(output(n, *piece)) for n, piece in enumerate(pieces))
        == "10%\r20%\nwarn\nx\n"
    )


@given(st.lists(st.text(alphabet="ab\n", max_size=8)), st.integers(1, 5))
def test_a_tail_is_the_last_lines(pieces: list[str], lines: int) -> None:
    text = "".join(pieces)
    told = tail_of(text, lines)
    every = text.splitlines(keepends=True)
    assert told.text == "".join(every[-lines:])
    assert told.earlier == max(0, len(every) - lines)


def test_a_tail_is_bounded_in_bytes_whatever_its_lines() -> None:
    assert len(tail_of("x" * 10_000_000, 10, 1000).text) <= 1000
    assert tail_of("long line\n" * 1000, None, 25).text == "long line\n" * 2


@given(st.lists(st.sampled_from(LIVE + WORST_FIRST), min_size=1, max_size=5))
def test_a_job_of_several_nodes_is_as_far_as_the_last_and_as_bad_as_the_worst(
    states: list[str],
) -> None:
    whole = joined(
        [
            Job("j", "j", state, exit_code=1 if state == "failed" else None, parts=((state, None),))
            for state in states
        ]
    )
    if set(states) & set(LIVE):
        assert whole.state == ("queued" if set(states) == {"queued"} else "running")
        assert whole.exit_code is None
    else:
        assert whole.state == min(states, key=WORST_FIRST.index)
        assert whole.exit_code == (1 if "failed" in states else None)
    assert whole.nodes == len(states)


ANYTHING = st.one_of(
    st.none(),
    st.integers(),
    st.floats(),
    st.text(),
    st.lists(st.text()),
    st.dictionaries(st.text(), st.integers()),
)
FIELDS = "id name state status exit_code created started ended gpus devices nodes position"


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS.split(" "), ANYTHING)))
def test_whatever_a_machine_says_of_a_task_becomes_a_job_or_nothing(told: dict[str, Any]) -> None:
    try:
        task = parsed(
            TaskInfo.of, {"id": "x", "kind": "job", "name": "n", "state": "running", **told}
        )
    except AgentError:
        return  # refused as a whole
    job = Job.of(task)
    if job is not None:
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", job.id)
        assert job.state in LIVE + WORST_FIRST
        assert job.name.isprintable()
        for words in (state_words(job), gpu_words(job), exit_words(job.exit_code, job.state)):
            assert isinstance(words, str)
        assert hash(job) == hash(job)


@pytest.mark.parametrize("id", ["../../etc/passwd", "a/b", "", "x" * 65, "a\n", ".."])
def test_ids_that_could_name_a_file_elsewhere_are_no_jobs(id: str, tmp_path: Path) -> None:
    assert Job.of(TaskInfo(id=id, kind="job", name="n", state="running")) is None
    with pytest.raises(ValueError, match="run"):
        JobArchive(tmp_path).path("run", id if len(id) < 65 else id * 2)


def test_words_of_exit_codes() -> None:
    assert exit_words(-9).endswith(
        "killed by signal 9 (SIGKILL), most likely because the memory ran out"
    )
    assert exit_words(127) == "127: a command, or the job's folder, was not found"
    assert exit_words(10**30) == str(10**30)
    assert exit_words(-(10**30)).startswith(str(-(10**30)))


def test_what_is_kept_is_read_back_and_pruned_by_age_and_size(tmp_path: Path) -> None:
    store = JobArchive(tmp_path)
    ran = Job(
        "train-1", "train", "ok", 0, 10.0, 11.0, 12.0, 0.5, (1,), 2, None, (("ok", 0), ("ok", 0))
    )
    for run in ("old", "big", "new"):
        store.keep(run, "dev", ran, {0: "head\r\n", 1: "other"})
    store.keep(
        "new",
        "dev",
        Job("train-2", "train", "running", created=20.0, parts=(("running", None),)),
        {0: "so far"},
    )
    assert store.jobs("new") == [
        ran,
        Job("train-2", "train", "running", created=20.0, parts=(("running", None),)),
    ]
    assert [job.state for job in store.jobs("new", is_over=True)] == ["ok", "lost"]
    assert (
        store.log("new", "train-1"),
        store.log("new", "train-1", 1),
        store.log("new", "none"),
    ) == ("head\r\n", "other", None)
    assert store.has("new", ran)
    assert not store.has("new", Job("train-1", "train", "lost", created=10.0))
    (store.folder / "new" / "train-3.json").write_text("{broken")
    assert len(store.jobs("new")) == 2
    for run, age in (("old", 100 * 86400), ("big", 10)):
        os.utime(store.folder / run, (time.time() - age, time.time() - age))
    store.prune()
    assert sorted(path.name for path in store.folder.iterdir()) == ["big", "new"]
    store.prune(size=sum(path.stat().st_size for path in (store.folder / "new").iterdir()))
    assert sorted(path.name for path in store.folder.iterdir()) == ["new"]
    store.prune(seconds=-1)
    assert list(store.folder.iterdir()) == []


def test_the_ledger_says_how_a_job_ended_of_which_only_a_part_is_kept() -> None:
    kept = [Job("train-1", "train", "lost"), Job("long-1", "long", "lost"), Job("a-1", "a", "ok")]
    told = [
        {"job_id": id, "kind": id[:-2], "state": state, "exit_code": code, "started": 5.0}
        for id, state, code in (
            *(("train-1", "failed", 3), ("long-1", "running", None), ("a-1", "failed", 1)),
            *(("setup", "ended", 0), ("queue-1", "queued", None)),
        )
    ]
    assert {job.id: (job.state, job.exit_code) for job in with_told(kept, told)} == {
        "train-1": ("failed", 3),
        "long-1": ("lost", None),
        "a-1": ("ok", None),
        "setup": ("ok", 0),
        "queue-1": ("lost", None),
    }


def test_a_run_that_floods_keeps_its_newest_logs_and_pushes_out_no_others(tmp_path: Path) -> None:
    store = JobArchive(tmp_path)
    store.keep("other", "b", Job("train-1", "train", "ok"), {0: "mine"})
    for number in range(1, 6):
        store.keep("flood", "a", Job(f"j-{number}", "j", "ok"), {0: "x" * 1000})
        os.utime(store.path("flood", f"j-{number}"), (number, number))
    for path in (store.folder / "flood").glob("*.json"):
        path.unlink()
    store.prune(run_size=2500)
    assert [store.log("flood", f"j-{n}") is not None for n in range(1, 6)] == [
        False,
        False,
        False,
        True,
        True,
    ]
    assert store.log("other", "train-1") == "mine"


def test_so_many_small_files_of_a_run_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "RUN_FILES", 4)
    store = JobArchive(tmp_path)
    for number in range(5):
        store.keep("flood", "a", Job(f"j-{number}", "j", "ok"), {0: "x"})
    store.prune()
    assert len(list((store.folder / "flood").iterdir())) == 4


class Told:
    """An agent that describes its jobs so, and has these outputs and no more."""

    def __init__(self, *jobs: TaskInfo, outputs: int = 0) -> None:
        self.told, self.outputs = jobs, outputs
        self.cancelled: list[str] = []

    async def jobs(self) -> tuple[TaskInfo, ...]:
        if not self.told:
            raise AgentError("no answer")
        return self.told

    async def cancel_job(self, id: str) -> None:
        await self.jobs()
        self.cancelled.append(id)

    async def task(self, id: str) -> TaskInfo:
        return self.told[0]

    async def job_output(self, id: str, since: int) -> AsyncIterator[OutputPiece]:
        for number in range(since + 1, self.outputs + 1):
            yield output(number, "stdout", f"line {number}\n")
        await asyncio.Event().wait()


def told(*agents: Told) -> Any:
    return SimpleNamespace(
        name="dev",
        nodes=[
            SimpleNamespace(agent=agent, missing=False, instance=SimpleNamespace(node=n))
            for n, agent in enumerate(agents)
        ],
    )


def part(status: str = "", code: int | None = None, **more: Any) -> TaskInfo:
    return TaskInfo(
        "train-1", "job", "train", "ended" if status else "running", status, code, nodes=2, **more
    )


def test_a_part_on_a_node_that_does_not_answer_has_not_ended_well() -> None:
    def listed(*agents: Told) -> list[Job]:
        return asyncio.run(list_jobs(told(*agents)))

    (unknown,) = listed(Told(part("ok", 0)), Told())
    assert (unknown.state, unknown.exit_code, unknown.parts) == (
        "running",
        None,
        (("ok", 0), ("running", None)),
    )
    (failed,) = listed(Told(part("failed", 3)), Told())
    assert (failed.state, failed.exit_code) == ("failed", 3)
    # The job has no part on one node, and another one lists it a thousand times.
    (small,) = listed(Told(part("ok", 0)), Told(*[part("ok", 0)] * 1000), Told())
    assert (small.state, small.nodes, len(small.parts)) == ("ok", 2, 2)
    (why,) = listed(
        Told(
            part(
                "cancelled", -15, reason="ended: its part on node 1 failed with exit code 3\x1b[2J"
            )
        ),
        Told(part("failed", 3)),
    )
    assert (why.state, why.exit_code) == ("failed", 3)
    assert (
        state_words(why)
        == "failed (nodes: cancelled, failed); ended: its part on node 1 failed with exit code 3"
    )


def test_a_node_that_is_not_reached_keeps_no_job_on_the_others() -> None:
    jobs = [TaskInfo(f"train-{n}", "job", "train", "running", nodes=2) for n in (1, 2)]
    here, there = Told(*jobs), Told()
    with pytest.raises(JobError, match=r"dev: node 1 was not reached: no answer") as refused:
        asyncio.run(cancel_jobs(told(here, there), None))
    assert refused.value.code == "job.cancel"
    assert here.cancelled == ["train-2", "train-1"], "the last first, so that none begins"


def test_a_log_that_is_shorter_than_it_is_said_to_be_is_read_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logs, "STALL_SECONDS", 0.1)
    live = told(Told(part(last=10**9), outputs=3))
    found = asyncio.run(logs.read_log(live, Job("train-1", "train", "running")))
    assert found.text == "line 1\nline 2\nline 3\n"


@pytest.mark.parametrize("count", [2**53, -(2**60), 10**400])
def test_a_number_that_no_ledger_takes_is_no_answer(count: int) -> None:
    row = {"id": "x", "kind": "job", "name": "n", "state": "ended"}
    for name in ("exit_code", "position", "last", "nodes"):
        with pytest.raises(AgentError):
            parsed(TaskInfo.of, {**row, name: count})


@pytest.mark.parametrize("when", [1e300, -1.0, float("inf"), "now"])
def test_an_instant_that_no_calendar_has_is_no_answer(when: Any) -> None:
    row = {"id": "x", "kind": "job", "name": "n", "state": "running", "created": 1.0}
    with pytest.raises(TypeError):
        TaskInfo.of({**row, "started": when})
    assert TaskInfo.of({**row, "started": 2.0}).started == 2.0


@pytest.mark.parametrize("held", ["x" * 200_000, "a\0b", "a\ud800b"])
def test_a_job_is_refused_a_variable_that_no_process_can_be_given(held: str) -> None:
    with pytest.raises(JobError, match="the value of DATA ") as caught:
        JobRequest("true", "train", env={"DATA": held}).check()
    assert (caught.value.code, "xx" in caught.value.message) == ("job.env", False)
