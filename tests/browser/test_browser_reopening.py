"""A saved panel is live again wherever a kernel with the extension is there for its page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from local_cloud import machines, set_market
from notebook_page import FORM, NotebookPage, button, output, panel, shown, state
from pictures import Album
from playwright.sync_api import Locator, expect

PROVISION = "%%provision dev\nresources:\n  accelerators: A100\n  infra: local\nmax_lifetime: 1h"
CELLS = ["%load_ext nbprov", "%clusters", PROVISION, "%nbprov down dev"]
CRASH = "import os\nos._exit(1)"


def launched(open_notebook: Callable[..., NotebookPage], *more: str) -> NotebookPage:
    """Open a notebook and launch a cluster in it, beside a clusters table."""
    notebook = open_notebook([*CELLS, *more])
    set_market(notebook.home, accept=0.1, boot=0.1, stocked=True)
    notebook.run("%load_ext")
    notebook.run("%clusters")
    run = panel(notebook.run("%%provision"), "Provision")
    button(run, "Launch").click()
    expect(state(run)).to_have_text("ready")
    return notebook


def panels(notebook: NotebookPage) -> tuple[Locator, Locator]:
    """Return the run panel and the clusters table."""
    run = panel(output(notebook.cell("%%provision")), "Provision")
    return run, panel(output(notebook.cell("%clusters")), "Clusters")


def check_live(notebook: NotebookPage) -> None:
    """Both panels are live, take a press and follow it."""
    run, table = panels(notebook)
    expect(run).to_be_visible()
    expect(table).to_be_visible()
    expect(shown(notebook.page, FORM)).to_have_count(0)
    expect(state(run)).to_have_text("ready")
    expect(table).to_contain_text("running")
    expect(run).not_to_contain_text("no offer satisfies")
    button(table, "Stop").click()
    expect(state(run)).to_have_text("stopped")
    expect(table).to_contain_text("stopped")


def check_static(notebook: NotebookPage) -> None:
    """Nothing but the static forms is in sight."""
    expect(shown(notebook.page, FORM)).to_have_count(2)
    expect(shown(notebook.page, ".nbprov-root")).to_have_count(0)


def end(notebook: NotebookPage) -> None:
    """End the cluster; both panels show it, and the saved file."""
    run, table = panels(notebook)
    notebook.run("%nbprov down")
    expect(state(run)).to_have_text("ended")
    expect(table).to_contain_text("ended")
    assert "dev: ■ ended" in notebook.saved_form("%%provision")
    assert machines(notebook.home) == 0


def test_restarts_with_reloads(open_notebook: Callable[..., NotebookPage], album: Album) -> None:
    """After a restart and a reload nothing of the old kernel runs in the page."""
    notebook = launched(open_notebook)
    notebook.save()
    notebook.restart_kernel()
    notebook.goto()
    notebook.await_idle()
    expect(shown(notebook.page, FORM)).to_have_count(2)
    album.take("restarted", notebook.cell("%clusters"), notebook.cell("%%provision"))
    notebook.run("%load_ext")
    check_live(notebook)
    album.take("restarted-live", notebook.cell("%clusters"), notebook.cell("%%provision"))
    # The page was not saved, so it has the old widgets again.
    notebook.goto()
    notebook.await_idle()
    run, table = panels(notebook)
    expect(state(run)).to_have_text("stopped")
    expect(table).to_contain_text("stopped")
    expect(shown(notebook.page, FORM)).to_have_count(0)
    end(notebook)
    # A kernel that left nothing running.
    notebook.save()
    notebook.restart_kernel()
    notebook.goto()
    notebook.await_idle()
    notebook.run("%load_ext")
    expect(table).to_be_visible()
    run = panel(notebook.run("%%provision"), "Provision")
    button(run, "Launch").click()
    expect(state(run)).to_have_text("ready")
    check_live(notebook)
    album.take("launched-again", notebook.cell("%clusters"), notebook.cell("%%provision"))
    end(notebook)


def test_panels_end_with_their_kernel_and_extension(
    open_notebook: Callable[..., NotebookPage], album: Album
) -> None:
    """Neither after a crash nor without the extension does a panel look live; both come back."""
    notebook = launched(open_notebook, CRASH, "%unload_ext nbprov")
    notebook.start(notebook.cell("import os"))
    notebook.answer_dialog()
    check_static(notebook)
    notebook.run("%load_ext")
    check_live(notebook)
    notebook.run("%unload_ext")
    check_static(notebook)
    notebook.run("%load_ext")
    run, table = panels(notebook)
    expect(state(run)).to_have_text("stopped")
    expect(table).to_contain_text("stopped")
    album.take("crash", notebook.cell("%clusters"), notebook.cell("%%provision"))
    end(notebook)


def test_the_notebook_is_closed_and_opened(
    open_notebook: Callable[..., NotebookPage], album: Album, tmp_path: Path
) -> None:
    """The tab in JupyterLab, and the browser's while a cell runs.

    A busy kernel answers no page that was opened since: the saved form says so.
    """
    gate = tmp_path / "gate"
    busy = f"import os, time\nwhile not os.path.exists({str(gate)!r}):\n    time.sleep(0.2)"
    notebook = launched(open_notebook, busy)
    notebook.save()
    notebook.command("application:close")
    expect(notebook.page.locator(".jp-NotebookPanel")).to_have_count(0)
    notebook.command("docmanager:open", path=notebook.file.name)
    notebook.await_idle()
    check_live(notebook)
    album.take("tab", notebook.cell("%clusters"), notebook.cell("%%provision"))
    notebook.save()
    notebook.start(notebook.cell("import os, time"))
    closed, notebook.page = notebook.page, notebook.page.context.new_page()
    closed.close()
    notebook.goto()
    notebook.page.wait_for_function(
        """() => {
            const words = (form) => getComputedStyle(form, "::after").content;
            const told = [...document.querySelectorAll("[data-nbprov]")].map(words);
            return told.length === 2 && told.every((text) => text.includes("kernel is busy"));
        }"""
    )
    album.take("busy", notebook.cell("%clusters"), notebook.cell("%%provision"))
    gate.touch()
    run, _ = panels(notebook)
    expect(state(run)).to_have_text("stopped")
    expect(shown(notebook.page, FORM)).to_have_count(0)
    album.take("free", notebook.cell("%clusters"), notebook.cell("%%provision"))
    end(notebook)
