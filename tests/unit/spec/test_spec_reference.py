"""docs/spec.md is what the table of fields says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_is_made_from_the_table() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "docs" / "spec_reference.py"), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
