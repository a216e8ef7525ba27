"""Clusters shared by the tests of a module, and sessions of single tests."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(1, str(Path(__file__).parents[1] / "notebook"))

from outputs_world import Up
from tunnel_world import SPEC, WAIT_SECONDS, Served, TunnelWorld

from nbprov import api


@pytest.fixture(scope="module")
def shared() -> Iterator[Served]:
    """One cluster for tests that leave it as they found it."""
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
    """A session on a `local` cloud of the test's own."""
    made = TunnelWorld(nbprov_home)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    """The notebook's folder."""
    made = tmp_path / "notebook"
    made.mkdir()
    return made


@pytest.fixture
def up(world: TunnelWorld, notebook: Path) -> Up:
    """Starts a cluster from a spec with outputs, whose relative paths start at the notebook."""

    def begin(outputs: str, rest: str = "", name: str = "dev") -> api.Cluster:
        run = world.session.provision(
            SPEC % "" + f"\noutputs: {outputs}{rest}", name, folder=str(notebook)
        )
        assert isinstance(run, api.Run)
        return run.launch().wait(WAIT_SECONDS)

    return begin
