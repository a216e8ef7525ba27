"""For people with a keyboard, a screen reader, forced colours or a narrow page."""

from __future__ import annotations

from collections.abc import Callable

from contrast import assert_readable
from local_cloud import set_market
from notebook_page import NotebookPage, button, has_focus, panel, state
from pictures import Album
from playwright.sync_api import Locator, expect

PROVISION = "%%provision dev\nresources:\n  accelerators: A100\n  infra: local\nmax_lifetime: 1h"
NARROW = 700


def backgrounds(part: Locator, selector: str) -> set[str]:
    """The backgrounds of some elements, as they are painted."""
    found = part.locator(selector).evaluate_all(
        "all => all.map(one => { const style = getComputedStyle(one);"
        " return style.backgroundColor + ' ' + style.backgroundImage; })"
    )
    return {str(one) for one in found}


def overlap(one: Locator, other: Locator) -> float:
    """By how many pixels two elements cover each other from left to right."""
    a, b = one.bounding_box(), other.bounding_box()
    assert a is not None
    assert b is not None
    return min(a["x"] + a["width"], b["x"] + b["width"]) - max(a["x"], b["x"])


def test_a_launch_is_read_and_pressed(
    open_notebook: Callable[..., NotebookPage], album: Album
) -> None:
    notebook = open_notebook(["%load_ext nbprov", PROVISION, "%clusters", "%prices A100"])
    set_market(notebook.home, accept=0.1, boot=0.1)
    page = notebook.page
    notebook.run("%load_ext")
    run = panel(notebook.run("%%provision"), "Provision")
    button(run, "Launch").focus()
    page.keyboard.press("Enter")
    expect(state(run)).to_have_text("ready")
    assert has_focus(run), "Launch has gone, and the focus is still in its panel"
    expect(run.get_by_role("status")).to_contain_text("dev is ready")

    page.emulate_media(forced_colors="active")
    assert run.locator(".nbprov-span").count() > 1
    spans, lines = backgrounds(run, ".nbprov-span"), backgrounds(run, ".nbprov-line")
    assert len(spans) == 2, "what was refused differs from what was kept"
    assert not spans & lines
    album.take("forced-colours", notebook.cell("%%provision"))
    page.emulate_media(forced_colors="none")

    clusters = panel(notebook.run("%clusters"), "Clusters")
    prices = panel(notebook.run("%prices"), "Prices")
    page.emulate_media(forced_colors="active")
    expect(prices.locator('.nbprov-body [role="row"]').first).to_be_visible()
    first = prices.locator('.nbprov-body [role="row"]').first
    first.locator('[role="gridcell"]').first.click()
    chosen, others = (
        backgrounds(prices, '[aria-selected="true"]'),
        backgrounds(prices, '[role="row"][aria-selected="false"]'),
    )
    assert chosen, "a row is chosen"
    assert not chosen & others, "a chosen row differs from the others where colours are forced"
    assert_readable(clusters, dark=False)
    page.emulate_media(forced_colors="none")
    first.locator('[role="gridcell"]').first.click()
    page.set_viewport_size({"width": NARROW, "height": 1400})
    scrolled = run.locator(".nbprov-scroll").first
    assert scrolled.evaluate("one => one.scrollWidth <= one.clientWidth"), "no reason is cut"
    row = clusters.locator("tbody tr").first
    cost = row.locator("td", has_text="*")
    expect(cost).to_be_visible()
    assert overlap(cost, row.locator(".nbprov-commands")) <= 0
    price = prices.locator('.nbprov-body [role="row"]').first.get_by_text("$").first
    box, grid = price.bounding_box(), prices.get_by_role("grid").bounding_box()
    assert box is not None
    assert grid is not None
    assert box["x"] + box["width"] <= grid["x"] + grid["width"]
    album.take("narrow", clusters)

    prices.get_by_role("searchbox").fill("no such machine")
    expect(prices.locator(".nbprov-foot").first).to_contain_text("0 of")
    kept = prices.get_by_role("grid").bounding_box()
    assert kept is not None
    assert kept["height"] > grid["height"] - 20, "the table keeps its place without a hit"

    button(clusters, "Down").focus()
    page.keyboard.press("Enter")
    page.wait_for_function("() => !document.activeElement.getAttribute('aria-disabled')")
    page.keyboard.press("Enter")
    expect(clusters.locator(".nbprov-badge")).to_have_text("ended")
    assert has_focus(clusters), "Down has gone, and the focus is still in its table"
