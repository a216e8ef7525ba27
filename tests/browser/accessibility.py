"""Check panels with axe, the engine behind most browsers' accessibility reports."""

from __future__ import annotations

from typing import Any

from npm_package import NpmPackage
from playwright.sync_api import Locator

AXE = NpmPackage(
    "axe-core",
    "4.14.1",
    "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
)


def assert_accessible(*panels: Locator) -> None:
    """Check that axe has no finding in these panels.

    Raises
    ------
    CannotCheck
        axe cannot be fetched.
    """
    page = panels[0].page
    if page.evaluate("typeof window.axe") == "undefined":
        page.evaluate((AXE.folder() / "axe.min.js").read_text(encoding="utf-8"))
    for panel in panels:
        found: list[dict[str, Any]] = panel.evaluate(
            "panel => window.axe.run(panel).then(({ violations }) => violations)"
        )
        told = [(one["id"], one["help"], [n["html"][:200] for n in one["nodes"]]) for one in found]
        assert told == [], told
