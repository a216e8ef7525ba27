"""Pictures of what was drawn: checked to be small, and kept for docs/images only on request."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import browsers
from lab import ROOT
from playwright.sync_api import FloatRect, Locator, Page

WANTED = "NBPROV_TEST_SCREENSHOTS"
IMAGES = ROOT / "docs" / "images"
MOST_BYTES = 300_000
LEFT_OUT = """
.jp-cell-toolbar, .Toastify { display: none !important }
.jp-Cell, .jp-Cell::before, .jp-Cell::after {
  outline: none !important; box-shadow: none !important; border-color: transparent !important
}
"""
"""JupyterLab's buttons over the active cell, its outline and its notices, which are hidden in
pictures."""


class Album:
    """Takes pictures into a folder of the test run.

    With NBPROV_TEST_SCREENSHOTS=docs they replace those of docs/images, which show Chromium.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(self, name: str, *shown: Locator) -> Path:
        """Take one picture of the area that these elements cover together, which must be
        visible."""
        page = shown[0].page
        page.mouse.move(0, 0)
        shown[0].evaluate("element => element.scrollIntoView({ block: 'center' })")
        # Lines are a little higher in Firefox.
        shown[-1].evaluate("element => element.scrollIntoView({ block: 'nearest' })")
        return self._keep(name, page, _area(shown))

    def take_page(self, name: str, page: Page, height: int) -> Path:
        """Take one picture of the upper part of the whole page."""
        assert page.viewport_size is not None
        width = page.viewport_size["width"]
        return self._keep(name, page, {"x": 0, "y": 0, "width": width, "height": height})

    def _keep(self, name: str, page: Page, area: FloatRect) -> Path:
        file = self._folder / f"{name}.png"
        page.screenshot(path=file, clip=area, animations="disabled", caret="hide", style=LEFT_OUT)
        assert file.stat().st_size < MOST_BYTES, f"{name}.png has {file.stat().st_size:,} bytes"
        if os.environ.get(WANTED) == "docs" and not browsers.is_firefox():
            IMAGES.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, IMAGES / file.name)
        return file


def _area(shown: Sequence[Locator]) -> FloatRect:
    boxes = [box for element in shown if (box := element.bounding_box()) is not None]
    assert len(boxes) == len(shown), "what should be in the picture is not drawn"
    page = shown[0].page
    notebook = page.locator(".jp-WindowedPanel-outer:visible")
    sight = notebook.bounding_box() if notebook.count() else None
    if sight is None:  # in Voila the page is all there is
        assert page.viewport_size is not None
        sight = {"x": 0, "y": 0, **page.viewport_size}
    left, top = min(b["x"] for b in boxes), min(b["y"] for b in boxes)
    right, bottom = (
        max(b["x"] + b["width"] for b in boxes),
        max(b["y"] + b["height"] for b in boxes),
    )
    assert top >= sight["y"], "the top of the picture is out of sight"
    assert bottom <= sight["y"] + sight["height"], "the bottom of the picture is out of sight"
    left, right = max(sight["x"], left), min(sight["x"] + sight["width"], right)
    return {"x": left, "y": top, "width": right - left, "height": bottom - top}
