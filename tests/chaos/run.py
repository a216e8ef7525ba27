"""Kill the engine's process at every state transition, let a fresh engine take up what it finds,
and count what is left.

    python tests/chaos/run.py --runs 200 --seed 1

Each run plays a story (a launch, a failover, a race, a gang, a cancel, …) with a real engine on a
real `local` cloud and kills the process with SIGKILL at one transition, before or after its commit
or its call. What a fresh engine makes of it is compared with the cloud's own books: no machine
without a live cluster (an orphan), no run with two (a double). The same seed plays the same
stories. Exit code 0: nothing was left behind, made twice or went wrong, and, from 82 runs on, every
transition was cut before and after."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench import Bench, Outcome
from stories import POINTS, TRANSITIONS, Story, story

KERNELS_A_RUN = 0.12
"""Share of the runs that have a real kernel, unless `--kernels` says how many."""
SHORT_RUNS = 50
"""Shorter runs than this have one kernel: starting one takes as long as two whole stories."""
REFILLS = 4
"""A transition that no run of it reached (a race that went the other way) is tried again so often."""
FOLDER_VARIABLE = "NBPROV_CHAOS_FOLDER"


def stories(runs: int, seed: int, kernels: int) -> list[Story]:
    """The stories of a whole run.

    Every point in turn, in an order that the seed shuffles, over and over.
    """
    dice = random.Random(seed)
    points: list[tuple[str, str]] = []
    while len(points) < runs:
        turn = list(POINTS)
        dice.shuffle(turn)
        points += turn
    numbers = set(dice.sample(range(runs), min(kernels, runs)))
    return [
        story(seed, number, points[number], in_kernel=number in numbers) for number in range(runs)
    ]


def refills(seed: int, start: int, outcomes: Iterable[Outcome]) -> list[Story]:
    """Stories for the points that were not reached."""
    missed = missing(outcomes)
    return [story(seed, start + i, point) for i, point in enumerate(missed)]


def missing(outcomes: Iterable[Outcome]) -> list[tuple[str, str]]:
    """The points at which nothing was killed."""
    reached = {(o.story.transition, o.story.when) for o in outcomes if o.hit}
    return [point for point in POINTS if point not in reached]


_bench: Bench | None = None


def _worker_tells(one: Story) -> Outcome:
    global _bench
    if _bench is None:
        folder = Path(os.environ[FOLDER_VARIABLE]) / f"w{os.getpid()}"
        os.environ["NBPROV_HOME"] = str(folder / "nbprov")
        _bench = Bench(folder)
    return _bench.tell(one)


def play_all(folder: Path, workers: int, batch: list[Story]) -> Iterator[Outcome]:
    """Play stories side by side, each worker on a cloud of its own."""
    os.environ[FOLDER_VARIABLE] = str(folder)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        try:
            for future in as_completed([pool.submit(_worker_tells, one) for one in batch]):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def table(outcomes: list[Outcome]) -> str:
    """One line a transition, then what was told to its end, then all."""
    head = ("transition", "kills", "machines alive at the kill", "adopted", "ended")
    rows: list[tuple[str, ...]] = []
    for name in [*TRANSITIONS, None]:
        mine = [
            o
            for o in outcomes
            if (o.hit and o.story.transition == name) or (not o.hit and name is None)
        ]
        rows.append((name or "(told to its end, then killed)", *_sums(mine)))
    rows.append(("all", *_sums(outcomes)))
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in [head, *rows]
    ]
    rule = "  ".join("-" * w for w in widths)
    return "\n".join([lines[0], rule, *lines[1:-1], rule, lines[-1]])


def _sums(mine: list[Outcome]) -> tuple[str, ...]:
    return (
        str(len(mine)),
        *(str(sum(getattr(o, field) for o in mine)) for field in ("alive", "adopted", "ended")),
    )


def _tell_bad(outcome: Outcome, folder: Path) -> None:
    one = outcome.story
    print(
        f"run {one.number} ({one.kind}, {one.when} {one.transition}, {one.nth}.) is not as it"
        " should be:",
        file=sys.stderr,
    )
    for name in ("orphans", "doubles", "problems"):
        for text in getattr(outcome, name):
            print(f"  {name.removesuffix('s')}: {text}", file=sys.stderr)
    print(
        f"  what the next engine said: {outcome.report}\n  its files: {folder}/*/{one.number}",
        file=sys.stderr,
    )


def main(arguments: list[str] | None = None) -> int:
    """Run, print the table, and say by the exit code whether all is well."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--runs", type=int, default=200, metavar="N", help="stories to play (default: 200)"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="N",
        help="what is drawn follows from it (default: 1)",
    )
    parser.add_argument(
        "--kernels",
        type=int,
        default=None,
        metavar="N",
        help="so many of the runs inside a real ipykernel (default: 12 %%)",
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=min(4, (os.cpu_count() or 1) + 1),
        metavar="N",
        help="stories at a time",
    )
    parser.add_argument(
        "--only",
        type=int,
        default=None,
        metavar="N",
        help="play this run alone, and keep its files",
    )
    options = parser.parse_args(arguments)
    if sys.platform == "win32":
        print("chaos: the local cloud needs Linux, macOS or WSL", file=sys.stderr)
        return 2
    kernels = (
        options.kernels
        if options.kernels is not None
        else (1 if options.runs < SHORT_RUNS else round(options.runs * KERNELS_A_RUN))
    )
    batch = stories(options.runs, options.seed, kernels)
    if options.only is not None:
        batch = [one for one in batch if one.number == options.only]
    folder = Path(tempfile.mkdtemp(prefix="nbc-"))
    began = time.monotonic()
    try:
        outcomes = _play(folder, options.workers, batch, options.seed, options.runs)
    finally:
        for cloud in folder.glob("w*"):
            Bench(cloud).close()
    print(table(outcomes))
    return _verdict(outcomes, folder, time.monotonic() - began, options)


