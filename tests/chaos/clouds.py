"""Kill the process around a create on each cloud's double, let a fresh engine take up what it
finds, and count what is left.

    python tests/chaos/clouds.py --runs 30 --seed 1 [--clouds aws,gcp,runpod,lambda]

The doubles are server processes with real machines, reached by the real SDKs. Each run is cut with
SIGKILL at one point from the intent to the machine's first sign, before or after the ledger's
commit or the call, half of them on a cloud that misbehaves besides. Then a fresh engine reconciles,
and the double's own books are compared with the ledger: a machine that is no live cluster's is an
orphan, and so is what still lies there once all clusters have ended. Exit code 0: there was none,
every point was hit, and nothing went wrong."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path += [str(Path(__file__).resolve().parent.parent / name) for name in ("doubles", "kernel")]

from cloud_player import SPECS, Tomorrow, make_engine
from clouds_at_hand import AtHand, started

from nbprov.provisioning.engine import Engine
from nbprov.provisioning.reconcile import ReconcileReport, reconcile

PLAYER = Path(__file__).resolve().parent / "cloud_player.py"
Point = tuple[str, str]
POINTS: tuple[Point, ...] = tuple(
    (transition, when)
    for transition in (
        "launches.intend",
        "cloud.submit",
        "launches.sent",
        "cloud.poll",
        "launches.accepted",
        "launches.move(booting)",
    )
    for when in ("before", "after")
)
FAULTS = ("", "", "", "lose_answer", "capacity", "half_made")
"""What the cloud does besides: nothing in half of the runs.

A fault that no create met before its run was cut waits for the next one.
"""
PLAY_SECONDS = 90.0
STEP_SECONDS = 90.0
EMPTY_SECONDS = 30.0
"""How long the ends of machines, and of what lies beside them, may take to show in a double's
books.
"""
PART = 5
"""Runs that one double is started for: parts of all clouds are shared out to the workers."""
WORKERS = 3
"""A run waits more than it computes: three keep two cores busy."""


@dataclass(frozen=True)
class Cut:
    """One run: where it is cut, and what the cloud does besides."""

    number: int
    point: Point
    fault: str = ""


@dataclass
class Tally:
    """What became of the runs on one cloud.

    Attributes
    ----------
    hit
        How often each point was the one where the process was killed.
    alive
        Machines that were alive at the kills, by the double's own books.
    adopted, ended
        How many of those were a cluster's after the fresh engine had settled all, and how many were
        gone.
    later
        Runs that left something beside machines which only a load of the next day removes.
    orphans, problems
        What must not be.
    """

    runs: int = 0
    hit: list[Point] = field(default_factory=list)
    alive: int = 0
    adopted: int = 0
    ended: int = 0
    later: int = 0
    seconds: float = 0.0
    orphans: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Take in what became of other runs."""
        for name in vars(self):
            setattr(self, name, getattr(self, name) + getattr(other, name))


def cut(cloud: AtHand, name: str, home: Path, one: Cut, tally: Tally) -> None:
    """One run: play, kill, reconcile with a fresh engine, compare, end what is left."""
    began = time.monotonic()
    home.mkdir(mode=0o700, parents=True)
    transition, when = one.point
    order = {
        "cloud": name,
        "home": str(home),
        "transition": transition,
        "when": when,
        "mark": str(home / "mark"),
    }
    (home / "order.json").write_text(json.dumps(order))
    if one.fault:
        cloud.fault(one.fault)
    _play(home, cloud, tally)
    tally.runs += 1
    if (home / "mark").exists():
        tally.hit.append(one.point)
    before = cloud.alive()
    tally.alive += len(before)
    engine = make_engine(order, None)
    try:
        settle(engine, cloud, name, f"{name} {one}", before, tally)
    finally:
        engine.shut_down()
    if cloud.left():
        tally.later += 1
        tidy_tomorrow(order, cloud)
    if not cloud.is_empty(EMPTY_SECONDS):
        tally.orphans.append(
            f"{name} {one}: after the end there are {sorted(cloud.alive())} {cloud.left()}"
        )
    tally.seconds += time.monotonic() - began


def _play(home: Path, cloud: AtHand, tally: Tally) -> None:
    with (home / "player.log").open("wb") as log:
        child = subprocess.run(
            [sys.executable, str(PLAYER), str(home / "order.json")],
            env={**os.environ, **cloud.env},
            stdout=log,
            stderr=log,
            timeout=PLAY_SECONDS,
            check=False,
        )
    if child.returncode not in (0, -signal.SIGKILL):
        tally.problems.append(
            f"{home}: the player ended with {child.returncode}:"
            f" {(home / 'player.log').read_text()[-800:]}"
        )


def settle(
    engine: Engine, cloud: AtHand, name: str, what: str, before: set[str], tally: Tally
) -> None:
    """Let a fresh engine take up what a killed one left, compare the double's books with its
    ledger, and end the clusters.
    """
    engine.thread.call(reconcile(engine, ReconcileReport())).result(STEP_SECONDS)
    clusters = engine.ledger.clusters.latest(live_only=True)
    owned = {
        instance.id for row in clusters for instance in engine.ledger.instances.of_launch(row.token)
    }
    after = cloud.alive()
    if after - owned:
        tally.orphans.append(f"{what}: {sorted(after - owned)} beside {sorted(owned)}")
    if len(clusters) > 1 or owned - after:
        tally.problems.append(
            f"{what}: {len(clusters)} clusters of {sorted(owned)}, and {sorted(after)} are alive"
        )
    tally.problems += [
        f"{what}: run {row.run_id} is still {row.state.value}"
        for row in engine.ledger.runs.unfinished()
    ]
    tally.adopted += len(before & after & owned)
    tally.ended += len(before - after)
    for row in clusters:
        engine.thread.call(engine.lifecycle.down(engine.cluster(row.name))).result(STEP_SECONDS)
    tidy(engine, cloud, name)


