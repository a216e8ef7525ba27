"""The panel of a launch on a narrow page, at 200 %, and for a screen reader."""

from __future__ import annotations

from collections.abc import Callable

from local_cloud import set_market
from notebook_page import NotebookPage, button, has_focus, panel, state
from pictures import Album
from playwright.sync_api import Locator, expect

PROVISION = "%%provision dev\nresources:\n  accelerators: A100\n  infra: local\nmax_lifetime: 1h"
WATCH = """root => {
    window.announced = 0;
    const status = root.querySelector('[role="status"]');
    const told = { childList: true, characterData: true, subtree: true };
    new MutationObserver(() => window.announced++).observe(status, told);
}"""


def overflow(run: Locator) -> list[str]:
    """What of a panel scrolls sideways, or is wider than it."""
    return [
        str(name)
        for name in run.evaluate(
            """root => {
                const edge = root.getBoundingClientRect().right + 1;
                return [root, ...root.querySelectorAll('*')].filter((one) =>
                    one.checkVisibility() && !one.closest('.nbprov-grid, thead, svg') &&
                    !one.classList.contains('nbprov-quiet') &&
                    (one.getBoundingClientRect().right > edge ||
                     (one.scrollWidth > one.clientWidth + 1 &&
                      getComputedStyle(one).overflowX === 'auto'))
                ).map((one) => one.className || one.tagName);
            }"""
        )
    ]


def test_the_reasons_of_a_failed_launch_are_in_sight_and_said_once(
    open_notebook: Callable[..., NotebookPage], album: Album
) -> None:
    notebook = open_notebook(["%load_ext nbprov", PROVISION])
    set_market(notebook.home, accept=0.1, boot=0.5, empty=True)
    notebook.run("%load_ext")
    run = panel(notebook.run("%%provision"), "Provision")
    button(run, "Launch").click()
    expect(state(run)).to_have_text("failed")
    expect(run.get_by_role("status")).to_contain_text("no machine in 9 attempts: out of stock (9)")
    assert run.aria_snapshot().count("no machine in 9 attempts") == 1
    expect(run.locator(".nbprov-openings").get_by_role("button").first).to_be_visible()

    dark = "JupyterLab Dark"
    for width, height, theme in ((640, 2400, ""), (400, 3000, ""), (400, 3000, dark)):
        notebook.page.set_viewport_size({"width": width, "height": height})
        if theme:
            notebook.theme(theme)
        reason = run.locator(".nbprov-reason button").first
        reason.scroll_into_view_if_needed()
        box, room = reason.bounding_box(), run.bounding_box()
        assert box is not None
        assert room is not None
        assert box["x"] + box["width"] <= room["x"] + room["width"], width
        assert overflow(run) == [], width
        album.take(f"failed-{width}{theme and '-dark'}", run)


def test_time_that_goes_on_is_not_announced(
    open_notebook: Callable[..., NotebookPage], album: Album
) -> None:
    notebook = open_notebook(["%load_ext nbprov", PROVISION])
    set_market(notebook.home, accept=0.1, boot=0.5, stocked=True, stuck=True)
    notebook.run("%load_ext")
    run = panel(notebook.run("%%provision"), "Provision")
    button(run, "Launch").click()
    expect(run.get_by_role("table", name="Attempts")).to_contain_text("booting")
    expect(run.locator(".nbprov-header")).to_contain_text("next: local/")
    expect(run.get_by_role("status")).not_to_be_empty()
    run.evaluate(WATCH)
    head = run.locator(".nbprov-header")
    for _ in range(2):
        expect(head).not_to_have_text(head.inner_text())  # its clock runs
    assert notebook.page.evaluate("window.announced") == 0
    album.take("headline", run)
    button(run, "Cancel").focus()
    notebook.page.keyboard.press("Enter")
    expect(state(run)).to_have_text("cancelled")
    assert has_focus(run), "Cancel has gone"
    assert notebook.page.evaluate("window.announced") >= 1