def _play(folder: Path, workers: int, batch: list[Story], seed: int, runs: int) -> list[Outcome]:
    outcomes: list[Outcome] = []

    def play(stories_: list[Story]) -> None:
        for outcome in play_all(folder, workers, stories_):
            outcomes.append(outcome)
            if not outcome.is_good:
                _tell_bad(outcome, folder)
            if sys.stderr.isatty():
                print(f"\r{len(outcomes)} of {runs} runs", end="", file=sys.stderr, flush=True)

    play(batch)
    for _ in range(REFILLS):
        again = refills(seed, runs + len(outcomes), outcomes) if runs >= len(POINTS) else []
        if again:
            play(again)
    if sys.stderr.isatty():
        print("\r" + " " * 40 + "\r", end="", file=sys.stderr)
    return outcomes


def _verdict(
    outcomes: list[Outcome], folder: Path, seconds: float, options: argparse.Namespace
) -> int:
    orphans = sum(len(o.orphans) for o in outcomes)
    doubles = sum(len(o.doubles) for o in outcomes)
    problems = sum(len(o.problems) for o in outcomes)
    kills = sum(o.hit for o in outcomes)
    in_kernels = sum(o.story.in_kernel for o in outcomes)
    missed = missing(outcomes) if options.runs >= len(POINTS) else []
    print(
        f"\n{len(outcomes)} runs ({in_kernels} in a real kernel), {kills} killed at their"
        f" transition, seed {options.seed}, {seconds:.0f} s\n"
        f"checked against the cloud's own books: {orphans} orphans, {doubles} doubles,"
        f" {problems} other problems"
    )
    for transition, when in missed:
        print(f"never killed {when} {transition}", file=sys.stderr)
    good = not (orphans or doubles or problems or missed)
    if good and options.only is None:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"files: {folder}", file=sys.stderr)
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
