"""kill -9 at the steps of putting files in place, restoring and clearing: a reader sees the old
prices or the new, whole.

`make fuzz` kills at every step; the usual run at every fourth, begun at another one in each round
and Python version."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

HERE = Path(__file__).resolve().parent
DOUBLES = HERE.parents[2] / "doubles"

ROUNDS = (
    "first one",
    "first three",
    "one to one",
    "three to three",
    "one to three",
    "three to one",
)
BACK = ("restore one", "restore three", "clear one", "clear three")


def _steps(base: Path, name: str) -> list[dict[str, object]]:
    stride = 1 if settings.get_current_profile_name() == "fuzz" else 4
    first = 1 + (sys.version_info.minor + (*ROUNDS, *BACK).index(name)) % stride
    done = subprocess.run(
        [sys.executable, str(HERE / "killed_refresh.py"), str(base), name, str(first), str(stride)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parents[3]), str(DOUBLES)])},
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.hypothesis
@pytest.mark.parametrize("name", [*ROUNDS, *BACK])
def test_a_kill_at_any_step_leaves_the_old_or_the_new(tmp_path: Path, name: str) -> None:
    steps = _steps(tmp_path, name)
    assert len(steps) > 3, "the steps were not seen"
    old, new = steps[0]["old"], steps[-1]["end"]
    assert old != new
    seen_old = seen_new = 0
    last = steps[-1]["step"]
    for step in steps:
        number = step["step"]
        assert step["seen"] in (old, new), f"killed at step {number} of about {last}"
        assert step["after"] in (old, new), f"recovered from step {number} of about {last}"
        assert step["end"] == new, f"done again after step {number} of about {last}"
        if name in ROUNDS:
            assert step["owner"] != "person", f"own files taken for edited ones after step {number}"
        seen_old += step["seen"] == old
        seen_new += step["seen"] == new
    assert seen_old
    assert seen_new
