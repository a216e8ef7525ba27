"""Notebooks as they are saved, by nbclient where nobody watches and by a person's front end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import nbformat
import pytest
from homes import machines, new_home
from kernels import Kernel
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import HTMLExporter

LITERAL, FROM_ENV, WIDGET = (
    "canary-literal-4711",
    "canary-env-4712",
    "application/vnd.jupyter.widget-view+json",
)

STORY = [
    "%load_ext nbprov",
    "%prices A100",
    f"""%%provision dev
resources: {{accelerators: A100, infra: local}}
secrets:
  SPOKEN: {LITERAL}
  GIVEN: null
setup: |
  test ${{#SPOKEN}} = {len(LITERAL)} && test ${{#GIVEN}} = {len(FROM_ENV)} && echo both were there
run: |
  echo $SPOKEN | wc -c
""",
    "%clusters",
    "%%on dev\nprint('on the machine')",
    "%nbprov attempts\n%nbprov logs dev setup\n%nbprov log dev",
    "%nbprov down dev",
]


def notebook_of(cells: list[str]) -> nbformat.NotebookNode:
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])


def text_of(cell: nbformat.NotebookNode) -> str:
    return "".join(o.text for o in cell.outputs if o.output_type == "stream" and o.name == "stdout")


def displays(cell: nbformat.NotebookNode) -> list[dict[str, str]]:
    return [o.data for o in cell.outputs if o.output_type in ("display_data", "execute_result")]


@pytest.fixture(scope="module")
def story() -> Iterator[tuple[Path, nbformat.NotebookNode]]:
    """Return the quickstart's story as nbclient leaves it, with its home."""
    with new_home() as home:
        notebook = notebook_of(STORY)
        context = pytest.MonkeyPatch.context()
        with context as patch:
            patch.setenv("NBPROV_HOME", str(home))
            patch.setenv("GIVEN", FROM_ENV)
            NotebookClient(notebook, timeout=180).execute()
        yield home, notebook


def test_it_ran_to_its_end_and_left_nothing(story) -> None:
    home, notebook = story
    assert text_of(notebook.cells[4]) == "on the machine\n"
    assert "both were there" in text_of(notebook.cells[5])
    assert re.search(
        r"dev: ended, confirmed by the cloud's list after .*; it cost \$[\d.]+ \(simulated: "
        r"you pay \$0\)",
        text_of(notebook.cells[6]),
    )
    assert machines(home) == 0


def test_every_display_has_its_static_forms_and_no_widget(story) -> None:
    _, notebook = story
    for number in (1, 2, 3):
        (data,) = displays(notebook.cells[number])
        assert set(data) == {"text/html", "text/plain"}
        assert "<script" not in data["text/html"]
    assert "widgets" not in notebook.metadata


def test_the_run_panel_tells_how_it_ended(story) -> None:
    _, notebook = story
    (data,) = displays(notebook.cells[2])
    for form in data.values():
        assert "waiting for Launch" not in form
        assert "out of stock" in form
        assert "local/north-a" in form
        assert "dev has ended: you ended it" in form
        assert "ready" not in form


def test_the_clusters_table_tells_that_it_was_ended_later(story) -> None:
    _, notebook = story
    (data,) = displays(notebook.cells[3])
    assert all("ended" in form for form in data.values())
    assert "● running" not in data["text/plain"]


def test_one_plain_line_a_change_of_state(story) -> None:
    _, notebook = story
    lines = text_of(notebook.cells[2]).splitlines()
    assert len(lines) == len(set(lines))
    assert not any("waiting for Launch" in line for line in lines)
    assert not any("\x1b" in line or "\r" in line for line in lines)
    assert any("attempt 1" in line and "refused: out of stock" in line for line in lines)
    assert any("dev is ready" in line for line in lines)


def test_it_is_small(story) -> None:
    _, notebook = story
    for number in (1, 2, 3):
        assert sum(len(json.dumps(data)) for data in displays(notebook.cells[number])) < 50_000


def test_no_secret_is_in_an_output_or_in_any_file(story) -> None:
    home, notebook = story
    for cell in notebook.cells:
        cell = dict(cell, source="")
        assert LITERAL not in json.dumps(cell)
        assert FROM_ENV not in json.dumps(cell)
    for path in home.rglob("*"):
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            assert LITERAL.encode() not in content, path
            assert FROM_ENV.encode() not in content, path


def test_what_costs_money_is_not_launched_without_consent(home) -> None:
    """The plan's prices are treated as real by a patch; the rest is the real path."""
    notebook = notebook_of(
        [
            "%load_ext nbprov",
            "from nbprov.model.offers import Offer",
            "Offer.is_simulated = property(lambda offer: False)",
            "%%provision dev\nresources: {accelerators: A100, infra: local}",
        ]
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NBPROV_HOME", str(home))
        with pytest.raises(CellExecutionError, match=r"run\.needs-consent"):
            NotebookClient(notebook, timeout=180).execute()
    assert "%%provision --yes agrees to it" in "".join(notebook.cells[-1].outputs[-1].traceback)
    assert machines(home) == 0


@pytest.mark.versions
def test_with_a_person_there_is_a_widget_too(kernel: Kernel) -> None:
    shown, live = kernel.run("%%provision dev\nresources: {cpus: 2, infra: local}").displays
    assert set(shown["data"]) == {"text/html", "text/plain"}
    assert live["data"] == {"text/html": "", "text/plain": "", WIDGET: live["data"][WIDGET]}
    assert "waiting for Launch" in shown["data"]["text/plain"]
    kernel.run("dev.launch().wait()")
    final = kernel.renewed(shown, "is ready")
    assert "waiting for Launch" not in final
    renewed = kernel.shown(shown["transient"]["display_id"])[-1]["data"]
    assert set(renewed) == {"text/html", "text/plain"}
    # The saved form follows the cluster until it has ended.
    kernel.run("%nbprov down dev")
    kernel.renewed(shown, "ended")


def test_nbconvert_shows_every_panel_without_a_script(story) -> None:
    """As `jupyter nbconvert --to html` makes it; only its own template has scripts."""
    _, notebook = story
    page, _ = HTMLExporter().from_notebook_node(notebook)
    _, _, body = page.partition("<body")
    outputs = re.findall(
        r'<div class="jp-OutputArea-child.*?(?=<div class="jp-Cell|\Z)', body, re.S
    )
    text = unescape(re.sub(r"<[^>]*>", " ", "".join(outputs)))
    for words in (
        "prices of A100",
        "$/h",
        "dev has ended: you ended it",
        "out of stock",
        "local/north-a",
        "0 clusters",
        "on the machine",
        "ended, confirmed by the cloud's list",
    ):
        assert words in text, words
    # As many tables as the saved forms have: none was lost, or shown as text.
    saved = "".join(data["text/html"] for cell in notebook.cells for data in displays(cell))
    assert "".join(outputs).count("<table") == saved.count("<table")
    assert "<script" not in "".join(outputs)
    assert "Loading widget" not in text
