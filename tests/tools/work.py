"""A stage of the suite and the way it runs.

A stage has commands, a log, and counts as its result.
"""

from __future__ import annotations

import functools
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from tree import ROOT

NO_TESTS_COLLECTED = 5
TESTS_FAILED = 1
SECOND_LOOK = 8
"""So many failures of one run are tried again, one after another, once no stage runs any more: on a
busy machine a test that waits for another process can come too late. More at once are no accident.
What passes alone is named in the summary, with all that the stage printed: it is a fault to mend.
"""
SECOND_LOOK_SECONDS = 300.0
"""Second looks of a stage may take so long: the longest test takes one minute."""


@dataclass
class Result:
    """What came of a stage.

    Parameters
    ----------
    passed, failed
        Tests of a pytest run; a command without a count of its own is one.
    absent
        What could not run, each with its reason.
    unsteady
        Tests that failed beside others and passed alone; they count as passed.
    log
        All output, in order.
    """

    passed: int = 0
    failed: int = 0
    absent: list[str] = field(default_factory=list)
    unsteady: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0


@dataclass(frozen=True)
class Stage:
    """One named part of the suite.

    Parameters
    ----------
    run
        Does the work; raises nothing that is not a failure of the stage.
    beside
        It leaves the machine room: such stages run one after another beside those of many
        processes.
    after
        Names of stages that must have ended before it begins, where they are chosen too.
    in_ci_only
        It takes long and seldom fails alone, so that CI always runs it, and `make test` only with
        `ALL=1`.
    deadline
        Seconds after which its commands are killed: a stage that hangs is a failure with a log, not
        a lost run.
    """

    name: str
    what: str
    run: Callable[[Work], None]
    beside: bool = False
    after: tuple[str, ...] = ()
    in_ci_only: bool = False
    deadline: float = 1800.0


