"""The harness itself: it sees what it is to see, misses no writing method, and plays the same
stories for the same seed.
"""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import bench
import pytest
import run
from bench import Bench, Machine, judge
from stories import PASSES, POINTS, TRANSITIONS, story
from trap import NAMED_BY_STATE, WRITES, TrappedCloud

from nbprov.clouds.base import Cloud
from nbprov.model.clusters import ClusterState, DesiredState
from nbprov.provisioning.engine import Engine
from nbprov.provisioning.ledger import ClusterRow, Ledger
from nbprov.provisioning.reconcile import ReconcileReport
from nbprov.runtime.clocks import SystemClock

WRITING = re.compile(r"self\._store\.transaction\(\)")
"""How every writing method of a table begins its change."""

UNUSED = {
    "guards.set_all",
    "jobs.set",
    "side_objects.expect",
    "side_objects.seen",
    "side_objects.tried",
    "observations.record_probes",
    "blocks.end_checked",
    "blocks.end_restocked",
    "blocks.remove",
    "clusters.rename",
    "clusters.take_place",
    "runs.agree",
    "runs.rewrite_spec",
}
"""Written for jobs, probes, names, outputs, side objects, a yes to a running cluster's price, and
blocks that a person removes.

None of these makes a machine.

`guards.set_all` calls `guards.set`, which is trapped; `clouds.py` has clouds with side objects.
"""


@pytest.fixture
def worker(nbprov_home: Path) -> Iterator[Bench]:
    made = Bench(nbprov_home / "w")
    yield made
    made.close()


def test_every_writing_method_of_the_ledger_is_trapped(nbprov_home: Path) -> None:
    ledger = Ledger(nbprov_home / "ledger.sqlite3", SystemClock(), "kernel-1")
    tables = {name: made for name, made in vars(ledger).items() if hasattr(made, "_store")}
    writing = {
        f"{table}.{name}"
        for table, made in tables.items()
        for name, method in inspect.getmembers(type(made), inspect.isfunction)
        if not name.startswith("_") and WRITING.search(inspect.getsource(method))
    }
    trapped = {f"{table}.{name}" for table, names in WRITES.items() for name in names}
    assert writing - UNUSED == trapped
    assert {t.split("(")[0] for t in TRANSITIONS if not t.startswith("cloud.")} == trapped
    assert set(NAMED_BY_STATE) <= trapped


def test_every_call_of_a_cloud_that_matters_is_trapped() -> None:
    trapped = {name for name in vars(TrappedCloud) if not name.startswith("_")}
    assert {t.removeprefix("cloud.") for t in TRANSITIONS if t.startswith("cloud.")} == trapped
    harmless = {
        "check",
        "offers",
        "console",
        "side_objects",
        "classify",
        "open_ports",
        "close_ports",
        "stock",
        "admit",
        "remove",
    }
    assert {
        name
        for name, _ in inspect.getmembers(Cloud, inspect.isfunction)
        if not name.startswith("_")
    } == trapped | harmless


def test_a_seed_plays_the_same_stories_and_each_point_comes_in_turn() -> None:
    assert run.stories(200, 5, 24) == run.stories(200, 5, 24)
    assert run.stories(200, 5, 24) != run.stories(200, 6, 24)
    once = run.stories(len(POINTS), 5, 0)
    assert {(s.transition, s.when) for s in once} == set(POINTS)
    assert sum(s.in_kernel for s in run.stories(200, 5, 24)) == 24
    assert {s.kind for s in run.stories(400, 5, 0)} == set(PASSES)


def _cluster(
    token: str, name: str = "dev", state: ClusterState = ClusterState.RUNNING
) -> ClusterRow:
    return ClusterRow(
        name, name, name, token, state, DesiredState.of(state), None, "", None, 0.0, None
    )  # type: ignore[arg-type]


def test_orphans_and_doubles_are_told_apart() -> None:
    mine, other = Machine("i-1", "a", "me", "running"), Machine("i-2", "b", "me", "pending")
    assert judge([], [], 1) == ([], [])
    assert judge([mine], [_cluster("a")], 1) == ([], [])
    assert judge([mine], [], 1) == (["i-1"], [])
    assert judge([mine], [_cluster("a", state=ClusterState.ENDED)], 1) == (["i-1"], [])
    assert judge([mine, other], [_cluster("a")], 1) == (["i-2"], ["a", "b"])
    assert judge([mine, Machine("i-3", "a", "me", "running")], [_cluster("a")], 1) == (
        [],
        ["dev: 2 of 1 machines"],
    )
    assert judge([], [_cluster("a")], 1) == ([], ["dev: 0 of 1 machines"])


@pytest.mark.chaos
def test_a_story_is_cut_where_it_is_to_be_and_leaves_nothing(worker: Bench) -> None:
    outcome = worker.tell(story(1, 0, ("launches.accepted", "after")))
    assert outcome.is_good, outcome
    assert outcome.hit
    assert outcome.alive >= 1
    assert worker.machines() == []


@pytest.mark.chaos
def test_an_engine_that_takes_nothing_up_is_caught(
    worker: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def sleep_on(engine: Engine, report: ReconcileReport) -> None:
        report.say("none", "nothing to do")

    monkeypatch.setattr(bench, "reconcile", sleep_on)
    monkeypatch.setattr(bench, "SETTLE_SECONDS", 1.0)
    outcome = worker.tell(story(1, 0, ("launches.move(booting)", "after")))
    assert outcome.hit
    assert outcome.orphans
    assert outcome.problems
    assert not outcome.is_good
    assert worker.machines() == [], "what was found is ended all the same"


@pytest.mark.chaos
def test_the_table_and_the_exit_code_tell(nbprov_home: Path) -> None:
    command = [
        sys.executable,
        run.__file__,
        "--runs",
        "3",
        "--seed",
        "1",
        "--kernels",
        "1",
        "--workers",
        "2",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "machines alive at the kill" in done.stdout
    assert "3 runs (1 in a real kernel)" in done.stdout
    assert "0 orphans, 0 doubles" in done.stdout
