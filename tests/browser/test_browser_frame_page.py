"""What a frame can do to the page around it: its height, within bounds, and nothing to the keys."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hostile_outputs import Bundle, bokeh_bundle, bokeh_figures
from playwright.sync_api import Browser, Page, expect

from nbprov.machines.sanitize.display_data import safe_content
from nbprov.notebook.frames.frame_renderer import FrameRenderer

HIGHEST = 2000


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    opened = browser.new_page()
    yield opened
    opened.close()


def _show(page: Page, html: str) -> None:
    _show_bundle(page, {"text/html": html})


def _show_bundle(page: Page, bundle: Bundle) -> None:
    content = safe_content("display_data", {"data": bundle}, "n")
    shown = FrameRenderer("on").render(content["data"], content["frame"])["text/html"]
    page.set_content(f"<body style='background: rgb(30, 30, 30)'><input id=own>{shown}")


@pytest.mark.firefox
def test_a_frame_that_takes_the_keyboard_is_closed(page: Page) -> None:
    page.set_content("<input id=own>")
    _show(
        page,
        "<input id=theirs><script>setTimeout(() => setInterval(() => theirs.focus(), 20), 500)"
        "</script>",
    )
    page.locator("#own").focus()
    expect(page.locator("body")).to_contain_text("closed, since it took the keyboard")
    expect(page.locator("#own")).to_be_focused()
    assert page.locator("iframe").count() == 0


def test_the_page_takes_nothing_from_a_frame_but_a_height_within_bounds(page: Page) -> None:
    """Whatever the frame's program tells the frames around it, its own words are not shown."""
    told = "[NaN, 'x', {colors: 1}, {payload: 'x'}, null, 'ready', 1e9]"
    _show(
        page,
        f"<p>small</p><script>setTimeout(() => {{ for (const it of {told})"
        " { parent.postMessage(it, '*'); top.postMessage(it, '*') } }, 300)</script>",
    )
    frame = page.locator("iframe")
    expect(frame).to_have_css("height", f"{HIGHEST}px")
    inner = frame.content_frame.locator("iframe").content_frame
    expect(inner.locator("html")).to_have_css("background-color", "rgb(30, 30, 30)")
    expect(page.locator("body")).not_to_contain_text("could not be drawn")


def test_a_figure_that_its_library_draws_nothing_of_is_text_that_says_so(page: Page) -> None:
    """BokehJS 3 throws away a figure of Bokeh 2.4, and tells nobody."""
    _, old = bokeh_figures("of Bokeh 2")
    _show_bundle(page, {**bokeh_bundle(old), "text/plain": "the figure as text"})
    body = page.locator("body")
    expect(body).to_contain_text("[Bokeh figure: it could not be drawn within 10 s]")
    expect(body.get_by_text("the figure as text")).to_be_visible()
    expect(page.locator("iframe")).to_have_css("height", "18px")


def test_a_page_that_draws_nothing_says_so_until_it_does(page: Page) -> None:
    """The script waits for what the page says of it."""
    act = "() => { document.body.append('here it is') }"
    _show(page, f"<script>addEventListener('message', {act})</script>")
    note = page.get_by_text("[HTML with a program: nothing was drawn within 10 s]")
    expect(note).to_be_visible()
    frame = page.locator("iframe")
    # The frame passes on what the page tells it.
    frame.evaluate("frame => frame.contentWindow.postMessage({}, '*')")
    inner = frame.content_frame.locator("iframe").content_frame
    expect(inner.locator("body")).to_contain_text("here it is")
    expect(note).to_be_hidden()
