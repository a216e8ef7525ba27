"""docs/spec.md is what the table of fields says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from nbprov.spec import parse

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_is_made_from_the_table() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "docs" / "spec_reference.py"), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["README.md", "docs/spec.md"])
def test_what_the_pages_show_can_be_pasted(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    blocks = re.findall(r"(?:^%%provision[^\n]*\n|^```yaml\n)(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert blocks
    for block in blocks:
        assert parse(block.split("\n#", 1)[0]).requests
