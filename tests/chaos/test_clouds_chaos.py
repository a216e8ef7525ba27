"""Kills on the clouds' doubles, the short form; and the harness itself sees what it is to see."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import clouds
import pytest
from clouds import POINTS, Cut, Tally, cut, cuts_of, missed, reached
from clouds_at_hand import CLOUDS, AtHand, started
from runpod_launches import a_launch

from nbprov.clouds.runpod import make
from nbprov.provisioning.engine import Engine
from nbprov.provisioning.reconcile import ReconcileReport

ACCEPTED = ("launches.accepted", "after")


@pytest.fixture
def runpod(nbprov_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AtHand]:
    """RunPod's double, reached by this process; what is left there is waited for only a moment."""
    monkeypatch.setattr(clouds, "EMPTY_SECONDS", 0.5)
    with closing(started("runpod", nbprov_home / "cloud")) as cloud, reached(cloud):
        yield cloud


@pytest.mark.chaos
def test_a_few_kills_on_every_cloud_leave_nothing() -> None:
    command = [sys.executable, clouds.__file__, "--runs", "2", "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    rows = {
        line.split()[0]: line.split()[1:]
        for line in done.stdout.splitlines()
        if line.split()[:1] and line.split()[0] in CLOUDS
    }
    assert {name: (row[0], row[6]) for name, row in rows.items()} == dict.fromkeys(
        CLOUDS, ("2", "0")
    )
    assert "8 runs, 8 killed at their point, 0 orphans" in done.stdout


@pytest.mark.chaos
def test_a_machine_that_no_ledger_knows_is_seen(runpod: AtHand, nbprov_home: Path) -> None:
    orphan = make().submit(a_launch()).id
    tally = Tally()
    cut(runpod, "runpod", nbprov_home / "run", Cut(0, ACCEPTED), tally)
    assert tally.hit == [ACCEPTED]
    assert tally.alive == 2
    beside, after = tally.orphans
    assert f"['{orphan}'] beside" in beside, "the cluster's own machine is none"
    assert f"after the end there are ['{orphan}']" in after


@pytest.mark.chaos
def test_an_engine_that_takes_nothing_up_is_caught(
    runpod: AtHand, nbprov_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def sleep_on(engine: Engine, report: ReconcileReport) -> None:
        report.say("none", "nothing to do")

    monkeypatch.setattr(clouds, "reconcile", sleep_on)
    tally = Tally()
    cut(runpod, "runpod", nbprov_home / "run", Cut(0, ACCEPTED), tally)
    assert tally.hit == [ACCEPTED]
    assert len(tally.orphans) == 2
    assert "is still launching" in "".join(tally.problems)


def test_a_seed_gives_the_same_runs_and_every_point_comes_in_turn() -> None:
    assert cuts_of("aws", 30, 5) == cuts_of("aws", 30, 5)
    assert cuts_of("aws", 30, 5) != cuts_of("gcp", 30, 5)
    assert {one.point for one in cuts_of("aws", len(POINTS), 5)} == set(POINTS)
    assert {one.fault for one in cuts_of("aws", 30, 5)} == set(clouds.FAULTS)


def test_a_point_at_which_nothing_was_killed_is_told() -> None:
    hit = [point for point in POINTS if point != ACCEPTED]
    assert missed({"aws": Tally(hit=hit)}, len(POINTS)) == [
        f"aws: never killed after {ACCEPTED[0]}"
    ]
    assert missed({"aws": Tally(hit=[*POINTS])}, len(POINTS)) == []
    assert missed({"aws": Tally()}, len(POINTS) - 1) == [], "too few runs for all of them"
