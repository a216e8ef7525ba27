"""docs/errors.md has every code of the source, as the source says it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from nbprov.model.failures import RULES

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "errors.md"
NO_PAGE = {"nbprov.error"}
"""The base's own code, which nothing raises."""


def test_the_page_is_made_from_the_source() -> None:
    command = [sys.executable, str(ROOT / "docs" / "errors_reference.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_it_names_every_code_and_cause() -> None:
    text = PAGE.read_text(encoding="utf-8")
    codes = set()
    for path in (ROOT / "nbprov").rglob("*.py"):
        codes |= set(
            re.findall(r'\bcode(?::\s*\w+)?\s*=\s*"([a-z0-9]+\.[a-z0-9-]+)"', path.read_text())
        )
    assert len(codes) > 100
    assert {code for code in codes - NO_PAGE if f"**`{code}`**" not in text} == set()
    assert [rule.words for rule in RULES.values() if f"| {rule.words} |" not in text] == []


def test_few_codes_have_no_words_of_their_own() -> None:
    """Where the words are put together elsewhere, the reader is told nothing."""
    assert PAGE.read_text(encoding="utf-8").count("its message says what") < 30
