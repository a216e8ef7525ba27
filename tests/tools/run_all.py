"""Run the suite as named stages, and report what passed, failed and could not run.

A stage that passes takes one line; one that fails shows all its output. If a few tests fail, they
run once more, one by one, when all stages have ended; those that pass then are reported as
unsteady. A stage that could not run is named with its reason, and counts as failed if CI=true. The
last line is `N passed, N failed`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from stages import STAGES
from work import Result, Stage, Work

LOOK_SECONDS = 1.0
"""How often the main thread wakes while the stages run.

If it could only wait, a Ctrl-C would come too late on Windows.
"""


class Suite:
    """Run stages in two lanes at once.

    Stages with many processes run one after another, and those that leave room run beside them.
    """

    def __init__(self, scratch: Path, *, strict: bool) -> None:
        self.results: dict[str, Result] = {}
        self._scratch = scratch
        self._strict = strict
        self._print = threading.Lock()
        self._working: dict[str, Work] = {}
        self._undecided: list[Work] = []
        self._stopped = threading.Event()
        self._over: dict[str, threading.Event] = {}

    def run(self, chosen: Sequence[Stage]) -> None:
        """Run the stages; returns when all have ended.

        Ctrl-C ends the running ones and leaves the rest out.
        """
        self._over = {stage.name: threading.Event() for stage in chosen}
        lanes = [
            threading.Thread(target=self._lane, args=([s for s in chosen if s.beside is beside],))
            for beside in (True, False)
        ]
        for lane in lanes:
            lane.start()
        try:
            while any(lane.is_alive() for lane in lanes):
                lanes[0 if lanes[0].is_alive() else 1].join(LOOK_SECONDS)
            self._second_looks()
        except KeyboardInterrupt:
            self.stop()
            for lane in lanes:
                lane.join()
            self._second_looks()

    def _second_looks(self) -> None:
        while self._undecided:
            work = self._undecided[0]
            self._say(f"{work.stage.name:<10} …      a second look at what failed")
            self._do(work, work.second_look)
            self._report(work.stage, work.result)
            del self._undecided[0]

    def _lane(self, stages: Sequence[Stage]) -> None:
        for stage in stages:
            for name in stage.after:
                if name in self._over:
                    self._over[name].wait()
            try:
                self._one(stage)
            finally:
                self._over[stage.name].set()

    def stop(self) -> None:
        """End the running stages; the others do not start."""
        self._stopped.set()
        for work in [*self._working.values(), *self._undecided]:
            work.kill()

    def _one(self, stage: Stage) -> None:
        if self._stopped.is_set():
            return
        folder = self._scratch / stage.name
        folder.mkdir()
        work = Work(stage, folder)
        self._say(f"{stage.name:<10} …      {stage.what}")
        self._do(work, lambda: stage.run(work))
        if work.is_undecided:
            self._undecided.append(work)
            self._say(
                f"{stage.name:<10} …      {work.result.seconds:6.1f} s  a few tests failed: a"
                " second look when all stages have ended"
            )
        else:
            self._report(stage, work.result)

    def _do(self, work: Work, what: Callable[[], None]) -> None:
        self._working[work.stage.name] = work
        started = time.monotonic()
        try:
            what()
        except Exception as error:
            work.result.log.append(f"the stage itself broke: {type(error).__name__}: {error}\n")
            work.result.failed += 1
        finally:
            work.result.seconds += time.monotonic() - started
            self.results[work.stage.name] = work.result
            del self._working[work.stage.name]

    def _report(self, stage: Stage, result: Result) -> None:
        bad = result.failed or result.unsteady or (self._strict and result.absent)
        if bad:
            self._say(
                f"\n===== {stage.name}: everything it printed =====\n{''.join(result.log)}====="
                f" end of {stage.name} =====\n"
            )
        self._say(line(stage.name, result))

    def _say(self, text: str) -> None:
        with self._print:
            print(text, flush=True)


def line(name: str, result: Result) -> str:
    """The one line of a stage that has ended."""
    verdict = (
        "FAILED" if result.failed else "absent" if result.absent and not result.passed else "ok"
    )
    counts = f"{result.passed} passed"
    counts += f", {result.failed} failed" if result.failed else ""
    counts += f", {len(result.unsteady)} unsteady" if result.unsteady else ""
    counts += f", {len(result.absent)} could not run" if result.absent else ""
    notes = f"  ({'; '.join(result.notes)})" if result.notes else ""
    return f"{name:<10} {verdict:<6} {result.seconds:6.1f} s  {counts}{notes}"


def summary(
    results: dict[str, Result], chosen: Sequence[Stage], *, strict: bool
) -> tuple[list[str], bool]:
    """The closing lines, and whether all is well.

    Examples
    --------
    >>> summary({}, [], strict=True)[0][-1]
    '0 passed, 0 failed'
    """
    lines = ["", "summary"]
    unbegun = [stage.name for stage in chosen if stage.name not in results]
    lines += [line(stage.name, results[stage.name]) for stage in chosen if stage.name in results]
    if unsteady := [
        f"  {name}: {test}" for name, result in results.items() for test in result.unsteady
    ]:
        lines += [
            "",
            "unsteady: failed beside others, passed alone (what they printed is above)",
            *unsteady,
        ]
    absent = [f"{name}: {reason}" for name, result in results.items() for reason in result.absent]
    absent += [f"{name}: the run was stopped before it" for name in unbegun]
    if absent:
        lines += ["", "could not run" + (" (a failure where CI=true)" if strict else "")]
        lines += [f"  {text}" for text in absent]
    passed = sum(result.passed for result in results.values())
    failed = sum(result.failed for result in results.values()) + (len(absent) if strict else 0)
    skipped = f", {len(absent)} skipped" if absent and not strict else ""
    return [
        *lines,
        "",
        f"{passed} passed, {failed} failed{skipped}",
    ], failed == 0 and not unbegun and passed > 0


def choose(only: str | None, *, everything: bool = False) -> list[Stage]:
    """The stages named in a comma-separated list, in the suite's order.

    Parameters
    ----------
    only
        The list; for None all stages but those that are for CI alone.
    everything
        These too.

    Raises
    ------
    SystemExit
        A name is not a stage.
    """
    if only is None:
        return [stage for stage in STAGES if everything or not stage.in_ci_only]
    names = [name.strip() for name in only.split(",") if name.strip()]
    known = [stage.name for stage in STAGES]
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"no stage named {', '.join(unknown)}; there are {', '.join(known)}")
    return [stage for stage in STAGES if stage.name in names]


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    chosen_by = parser.add_mutually_exclusive_group()
    chosen_by.add_argument("--only", metavar="NAMES", help="stages to run, comma-separated")
    chosen_by.add_argument("--all", action="store_true", help="every stage, as CI does")
    chosen_by.add_argument("--list", action="store_true", help="name the stages and stop")
    arguments = parser.parse_args()
    chosen = choose(arguments.only, everything=arguments.all or arguments.list)
    if arguments.list:
        for stage in chosen:
            when = " (in CI, or with --all)" if stage.in_ci_only else ""
            print(f"{stage.name:<10} {stage.what}{when}")
        return 0
    strict = os.environ.get("CI", "").lower() in ("1", "true", "yes")
    # Thousands of Python processes start here: without bytecode each compiles anew what it imports,
    # which takes a quarter of the time.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="nbp-suite-", ignore_cleanup_errors=True) as folder:
        suite = Suite(Path(folder), strict=strict)
        suite.run(chosen)
    lines, well = summary(suite.results, chosen, strict=strict)
    print(
        "\n".join([*lines[:-1], f"{time.monotonic() - started:.0f} s in all", lines[-1]]),
        flush=True,
    )
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
