"""The price table's columns: chosen, resized, frozen, sorted by several, saved as a file, and all
of it while the kernel is busy; and a second view of an output that stays in step.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from local_cloud import set_market
from notebook_page import NotebookPage, header, panel
from playwright.sync_api import Locator, expect

PROVISION = "%%provision dev --yes --wait\nresources: {accelerators: A100, infra: local}"


def test_columns_are_chosen_resized_frozen_and_sorted_beside_a_busy_kernel(
    open_notebook: Callable[..., NotebookPage], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    busy = f"import os, time\nwhile not os.path.exists({str(gate)!r}):\n    time.sleep(0.2)"
    notebook = open_notebook(["%load_ext nbprov", "%prices A100", busy])
    notebook.run("%load_ext")
    prices = panel(notebook.run("%prices"), "Prices")
    count = prices.locator(".nbprov-foot")
    expect(count).to_have_text(re.compile(r"^\d+ offers$"))
    cell = notebook.cell("import os, time")
    notebook.start(cell)
    price = header(prices, "$/h")
    _resized(notebook, price)
    prices.locator(".nbprov-menu-button").filter(has_text="columns").click()
    prices.get_by_role("checkbox", name=re.compile("month")).uncheck()
    expect(header(prices, "$/month")).to_have_count(0)
    notebook.page.keyboard.press("Escape")
    header(prices, "cloud").locator("button").click()
    price.locator("button").click(modifiers=["Shift"])
    expect(header(prices, "cloud")).to_have_attribute("aria-sort", "ascending")
    expect(price).to_have_attribute("aria-sort", "ascending")
    grid = prices.get_by_role("grid")
    fixed, moving = header(prices, "$/GPU-h"), header(prices, "cloud")
    before = [_left(fixed), _left(moving)]
    grid.evaluate("grid => { grid.scrollLeft = 300; }")
    assert abs(_left(fixed) - before[0]) < 1, "a frozen column stays, but for parts of a pixel"
    assert _left(moving) < before[1] - 100
    prices.get_by_role("searchbox").first.fill("gcp spot")
    expect(count).to_have_text(re.compile(r"^\d+ of \d+ offers$"))
    with notebook.page.expect_download() as saved:
        prices.get_by_role("button", name="CSV").click()
    lines = Path(saved.value.path()).read_text(encoding="utf-8").splitlines()
    shown = int((count.text_content() or "").split()[0].replace(",", ""))
    assert saved.value.suggested_filename == "prices.csv"
    assert len(lines) == shown + 1
    assert all("gcp" in line and "spot" in line for line in lines[1:])
    assert notebook.is_running(cell)
    gate.touch()
    notebook.finish(cell)


def _resized(notebook: NotebookPage, column: Locator) -> None:
    """Make a column wider by keys, and then by the mouse."""
    widths = [_width(column)]
    column.locator("button").focus()
    notebook.page.keyboard.press("Alt+ArrowRight")
    widths.append(_width(column))
    handle = column.locator(".nbprov-handle").bounding_box()
    assert handle is not None
    x, y = handle["x"] + handle["width"] / 2, handle["y"] + handle["height"] / 2
    notebook.page.mouse.move(x, y)
    notebook.page.mouse.down()
    notebook.page.mouse.move(x + 60, y)
    notebook.page.mouse.up()
    widths.append(_width(column))
    assert widths == sorted(set(widths)), widths


def _width(column: Locator) -> float:
    box = column.bounding_box()
    assert box is not None
    return box["width"]


def _left(column: Locator) -> float:
    box = column.bounding_box()
    assert box is not None
    return box["x"]


def test_a_second_view_of_an_output_stays_in_step(
    open_notebook: Callable[..., NotebookPage],
) -> None:
    notebook = open_notebook(
        ["%load_ext nbprov", "%nbprov dashboard", PROVISION, "%nbprov down dev"], view="lab/tree"
    )
    set_market(notebook.home, accept=0.1, boot=0.1)
    notebook.run("%load_ext")
    board = panel(notebook.run("%nbprov dashboard"), "Clusters")
    board.locator(".nbprov-title").click()
    notebook.command("notebook:create-output-view")
    views = notebook.page.locator('section[aria-label="Clusters"]')
    expect(views).to_have_count(2)
    notebook.run("%%provision")
    for view in views.all():
        expect(view.locator(".nbprov-badge").first).to_have_text("running")
    notebook.run("%nbprov down")
    for view in views.all():
        expect(view.get_by_text("no cluster is live")).to_be_visible()
