"""Check what has changed, within a minute: lint, types, layers and the unit tests of the change.

All checks run at once. `changed_tests.py` finds the tests; those nearest to the change begin first,
and none begins after `--seconds`. `make test` runs them all.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from changed_tests import changes
from tree import ROOT

TEST_SECONDS = 40.0
"""Tests that began in this time end within the minute, but for the longest."""
MOST_NAMED = 12
"""The most test files that are named; of more, only the number is printed."""
TOOLS = ROOT / "tests" / "tools"


class Check:
    """One command, run beside the others."""

    def __init__(
        self, name: str, command: list[str | Path], env: dict[str, str] | None = None
    ) -> None:
        self.name = name
        self.failed = False
        self._command = [str(part) for part in command]
        self._env = {**os.environ, **(env or {})}
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def join(self) -> None:
        """Wait for the end."""
        self._thread.join()

    def _run(self) -> None:
        started = time.monotonic()
        done = subprocess.run(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd=ROOT,
            env=self._env,
            check=False,
        )
        self.failed = done.returncode != 0
        lines = done.stdout.strip().splitlines()
        shown = (
            lines
            if self.failed
            else [line for line in lines if line.startswith("NOT BEGUN")] + lines[-1:]
        )
        verdict = "FAILED" if self.failed else "ok"
        print(
            f"{self.name:<8} {verdict:<6} {time.monotonic() - started:5.1f} s  " + "\n".join(shown),
            flush=True,
        )


def checks(changed: list[str], tests: list[str], seconds: float) -> list[Check]:
    """Return the checks that these files need: only tests if no Python has changed, and so on."""
    python = [name for name in changed if name.endswith(".py")]
    found: list[Check] = []
    if python:
        base: list[str | Path] = [sys.executable, "-m"]
        scripts, cache = Path(sys.executable).parent, ROOT / ".mypy_cache" / sys.platform
        found = [
            Check("style", [*base, "ruff", "check", "--force-exclude", *python]),
            Check("format", [*base, "ruff", "format", "--check", "--force-exclude", *python]),
            Check("types", [*base, "mypy", "--platform", sys.platform, "--cache-dir", cache]),
            Check("layers", [scripts / "lint-imports", "--no-cache"]),
        ]
    if any(name.startswith("tests/tools/") or name == "tests/conftest.py" for name in python):
        strict: list[str | Path] = [
            sys.executable,
            "-m",
            "mypy",
            "--cache-dir",
            ROOT / ".mypy_cache" / "tools",
            TOOLS,
            "tests/conftest.py",
        ]
        found.append(Check("tools", strict, {"MYPYPATH": str(TOOLS)}))
    if tests:
        run: list[str | Path] = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "time_limit",
            "--stop-after",
            f"{seconds:g}",
        ]
        workers = min(len(tests), max(2, os.cpu_count() or 2), 8)
        spread = (
            ["-n", str(workers), "--dist", "loadfile", "--no-loadscope-reorder"]
            if len(tests) > 1
            else ["-n", "0"]
        )
        inherited = os.environ.get("PYTHONPATH")
        path = os.pathsep.join([str(TOOLS), *([inherited] if inherited else [])])
        found.append(Check("tests", [*run, *spread, *tests], {"PYTHONPATH": path}))
    return found


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--base",
        default="",
        metavar="COMMIT",
        help="compare with it (default: where this branch left main)",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=TEST_SECONDS,
        help="begin no further test after so many (default: %(default)g)",
    )
    parser.add_argument(
        "--list", action="store_true", help="name the changed files and their tests, and stop"
    )
    arguments = parser.parse_args()
    started = time.monotonic()
    changed, tests = changes(arguments.base)
    print(f"{len(changed)} changed files, shown by {len(tests)} files of unit tests")
    for name in tests if arguments.list else tests[:MOST_NAMED]:
        print(f"  {name}")
    if arguments.list:
        return 0
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    chosen = checks(changed, tests, arguments.seconds)
    for check in chosen:
        check.start()
    for check in chosen:
        check.join()
    failed = [check.name for check in chosen if check.failed]
    print(
        f"{'FAILED: ' + ', '.join(failed) if failed else 'all is well'};"
        f" {time.monotonic() - started:.0f} s"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
