"""Hostile figures in the libraries of each viewer's present and last major release.

In a bare page with the frames of one cell. The libraries that are not installed are fetched.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from check_widgets import CannotCheck
from eavesdropper import Eavesdropper
from hostile_outputs import Bundle, bokeh_bundle, bokeh_figures, charts
from playwright.sync_api import Browser, Page, expect
from pypi_wheel import PypiWheel

from nbprov.machines.sanitize.display_data import safe_content
from nbprov.notebook.frames import viewer_libraries
from nbprov.notebook.frames.frame_renderer import FrameRenderer

DRAWING_MS = 120_000
PLOTLY: Bundle = {"application/vnd.plotly.v1+json": {
    "data": [{"y": [1, 3, 2]}], "layout": {"title": {"text": "an honest figure"}}}}  # fmt: skip
VEGA: Bundle = {"application/vnd.vegalite.v5+json": {
    "title": "an honest figure", "data": {"values": [{"a": 1}, {"a": 2}]}, "mark": "bar",
    "encoding": {"x": {"field": "a", "type": "quantitative"}}}}  # fmt: skip
BOKEH_3, BOKEH_2 = (bokeh_bundle(script) for script in bokeh_figures("an honest figure"))


@dataclass(frozen=True)
class Release:
    """A release of a viewer's library.

    Parameters
    ----------
    viewer
        As frames name it.
    version
        Begins what the library itself tells by `told`; the one of Vega tells no version.
    wheel
        Where it comes from; None for the one that is installed.
    honest
        A figure for it.
    drawn
        What is in the frame once the figure is drawn.
    """

    viewer: str
    version: str
    told: str
    wheel: PypiWheel | None
    honest: Bundle
    drawn: str


RELEASES = [
    Release("plotly", "4.", "Plotly.version", None, PLOTLY, ".plotly .gtitle"),
    Release(
        "plotly",
        "3.",
        "Plotly.version",
        PypiWheel(
            "plotly", "6.9.0", "36bebe2f1bb13884774fe61689c329071446f6ce4a8927fb1f0d6fb24f581236"
        ),
        PLOTLY,
        ".plotly .gtitle",
    ),
    Release(
        "plotly",
        "2.35",
        "Plotly.version",
        PypiWheel(
            "plotly", "5.24.1", "f67073a1e637eb0dc3e46324d9d51e2fe76e9727c892dde64ddf1e1b51f29089"
        ),
        PLOTLY,
        ".plotly .gtitle",
    ),
    Release("bokeh", "3.", "Bokeh.version", None, BOKEH_3, ".bk-clearfix"),
    Release(
        "bokeh",
        "2.4",
        "Bokeh.version",
        PypiWheel(
            "bokeh", "2.4.3", "104d2f0a4ca7774ee4b11e545aa34ff76bf3e2ad6de0d33944361981b65da420"
        ),
        BOKEH_2,
        ".bk-clearfix",
    ),
    Release(
        "vega",
        "function",
        "typeof vegaEmbed",
        PypiWheel(
            "vl-convert-python",
            "1.9.0.post1",
            "3c1558fa0055e88c465bd3d71760cde9fa2c94a95f776a0ef9178252fd820b1f",
            "linux-x86_64",
        ),
        VEGA,
        ".vega-embed :is(svg, canvas)",
    ),
    Release(
        "vega",
        "function",
        "typeof vegaEmbed",
        PypiWheel(
            "vl-convert-python",
            "1.7.0",
            "8b50c492b640abb89a54a71e2c26f0f2d2c1cedc42030cc55bcc202670334724",
            "linux-x86_64",
        ),
        VEGA,
        ".vega-embed :is(svg, canvas)",
    ),
]


def _name(release: Release) -> str:
    return f"{release.viewer}-{release.wheel.version if release.wheel else 'installed'}"


@pytest.fixture(params=RELEASES, ids=_name)
def release(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, nbprov_home: object
) -> Iterator[Release]:
    """A release that frames find as the one that is installed."""
    chosen: Release = request.param
    if chosen.wheel is not None:
        try:
            folder = str(chosen.wheel.folder())
        except CannotCheck as lacking:
            pytest.skip(str(lacking))
        monkeypatch.delitem(sys.modules, chosen.viewer, raising=False)
        monkeypatch.syspath_prepend(folder)
        # Vega's library is made by another process.
        monkeypatch.setenv("PYTHONPATH", folder, prepend=os.pathsep)
    viewer_libraries.library_of.cache_clear()
    yield chosen
    viewer_libraries.library_of.cache_clear()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    opened = browser.new_page()
    yield opened
    opened.close()


def _frames(bundles: list[Bundle], viewer: str) -> list[str]:
    """Return the outputs of a viewer as they stand in a notebook."""
    renderer = FrameRenderer("on")
    contents = [safe_content("display_data", {"data": bundle}, "n") for bundle in bundles]
    return [
        renderer.render(content["data"], content["frame"])["text/html"]
        for content in contents
        if content.get("frame", {}).get("viewer") == viewer
    ]


def test_a_hostile_figure_reaches_neither_the_page_nor_a_server(
    release: Release, page: Page
) -> None:
    """After them an honest figure is drawn by the same library."""
    with Eavesdropper() as eavesdropper:
        eavesdropper.check_it_hears()
        page.context.add_cookies([{"name": "secret", "value": "1", "url": eavesdropper.url}])
        outputs = _frames([*charts(eavesdropper.url), release.honest], release.viewer)
        assert len(outputs) > 1
        page.set_content(f"<title>own</title><body>{''.join(outputs)}")
        hosts = page.locator("[data-nbprov-frame]")
        expect(hosts).to_have_count(len(outputs))
        for host in hosts.all():
            host.evaluate("host => host.scrollIntoView()")
            page.wait_for_function(
                "host => host.children[0].hidden || !host.children[1].hidden",
                arg=host.element_handle(),
                timeout=DRAWING_MS,
            )
        inner = hosts.last.locator("iframe").content_frame.locator("iframe").content_frame
        expect(inner.locator(release.drawn).first).to_be_visible()
        assert inner.locator("body").evaluate(f"() => {release.told}").startswith(release.version)
        assert page.evaluate("window.owned") is None
        assert page.title() == "own"
        assert eavesdropper.connections == 0
        # What was on its way before would be heard before this.
        page.evaluate("url => fetch(url, { mode: 'no-cors' })", f"{eavesdropper.url}/own")
        assert [request.split()[1] for request in eavesdropper.requests] == ["/own"]
