"""Buttons and live updates while a cell of the same kernel is running."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from local_cloud import machines, set_market
from notebook_page import NotebookPage, button, panel, state
from playwright.sync_api import expect

PROVISION = "%%provision dev\nresources:\n  accelerators: A100\n  infra: local\nmax_lifetime: 1h"
COUNTED = re.compile(r"^([2-9]|\d\d+) s$|^\d+ min")
"""Not the first second, because the panel's state does not depend on when it is looked at."""


def test_buttons_while_a_cell_is_busy(
    open_notebook: Callable[..., NotebookPage], tmp_path: Path
) -> None:
    """Launch, the attempts and Cancel all work while `time.sleep` holds the kernel's main
    thread."""
    gate = tmp_path / "gate"
    busy = f"import os, time\nwhile not os.path.exists({str(gate)!r}):\n    time.sleep(0.5)"
    notebook = open_notebook(["%load_ext nbprov", PROVISION, busy])
    set_market(notebook.home, accept=0.1, stuck=True)
    notebook.run("%load_ext")
    run = panel(notebook.run("%%provision"), "Provision")
    cell = notebook.cell("import os, time")
    notebook.start(cell)
    button(run, "Launch").click()
    attempts = run.get_by_role("table", name="Attempts")
    expect(attempts).to_contain_text("over your quota")
    expect(attempts).to_contain_text("booting")
    elapsed = attempts.locator("tbody tr:not(.nbprov-detail)").last.locator("td").nth(6)
    expect(elapsed).to_have_text(COUNTED)
    button(run, "Cancel").click()
    expect(state(run)).to_have_text("cancelled")
    assert machines(notebook.home) == 0
    assert notebook.is_running(cell), "the cell was to be busy all the time"
    gate.touch()
    notebook.finish(cell)
