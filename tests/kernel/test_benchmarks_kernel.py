"""The benchmarks that look into a kernel still find there what they measure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

RUNNER = Path(__file__).resolve().parents[2] / "benchmarks" / "run.py"


def test_the_measure_of_a_running_launch_takes_its_figures() -> None:
    done = subprocess.run(
        [sys.executable, str(RUNNER), "--only", "tick", "--quick"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("a change reaches the browser's socket") == 3