def tidy(engine: Engine, cloud: AtHand, name: str) -> None:
    """Look after what lies beside machines for as long as there is anything that the engine may
    remove now.
    """
    end = time.monotonic() + EMPTY_SECONDS
    while (
        cloud.left()
        and engine.thread.call(engine.side_objects.look(name)).result(STEP_SECONDS).asked
        and time.monotonic() < end
    ):
        time.sleep(0.1)  # it was asked to go: the next look tells whether it did


def tidy_tomorrow(order: dict[str, Any], cloud: AtHand) -> None:
    """Load again the next day: what a create that was given up left is kept as long as its machine
    may yet appear.
    """
    engine = make_engine(order, None, Tomorrow())
    try:
        engine.thread.call(reconcile(engine, ReconcileReport())).result(STEP_SECONDS)
        tidy(engine, cloud, order["cloud"])
    finally:
        engine.shut_down()


@contextmanager
def reached(cloud: AtHand) -> Iterator[None]:
    """This process reaches a double as the players do."""
    before = dict(os.environ)
    os.environ.update(cloud.env)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def play_part(name: str, folder: Path, cuts: list[Cut]) -> Tally:
    """Some runs on one cloud, with a double of their own."""
    tally = Tally()
    os.environ["NBPROV_HOME"] = str(folder / "home")
    os.environ["NBPROV_CATALOG_REFRESH"] = "off"
    with closing(started(name, folder / "cloud")) as cloud, reached(cloud):
        for one in cuts:
            cut(cloud, name, folder / str(one.number), one, tally)
        tally.problems += [f"{name}: {text}" for text in cloud.problems()]
    return tally


def cuts_of(name: str, runs: int, seed: int) -> list[Cut]:
    """All runs on one cloud: every point in turn, in an order that the seed shuffles."""
    dice = random.Random(f"{seed} {name}")
    points: list[Point] = []
    while len(points) < runs:
        turn = list(POINTS)
        dice.shuffle(turn)
        points += turn
    return [Cut(number, point, dice.choice(FAULTS)) for number, point in enumerate(points[:runs])]


def play_all(
    folder: Path, clouds: list[str], runs: int, seed: int, workers: int
) -> dict[str, Tally]:
    """All runs on all clouds, side by side."""
    told = {name: Tally() for name in clouds}
    parts = [
        (name, start, cuts_of(name, runs, seed)[start : start + PART])
        for start in range(0, runs, PART)
        for name in clouds
    ]
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        under_way = {
            pool.submit(play_part, name, folder / f"{name}-{start}", cuts): name
            for name, start, cuts in parts
        }
        try:
            for future in as_completed(under_way):
                told[under_way[future]].add(future.result())
        finally:
            pool.shutdown(cancel_futures=True)
    return told


def missed(told: dict[str, Tally], runs: int) -> list[str]:
    """Points of a cloud that no run of it was cut at, where there were runs for all of them."""
    if runs < len(POINTS):
        return []
    return [
        f"{name}: never killed {when} {transition}"
        for name, one in told.items()
        for transition, when in POINTS
        if (transition, when) not in one.hit
    ]


def table(told: dict[str, Tally]) -> str:
    """One line a cloud."""
    lines = [
        f"{'cloud':<8} {'runs':>5} {'killed':>7} {'alive at the kill':>18} {'adopted':>8}"
        f" {'ended':>6} {'tidied later':>13} {'orphans':>8} {'s a run':>8}"
    ]
    lines += [
        f"{name:<8} {one.runs:>5} {len(one.hit):>7} {one.alive:>18} {one.adopted:>8}"
        f" {one.ended:>6} {one.later:>13} {len(one.orphans):>8}"
        f" {one.seconds / max(1, one.runs):>8.1f}"
        for name, one in told.items()
    ]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run, print a line a cloud, and say by the exit code whether all is well."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--runs", type=int, default=30, metavar="N", help="kills a cloud (default: 30)"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="N",
        help="what is drawn follows from it (default: 1)",
    )
    parser.add_argument("--clouds", default=",".join(SPECS), help="which, by name")
    parser.add_argument(
        "--workers",
        type=int,
        default=WORKERS,
        metavar="N",
        help=f"runs at the same time (default: {WORKERS})",
    )
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="nbc-"))
    began = time.monotonic()
    told = play_all(folder, options.clouds.split(","), options.runs, options.seed, options.workers)
    print(table(told))
    wrong = [text for one in told.values() for text in (*one.orphans, *one.problems)] + missed(
        told, options.runs
    )
    for text in wrong:
        print(text, file=sys.stderr)
    runs, orphans = (
        sum(one.runs for one in told.values()),
        sum(len(one.orphans) for one in told.values()),
    )
    print(
        f"\n{runs} runs, {sum(len(one.hit) for one in told.values())} killed at their point,"
        f" {orphans} orphans, seed {options.seed}, {time.monotonic() - began:.0f} s"
    )
    if not wrong:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"files: {folder}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