class Work:
    """One run of one stage: runs commands and counts.

    Parameters
    ----------
    scratch
        A folder for this stage alone.
    """

    def __init__(self, stage: Stage, scratch: Path) -> None:
        self.stage = stage
        self.scratch = scratch
        self.result = Result()
        self._end = time.monotonic() + stage.deadline
        self._process: subprocess.Popen[str] | None = None
        self._reports = 0
        self._again: list[Callable[[], None]] = []
        self._parts: list[Work] = []
        self._is_over = False

    def command(
        self,
        arguments: Iterable[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path = ROOT,
        test: bool = True,
    ) -> bool:
        """Run a command that counts as one test; with `test=False` it is a preparation, and counts
        only when it fails.

        Returns
        -------
        bool
            Whether it ended with 0.
        """
        code = self._execute([str(argument) for argument in arguments], env, cwd)
        self.result.passed += code == 0 and test
        self.result.failed += code != 0
        return code == 0

    def pytest(
        self,
        places: Sequence[str | Path],
        *arguments: str,
        python: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Run pytest on folders and files and take its counts; a run without a test is something
        that could not run.

        A few failures are kept for `second_look`; until then they count as neither passed nor
        failed.
        """
        for place in places:
            if not (ROOT / place).is_file() and not any((ROOT / place).rglob("test_*.py")):
                self.absent(f"{place} holds no tests")
                return
        command = [
            str(python or sys.executable),
            "-m",
            "pytest",
            "-q",
            "-o",
            "faulthandler_timeout=240",
            "--durations=5",
        ]
        remembered = ["-o", f"cache_dir={self.scratch / f'cache-{self._reports}'}"]
        command += [*remembered, *arguments, *(str(place) for place in places)]
        code, failed = self._tests(command, env)
        if code == NO_TESTS_COLLECTED:
            self.absent(
                f"{' '.join(str(place) for place in places)}: no tests chosen by"
                f" {shlex.join(arguments)}"
            )
        elif code == TESTS_FAILED and 0 < len(failed) <= SECOND_LOOK:
            alone = [*command, "-n", "0", "--last-failed", "--last-failed-no-failures", "none"]
            self._again.append(functools.partial(self._look_again, alone, env, failed))
        else:
            self._failed(code, failed)

    @property
    def is_undecided(self) -> bool:
        """Whether something failed that has its second look before it."""
        return bool(self._again) or any(part.is_undecided for part in self._parts)

    def second_look(self) -> None:
        """Try again, one after another, the few tests that failed; the caller sees to it that
        nothing runs beside them.
        """
        self._end = time.monotonic() + SECOND_LOOK_SECONDS
        while self._again:
            self._again[0]()
            del self._again[0]
        for part in self._parts:
            part.second_look()
            self._take(part)

    def _look_again(
        self, command: Sequence[str], env: Mapping[str, str] | None, failed: set[str]
    ) -> None:
        self.result.log.append("a second look at what failed, one after another:\n")
        code, still = self._tests(command, env)
        self.result.unsteady += sorted(failed - still)
        self._failed(code, still)

    def at_once(self, parts: Mapping[str, Callable[[Work], None]]) -> None:
        """Do several parts of the stage side by side, each named and with a log of its own; what
        they say follows in their order.
        """
        self._parts = [Work(self.stage, self.scratch / name) for name in parts]
        threads = [
            threading.Thread(target=_do, args=(run, part))
            for run, part in zip(parts.values(), self._parts, strict=True)
        ]
        for part, thread in zip(self._parts, threads, strict=True):
            part.scratch.mkdir()
            thread.start()
        for part, thread in zip(self._parts, threads, strict=True):
            thread.join()
            self._take(part)

    def _take(self, part: Work) -> None:
        its, part.result = part.result, Result()
        self.result.passed += its.passed
        self.result.failed += its.failed
        for name in ("absent", "unsteady", "log", "notes"):
            getattr(self.result, name).extend(getattr(its, name))

    def absent(self, reason: str) -> None:
        """Note something that could not run."""
        self.result.absent.append(reason)
        self.result.log.append(f"could not run: {reason}\n")

    def note(self, text: str) -> None:
        """A word for the stage's line in the summary."""
        self.result.notes.append(text)

    def kill(self) -> None:
        """End the running command and all it started in its group; none is begun after it."""
        self._is_over = True
        for part in self._parts:
            part.kill()
        process = self._process
        if process is None or process.poll() is not None:
            return
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)

    def _tests(self, command: Sequence[str], env: Mapping[str, str] | None) -> tuple[int, set[str]]:
        """Run pytest once; returns its exit code and the names of what failed.

        What passed and what was left out is counted.
        """
        self._reports += 1
        report = self.scratch / f"report-{self._reports}.xml"
        code = self._execute([*command, f"--junit-xml={report}"], env, ROOT)
        failed: set[str] = set()
        for case in ElementTree.parse(report).getroot().iter("testcase") if report.exists() else ():
            name = f"{case.get('classname', '')}::{case.get('name', '')}"
            if case.find("failure") is not None or case.find("error") is not None:
                failed.add(name)
            elif (skipped := case.find("skipped")) is not None:
                self.absent(f"{name}: {skipped.get('message', 'no reason given')}")
            else:
                self.result.passed += 1
        return code, failed

    def _failed(self, code: int, failed: set[str]) -> None:
        self.result.failed += max(len(failed), int(code != 0))

    def _execute(self, command: list[str], env: Mapping[str, str] | None, cwd: Path) -> int:
        self.result.log.append(f"$ {shlex.join(command)}\n")
        if self._is_over:
            self.result.log.append("not begun: the stage was ended\n")
            return -1
        output = self.scratch / "output.txt"
        with output.open("w", encoding="utf-8") as sink:
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=sink,
                    stderr=subprocess.STDOUT,
                    text=True,
                    cwd=cwd,
                    env={**os.environ, **(env or {})},
                    start_new_session=True,
                )
                code = self._process.wait(timeout=max(1.0, self._end - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.kill()
                code = -1
            except OSError as error:
                self.result.log.append(f"{error}\n")
                return 127
        self.result.log.append(output.read_text(encoding="utf-8", errors="replace"))
        if code == -1:
            self.result.log.append(
                f"killed: the stage was not done after {self.stage.deadline:.0f} s\n"
            )
        elif code not in (0, NO_TESTS_COLLECTED):
            self.result.log.append(f"ended with {code}\n")
        return code


def _do(run: Callable[[Work], None], part: Work) -> None:
    try:
        run(part)
    except Exception as error:
        part.result.log.append(f"it broke: {type(error).__name__}: {error}\n")
        part.result.failed += 1
