"""Samples, worlds and a ledger of the test's own for the tests of provisioning."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(1, str(Path(__file__).parent / "supervision"))

from engine_world import EngineWorld
from manual_clock import ManualClock

from nbprov.provisioning.ledger import Ledger


@pytest.fixture
def clock() -> ManualClock:
    """A clock whose hands the test holds."""
    return ManualClock()


@pytest.fixture
def ledger(nbprov_home: Path, clock: ManualClock) -> Iterator[Ledger]:
    """A new ledger, held by `kernel-1`."""
    made = Ledger(nbprov_home / "ledger.sqlite3", clock, "kernel-1")
    yield made
    made.close()


@pytest.fixture
def world(nbprov_home: Path) -> Iterator[EngineWorld]:
    """A `local` cloud of the test's own and engines that use it."""
    made = EngineWorld(nbprov_home)
    yield made
    made.close()
