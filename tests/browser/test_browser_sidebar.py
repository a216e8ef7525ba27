"""The dashboard in JupyterLab's sidebar: live, with its buttons, whichever notebook is open."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import psutil
from local_cloud import set_market
from notebook_page import NotebookPage, button, panel, state
from pictures import Album
from playwright.sync_api import expect

SIDEBAR = "#nbprov-sidebar"
SESSION = "nbprov-sidebar"
SHOW = "nbprov:show-dashboard"
LAUNCH = "%%provision dev --yes --wait\nresources: {accelerators: A100, infra: local}"


def test_the_sidebar_shows_what_runs_and_ends_it(
    open_notebook: Callable[..., NotebookPage], nbprov_home: Path, album: Album
) -> None:
    set_market(nbprov_home, accept=0.1, boot=0.1)
    notebook = open_notebook(["%load_ext nbprov", LAUNCH], view="lab/tree")
    lab, page = notebook.lab, notebook.page
    assert SESSION not in {one["path"] for one in lab.ask("GET", "sessions")}, "nobody looks yet"
    notebook.run("%load_ext")
    notebook.command(SHOW)
    board = panel(page.locator(SIDEBAR), "Clusters")
    title = board.locator(".nbprov-title")
    expect(title).to_have_text("nbprov: no cluster is live")
    run = panel(notebook.run("%%provision"), "Provision")
    expect(title).to_have_text("nbprov: 1 cluster live")
    expect(board.get_by_role("row").filter(has_text="dev")).to_contain_text("sim-a100-1")
    expect(state(run)).to_have_text("ready")
    album.take_page("sidebar", page, 700)
    (before,) = (one for one in lab.ask("GET", "sessions") if one["path"] == SESSION)
    notebook.goto()
    notebook.command(SHOW)
    expect(title).to_have_text("nbprov: 1 cluster live")
    (after,) = (one for one in lab.ask("GET", "sessions") if one["path"] == SESSION)
    assert after["kernel"]["id"] == before["kernel"]["id"], "a reloaded page finds its kernel"
    button(board, "Down").click()
    button(board, "Really down?").click()
    expect(title).to_have_text("nbprov: no cluster is live")


def test_a_sidebar_whose_kernel_ends_says_so_and_starts_another(
    open_notebook: Callable[..., NotebookPage],
) -> None:
    notebook = open_notebook(["1"], view="lab/tree")
    notebook.command(SHOW)
    sidebar = notebook.page.locator(SIDEBAR)
    expect(panel(sidebar, "Clusters")).to_be_visible()
    # The server starts a kernel that was killed again, and its session stays.
    (session,) = (one for one in notebook.lab.ask("GET", "sessions") if one["path"] == SESSION)
    named = f"kernel-{session['kernel']['id']}.json"
    (process,) = (
        one for one in psutil.process_iter(["cmdline"]) if named in str(one.info["cmdline"])
    )
    process.kill()
    expect(sidebar).to_have_text(re.compile("The kernel of this dashboard has ended."))
    button(sidebar, "Start again").click()
    expect(panel(sidebar, "Clusters")).to_be_visible()
    notebook.lab.end_kernels()
    expect(sidebar).to_have_text(re.compile("The kernel of this dashboard has ended."))
    button(sidebar, "Start again").click()
    expect(panel(sidebar, "Clusters")).to_be_visible()
