"""The notebooks of `example_notebooks/`, executed as a person would, without changing a cell."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import sys
from collections.abc import Iterator
from importlib.resources import files
from types import ModuleType

import nbformat
import pytest
from example_words import ENGINES, FOLDER, SHORT, cell_with, text_of
from homes import end_cloud, machines, new_home
from nbclient import NotebookClient

SHIPPED = files("nbprov.clouds.local.daemon")
CELL_SECONDS = 180

pytestmark = pytest.mark.kernel


@pytest.fixture(scope="module")
def tour() -> Iterator[nbformat.NotebookNode]:
    """Return `prices_and_plans.ipynb` as nbclient leaves it.

    It makes its own home in the folder for temporary files.
    """
    notebook = nbformat.read(FOLDER / "prices_and_plans.ipynb", as_version=4)
    with new_home() as home, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(home))
        try:
            NotebookClient(
                notebook, timeout=CELL_SECONDS, resources={"metadata": {"path": str(home)}}
            ).execute()
            notebook.metadata["left"] = [path.name for path in home.glob("nbprov-*")]
        finally:
            for made in home.glob("nbprov-*"):
                end_cloud(made)
        yield notebook


def test_the_tour_cleans_up_after_itself(tour: nbformat.NotebookNode) -> None:
    assert tour.metadata["left"] == []


def test_every_price_table_has_both_static_forms(tour: nbformat.NotebookNode) -> None:
    tables = [
        o
        for c in tour.cells
        if c.cell_type == "code" and c.source.startswith("%prices")
        for o in c.outputs
        if "data" in o
    ]
    assert len(tables) == 2
    for output in tables:
        assert set(output.data) == {"text/plain", "text/html"}
        assert "$/h" in output.data["text/html"]
        assert "<script" not in output.data["text/html"]


def test_the_frame_is_a_frame(tour: nbformat.NotebookNode) -> None:
    told = cell_with(tour, "drop_duplicates").outputs[-1].data
    assert "per_gpu" in told["text/plain"]
    assert 'class="dataframe"' in told["text/html"]


def test_plans_explain_themselves(tour: nbformat.NotebookNode) -> None:
    either = text_of(cell_with(tour, "either, the cheaper first"))
    assert "planned as if these were set up: aws, gcp, lambda" in either
    assert "why here" in either
    assert re.search(r"left out: [\d,]+ offers: azure is not set up", either)
    places = text_of(cell_with(tour, "deny: [gcp/europe-west4]"))
    assert re.search(r"^ *1  L4:1 +\$[\d.]+ +gcp/europe-", places, re.MULTILINE)
    assert "gcp/europe-west4" not in places
    money = text_of(cell_with(tour, "confirm_above"))
    for words in (
        "race: up to 2 places",
        "wait: ",
        "budget: $10.00 lasts",
        "simulated: you pay $0",
        "passed over",
    ):
        assert words in money


def test_variables_are_shown(tour: nbformat.NotebookNode) -> None:
    told = text_of(cell_with(tour, "accelerators: $gpus"))
    assert "$gpus = ['A100:1', 'H100:1']" in told
    assert "guards: down after 3 h" in told


def test_one_constraint_less(tour: nbformat.NotebookNode) -> None:
    assert "what dropping one constraint would open, each on its own:" in text_of(
        cell_with(tour, "--relax")
    )
    assert "opens" in text_of(cell_with(tour, "nbprov.relax("))


def test_the_catalogue_is_listed(tour: nbformat.NotebookNode) -> None:
    assert "cloud" in text_of(cell_with(tour, "%nbprov catalog"))


KEPT_BYTES = 80_000
"""The size of a short notebook with its output."""


@pytest.mark.parametrize("name", SHORT)
def test_a_short_notebook_shows_what_it_promises(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    with new_home() as home:
        monkeypatch.setenv("NBPROV_HOME", str(home))
        quick = (SHIPPED / "market.toml").read_text(encoding="utf-8")
        (home / "local" / "market.toml").write_text(quick, encoding="utf-8")
        NotebookClient(
            notebook, timeout=CELL_SECONDS, resources={"metadata": {"path": str(home)}}
        ).execute()
        assert machines(home) == 0
    for source, words in SHORT[name].items():
        assert words in text_of(cell_with(notebook, source)), source


def test_notebooks_are_stored_with_their_output_and_the_tours_without() -> None:
    stored = SHORT | ENGINES
    for path in FOLDER.glob("*.ipynb"):
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        if path.stem not in stored:
            assert all(not c.outputs and c.execution_count is None for c in code), path.name
            continue
        assert path.stat().st_size < KEPT_BYTES, path.name
        assert [c.execution_count for c in code] == [*range(1, len(code) + 1)], path.name
        for source, words in stored[path.stem].items():
            assert words in text_of(cell_with(notebook, source)), (path.name, source)
        assert not re.search(r"/(tmp|home|root|Users)/", path.read_text("utf-8")), path.name


def quickstart_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("run_quickstart", FOLDER / "run_quickstart.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with contextlib.ExitStack() as stack:
        stack.callback(sys.modules.pop, "run_quickstart", None)
        sys.modules["run_quickstart"] = module
        spec.loader.exec_module(module)
    return module


def test_the_quickstart_tells_its_story(monkeypatch: pytest.MonkeyPatch) -> None:
    quickstart = quickstart_module()
    notebook = nbformat.read(FOLDER / "quickstart.ipynb", as_version=4)
    with new_home() as home:
        for name in ("NBPROV_HOME", "IPYTHONDIR", "PYDEVD_DISABLE_FILE_VALIDATION"):
            monkeypatch.setenv(name, "")  # the notebook sets them, and they are restored
        told = io.StringIO()
        quickstart.story(notebook, home, told)
        quickstart.check_story(notebook)
        assert "no machine is left" in quickstart.check_nothing_left(home)
        assert ">>> %prices A100" in told.getvalue()
