"""A `local` cloud for each test, in a separate state directory, ended in any case."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "contract"))

from clouds_under_test import LocalUnderTest


@pytest.fixture
def local() -> Iterator[LocalUnderTest]:
    made = LocalUnderTest()
    try:
        yield made
    finally:
        made.close()
