"""The fixtures of the contract: one cloud at a time, with machines whose daemons are forked."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from clouds_under_test import CloudUnderTest
from local_daemon import fork_daemons
from subjects import CLOUDS


@pytest.fixture(autouse=True)
def _daemons_are_forked() -> Iterator[None]:
    """Save each start of a daemon a new Python."""
    with pytest.MonkeyPatch.context() as patch:
        fork_daemons(patch)
        yield


@pytest.fixture(params=CLOUDS, ids=lambda made: made.name)
def subject(request: pytest.FixtureRequest) -> Iterator[CloudUnderTest]:
    """Yield one empty cloud, and end it afterwards in any case."""
    made: CloudUnderTest = request.param()
    try:
        yield made
    finally:
        made.close()
