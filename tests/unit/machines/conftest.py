"""A cluster for the tests of a module, and worlds of a test's own."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(1, str(Path(__file__).parents[1] / "notebook"))

from tunnel_world import Served, TunnelWorld


@pytest.fixture(scope="module")
def shared() -> Iterator[Served]:
    """For tests that leave it as they found it."""
    root = Path(tempfile.mkdtemp(prefix="nbp-", dir="/tmp" if sys.platform != "win32" else None))
    made = TunnelWorld(root / "h")
    try:
        cluster = made.up()
        yield Served(made, cluster, made.serve(cluster))
    finally:
        made.close()
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def world(nbprov_home: Path) -> Iterator[TunnelWorld]:
    """A session on a cloud of the test's own."""
    made = TunnelWorld(nbprov_home)
    try:
        yield made
    finally:
        made.close()
