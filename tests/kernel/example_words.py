"""The notebooks of `example_notebooks/` that are stored with their output, and what they show."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat

FOLDER = Path(__file__).resolve().parents[2] / "example_notebooks"
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
SHORT = {
    "cheapest_h100": {"drop_duplicates": "per_gpu", "plan --assume": "H100"},
    "failover_europe": {
        "deny: [eu-central-1]": "eu-",
        "%%provision dev": "dev is ready",
        "%nbprov attempts": "over your quota",
        "%nbprov blocks": "out of stock",
        "%nbprov down": "ended, confirmed by the cloud's list",
    },
    "spot_machines": {"%%provision dev": "dev is ready", "import os": "on a spot machine"},
    "budget": {
        "nbprov plan": "budget: $5.00 lasts",
        "%nbprov autostop": "idle",
        "%nbprov costs": "you pay $0",
    },
    "skypilot_file": {
        "wait_job": "epoch 3 of 3 on node 0",
        "to_skypilot": "accelerators",
        "train.down": "",
    },
    "dashboard": {"%nbprov dashboard": "today $"},
    "wait_for_stock": {"%%provision dev": "waiting for stock", "%nbprov attempts": "ready"},
    "own_prices": {
        "--region us-east-1": "$2.74",
        "overrides.mkdir()": "9.99",
        "infra: aws}": "cheapest",
        "unlink()": "$21.",
    },
    "own_cloud": {"%nbprov new-cloud": "wrote acme", "test_filled_in": "fill in check()"},
}
"""Words that cells of the short notebooks show, each cell by words of its own."""
ENGINES = {
    "engines": {
        "gang.dask()": "processes=4",
        "%nbprov tunnel gang": "the Dask dashboard",
        "dd.from_map": "720 MB in all; partitions on node0: ",
        "describe()": "100.0",
        "def whole": "one node alone: Unable to allocate",
        "wait_for_workers": "30,000,000 rows; workers: 4",
        "%nbprov down gang": "ended, confirmed by the cloud's list",
    },
}
"""The same of a longer one; test_engine_notebooks.py executes it."""


def text_of(cell: nbformat.NotebookNode) -> str:
    """Return everything that a cell shows, as text."""
    parts = [
        o.text if o.output_type == "stream" else o.data.get("text/plain", "") for o in cell.outputs
    ]
    return ANSI.sub("", "\n".join(parts))


def cell_with(notebook: nbformat.NotebookNode, words: str) -> nbformat.NotebookNode:
    (found,) = [
        cell for cell in notebook.cells if cell.cell_type == "code" and words in cell.source
    ]
    return found
