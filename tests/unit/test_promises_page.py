"""Each promise of the README stands in docs/promises.md, with tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "promises.md"
TEST = re.compile(r"`((?:tests|nbprov)/[\w/]+\.py)(?:::(\w+))?`")
PROMISE = re.compile(r"^- \*\*(.+?)\.?\*\*", re.MULTILINE)


def test_every_promise_of_the_readme_has_its_tests() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    promises = PROMISE.findall(readme.partition("## What it promises")[2].partition("\n## ")[0])
    assert len(promises) >= 8
    sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    tests = {s.partition("\n")[0]: TEST.findall(s) for s in sections}
    assert list(tests) == promises
    assert all(tests.values())


def test_every_test_that_is_named_is_there() -> None:
    named = TEST.findall(PAGE.read_text(encoding="utf-8"))
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not (ROOT / file).is_file()
        or (name and not re.search(rf"\b(?:def|class) {name}\b", (ROOT / file).read_text("utf-8")))
    ]
    assert missing == []
