"""The panels follow a live change of JupyterLab's theme, and can be read in both."""

from __future__ import annotations

from collections.abc import Callable

from accessibility import assert_accessible
from contrast import assert_readable
from local_cloud import set_market
from notebook_page import NotebookPage, button, panel, state
from pictures import Album
from playwright.sync_api import expect

PROVISION = "%%provision dev\nresources:\n  accelerators: A100\n  infra: local\nmax_lifetime: 1h"
LIGHT, DARK = "JupyterLab Light", "JupyterLab Dark"
HIGH_CONTRAST = "JupyterLab Dark High Contrast"
# How the mark of what is under way moves, whatever the state of the panel is by now.
ANIMATION = """(panel) => {
    const mark = document.createElement("span");
    mark.className = "nbprov-shape-half";
    panel.append(mark);
    const name = getComputedStyle(mark).animationName;
    mark.remove();
    return name;
}"""


def test_dark_theme(open_notebook: Callable[..., NotebookPage], album: Album) -> None:
    """Every text of the three panels has enough contrast in both themes and in every state."""
    notebook = open_notebook(
        ["%load_ext nbprov", "%prices A100 --cloud gcp --spot", PROVISION, "%clusters"]
    )
    set_market(notebook.home, accept=0.5, boot=2.5)
    notebook.run("%load_ext")
    prices = panel(notebook.run("%prices"), "Prices")
    run = panel(notebook.run("%%provision"), "Provision")
    expect(run.locator('.nbprov-body [role="row"]').first).to_be_visible()
    expect(prices.locator('.nbprov-body [role="row"]').first).to_be_visible()
    for theme in (HIGH_CONTRAST, DARK, LIGHT):
        notebook.theme(theme)
        assert_readable(run, dark=theme != LIGHT)
        assert_readable(prices, dark=theme != LIGHT)
        assert_accessible(run, prices)
        album.take(theme.lower().replace(" ", "-"), prices)
    button(run, "Launch").click()
    expect(run.get_by_role("table", name="Attempts")).to_contain_text("booting")
    notebook.theme(DARK)
    assert_readable(run, dark=True)
    for motion, moves in (("no-preference", True), ("reduce", False)):
        notebook.page.emulate_media(reduced_motion=motion)
        assert (run.evaluate(ANIMATION) != "none") == moves
    notebook.page.emulate_media(reduced_motion="no-preference")
    expect(state(run)).to_have_text("ready")
    clusters = panel(notebook.run("%clusters"), "Clusters")
    expect(clusters.locator(".nbprov-badge")).to_have_text("running")
    for theme in (HIGH_CONTRAST, DARK):
        notebook.theme(theme)
        for part in (run, clusters):
            assert_readable(part, dark=True)
        assert_accessible(run, clusters)
    album.take("dark", notebook.cell("%%provision"), notebook.cell("%clusters"))
    notebook.theme(LIGHT)
    for part in (run, clusters):
        assert_readable(part, dark=False)
    button(clusters, "Down").click()
    button(clusters, "Really down?").click()
    expect(clusters.locator(".nbprov-badge")).to_have_text("ended")
