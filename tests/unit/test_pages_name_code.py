"""What the pages on the design name is there: files, and the classes and functions in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "docs" / "architecture.md", *sorted((ROOT / "docs" / "design").glob("*.md"))]
NAMED = re.compile(r"`([\w/]+\.py)(?:: ([\w.]+))?`")


@cache
def files() -> list[Path]:
    """All modules that a page may name."""
    folders = ("nbprov", "tests", "benchmarks", "docs")
    return [path for folder in folders for path in (ROOT / folder).rglob("*.py")]


def missing(page: Path) -> Iterator[str]:
    """What a page names and nobody finds."""
    text = re.sub(r"\n\s+", " ", page.read_text(encoding="utf-8"))
    for file, names in NAMED.findall(text):
        found = [path for path in files() if path.as_posix().endswith(f"/{file}")]
        code = "\n".join(path.read_text(encoding="utf-8") for path in found)
        if not found:
            yield file
        for name in names.split(".") if names else ():
            if not re.search(rf"\b(?:def|class) {name}\b|^{name}\b", code, re.MULTILINE):
                yield f"{file}: {name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_only_what_is_there(page: Path) -> None:
    assert list(missing(page)) == []
