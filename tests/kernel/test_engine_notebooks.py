"""Dask and Ray in notebooks: the two of `example_notebooks/`, and the page about them.

The stage `engines` runs this file, since it takes long.
"""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import nbformat
import pytest
from example_words import ENGINES, FOLDER, cell_with, text_of
from homes import end_cloud, new_home
from kernels import Kernel
from nbclient import NotebookClient
from page_blocks import ENGINES as BLOCKS
from page_player import play

CELL_SECONDS = 180
MARKET = files("nbprov.clouds.local.daemon") / "market.toml"

pytestmark = pytest.mark.kernel


def test_a_cluster_with_dask_does_what_its_page_says(home: Path, kernel: Kernel) -> None:
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    (home / "local" / "market.toml").write_text(MARKET.read_text("utf-8"), encoding="utf-8")
    for block in BLOCKS:
        play(kernel, block, {})


def executed(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run an example in a home of its own, whose clouds are ended."""
    notebook = nbformat.read(FOLDER / name, as_version=4)
    with new_home() as home:
        monkeypatch.setenv("TMPDIR", str(home))
        try:
            NotebookClient(
                notebook, timeout=CELL_SECONDS, resources={"metadata": {"path": str(home)}}
            ).execute()
        finally:
            for made in home.glob("nbprov-*"):
                end_cloud(made)
    return notebook


def test_dask_on_four_nodes_holds_what_none_of_them_could(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    notebook = executed("engines.ipynb", monkeypatch)
    for source, words in ENGINES["engines"].items():
        assert words in text_of(cell_with(notebook, source)), source
    held = text_of(cell_with(notebook, "dd.from_map"))
    assert all(f"node{n}: " in held for n in range(4))


def test_ray_on_four_nodes_holds_what_none_of_them_could(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    notebook = executed("engines_ray.ipynb", monkeypatch)
    assert text_of(cell_with(notebook, "gang.ray()")).count("200 MB") == 4
    assert "four nodes: 512 MB on 4 nodes, 0 of 16 blocks on disk" in text_of(
        cell_with(notebook, "four nodes:")
    )
    assert "64,000,000 values" in text_of(cell_with(notebook, "histogram.remote"))
    alone = re.search(
        r"one node alone: 512 MB on .*, (\d+) of 16 blocks on disk",
        text_of(cell_with(notebook, "one node alone")),
    )
    assert alone is not None
    assert int(alone[1]) >= 8
    assert "ended, confirmed by the cloud's list" in text_of(
        cell_with(notebook, "%nbprov down gang")
    )
