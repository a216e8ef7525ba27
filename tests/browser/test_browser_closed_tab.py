"""A remote cell whose tab was closed finds its output again in the next page."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from local_cloud import set_market
from notebook_page import NotebookPage, output
from playwright.sync_api import expect

PROVISION = "%%provision dev --yes --wait\nresources: {accelerators: A100, infra: local}"
CELL = "%%on dev\nimport time\nprint('begun')\ntime.sleep({seconds})\nprint('over')"
ABSENT_SECONDS = 4
BADGE_SECONDS = 3
"""A page looks for a badge two seconds after it heard of a cell."""


@pytest.mark.parametrize("is_over", [True, False], ids=["ended", "still-running"])
def test_what_came_while_no_page_was_open_is_shown(
    open_notebook: Callable[..., NotebookPage], is_over: bool
) -> None:
    code = CELL.format(seconds=1 if is_over else ABSENT_SECONDS + 8)
    notebook = open_notebook(["%load_ext nbprov", PROVISION, code, "%nbprov down dev"])
    set_market(notebook.home, accept=0.1, boot=0.1)
    notebook.run("%load_ext")
    notebook.run("%%provision")
    notebook.save()
    cell = notebook.cell("%%on")
    notebook.start(cell)
    expect(output(cell)).to_contain_text("begun")
    notebook.page.goto("about:blank")
    notebook.page.wait_for_timeout(1000 * ABSENT_SECONDS)
    notebook.goto()
    shown = output(notebook.cell("%%on"))
    expect(shown).to_contain_text("over", timeout=30_000)
    expect(shown).to_contain_text("begun")
    badge = shown.get_by_text("dev · local")
    expect(badge).to_have_count(1)
    # What a person clears stays cleared.
    notebook.command("notebook:clear-all-cell-outputs")
    notebook.save()
    notebook.goto()
    notebook.await_idle()
    notebook.run("%nbprov down")
    notebook.page.wait_for_timeout(1000 * BADGE_SECONDS)
    expect(badge).to_have_count(0)
