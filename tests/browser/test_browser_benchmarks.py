"""What benchmarks of panels find out beside times: what a page holds, and where it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import programs
import pytest

RUNNER = Path(__file__).resolve().parents[2] / "benchmarks" / "run.py"

pytestmark = pytest.mark.skipif(programs.CHROMIUM.find() is None, reason="there is no Chromium")


def figures(measure: str, folder: Path) -> dict[str, dict[str, Any]]:
    """The figures of a quick run, by what their names say after the colon."""
    out = folder / "figures.json"
    command = [sys.executable, str(RUNNER), "--only", measure, "--quick", "--json", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text(encoding="utf-8"))["figures"]
    return {figure["name"].rpartition(": ")[2]: figure for figure in found}


def test_clusters_that_came_and_went_leave_nothing_in_an_open_page(tmp_path: Path) -> None:
    found = figures("open_page", tmp_path)
    assert found["nodes"]["is_met"], found["nodes"]
    assert found["heap"]["is_met"], found["heap"]


def test_ten_thousand_changes_of_a_launch_end_as_the_launch_did(tmp_path: Path) -> None:
    found = figures("run_panel", tmp_path)
    assert found["messages"]["high"] < 100
