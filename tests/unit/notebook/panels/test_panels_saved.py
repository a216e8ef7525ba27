"""What a real kernel leaves in the notebook file, and what a real terminal shows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

HERE = str(Path(__file__).resolve().parents[1])
SET_UP = f"""
import sys, threading
sys.path.insert(0, {HERE!r})
import sample_views as s
from nbprov.notebook.panels.clusters_table import ClustersTable
from nbprov.notebook.panels.live_display import LiveDisplay
from nbprov.notebook.panels.price_table import PriceTable
from nbprov.notebook.panels.run_panel import RunPanel
display = LiveDisplay(RunPanel(s.waiting_run()))
prices = PriceTable(s.offers(40_000), title="prices")
heavy = {{"anywidget", "ipywidgets", "numpy", "pandas"}}
print(sorted({{m.split(".")[0] for m in sys.modules}} & heavy))
"""
CELLS = [
    SET_UP,
    "display.show()\nprint(*display.take_lines(), sep='\\n')",
    "prices",
    # This comes from another thread while the cell runs, and changes the output of the first panel.
    """
def finish():
    display.update(s.ready_run())
    display.freeze()
thread = threading.Thread(target=finish); thread.start(); thread.join()
print(*display.take_lines(), sep='\\n')
""",
]
WIDGET = "application/vnd.jupyter.widget-view+json"

pytestmark = pytest.mark.kernel


def execute(tmp_path: Path) -> Any:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in CELLS])
    notebook.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    nbclient.NotebookClient(
        notebook, timeout=60, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    return notebook


def displays(cell: Any) -> list[Any]:
    return [o.data for o in cell.outputs if o.output_type in ("display_data", "execute_result")]


def printed(cell: Any) -> str:
    return "".join(o.text for o in cell.outputs if o.output_type == "stream")


def test_where_nobody_looks_on_there_is_html_text_and_lines(tmp_path: Path) -> None:
    set_up, run, prices, finish = execute(tmp_path).cells
    assert printed(set_up).strip() == "[]", "a heavy module was imported before it was needed"
    (saved,) = displays(run)
    assert set(saved) == {"text/html", "text/plain"}
    assert "next: %%on dev" in saved["text/plain"]
    assert "took too long" in saved["text/html"]
    assert "waiting for Launch" in printed(run)
    assert printed(finish).count("attempt ") >= 4
    assert displays(finish) == []
    (table,) = displays(prices)
    assert "39,980 more rows" in table["text/html"]
    assert len(json.dumps(table)) < 25_000


def test_where_somebody_looks_on_the_panel_lives_and_its_saved_form_is_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", "/a/notebook.ipynb")
    notebook = execute(tmp_path)
    _, run, prices, finish = notebook.cells
    static, saved = displays(run)
    assert set(static) == {"text/html", "text/plain"}
    assert "next: %%on dev" in static["text/plain"]
    assert "next: %%on dev" in static["text/html"]
    assert saved == {WIDGET: saved[WIDGET], "text/html": "", "text/plain": ""}
    assert printed(run).strip() == printed(finish).strip() == ""
    states = notebook.metadata["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    live = states[saved[WIDGET]["model_id"]]["state"]
    assert live["state"]["state"] == "ready"
    assert f'data-nbprov="{live["anchor"]}"' in static["text/html"]
    rows, table = displays(prices)
    assert "39,980 more rows" in rows["text/html"]
    stored = states[table[WIDGET]["model_id"]]
    assert len(json.dumps(stored)) + len(json.dumps([rows, table])) < 50_000, (
        "table data has got into the saved notebook"
    )


def test_a_terminal_shows_lines_and_nothing_by_itself(tmp_path: Path) -> None:
    script = tmp_path / "session.ipy"
    script.write_text(
        SET_UP
        + (
            "display.show()\nprint('SHOWN')\nlines = display.take_lines()\n"
            "print(*lines, sep='\\n')\ndisplay.freeze()\n"
        )
    )
    command = [sys.executable, "-m", "IPython", "--no-banner", "--colors=NoColor", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    before, after = done.stdout.split("SHOWN")
    assert before.strip() == "[]"
    assert after.count("waiting for Launch") == 1
