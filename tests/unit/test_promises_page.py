"""Each promise of the README stands in docs/promises.md, with tests that are there.

Those that docs/design/faults.md names are there, too.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "promises.md"
FAULTS = ROOT / "docs" / "design" / "faults.md"
TEST = re.compile(r"`((?:tests|nbprov)/[\w/]+\.(?:py|test\.mjs))(?:::(\w+))?`")
PROMISE = re.compile(r"^- \*\*(.+?)\.?\*\*", re.MULTILINE)


def test_every_promise_of_the_readme_has_its_tests() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    promises = PROMISE.findall(readme.partition("## What it promises")[2].partition("\n## ")[0])
    assert len(promises) >= 8
    sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    tests = {s.partition("\n")[0]: TEST.findall(s) for s in sections}
    assert list(tests) == promises
    assert all(tests.values())


def test_every_fault_has_its_tests() -> None:
    lines = re.split(r"^- ", FAULTS.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert len(lines) >= 100
    assert [line for line in lines if not TEST.search(line)] == []


@pytest.mark.parametrize("page", [PAGE, FAULTS], ids=lambda page: page.stem)
def test_every_test_that_is_named_is_there(page: Path) -> None:
    named = TEST.findall(page.read_text(encoding="utf-8"))
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not (ROOT / file).is_file()
        or (name and not re.search(rf"\b(?:def|class) {name}\b", (ROOT / file).read_text("utf-8")))
    ]
    assert missing == []
