"""A notebook with parameters, executed by papermill."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from homes import machines

CELLS = [
    "%load_ext nbprov",
    "gpu, idle = 'H100', 10",
    "%%provision dev --yes --wait\nresources: {accelerators: $gpu, infra: local}\n"
    "max_lifetime: ${idle}m",
    "%%on dev -o place\nimport os\nplace = os.environ['NBPROV_CLUSTER_INFO']",
    "assert 'north' in place",
    "%nbprov down dev",
]


def test_parameters_reach_the_spec(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    papermill = pytest.importorskip("papermill")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    notebook.metadata["language_info"] = {"name": "python"}
    notebook.cells[1].metadata["tags"] = ["parameters"]
    given, made = home / "given.ipynb", home / "made.ipynb"
    nbformat.write(notebook, given)
    monkeypatch.setenv("NBPROV_HOME", str(home))
    papermill.execute_notebook(
        given, made, {"gpu": "A100"}, kernel_name="python3", progress_bar=False
    )
    told = made.read_text(encoding="utf-8")
    assert "dev is ready: A100:1" in told
    assert "down after 10 min" in told
    assert "ended, confirmed by the cloud's list" in told
    assert "widget-view" not in told
    assert machines(home) == 0
