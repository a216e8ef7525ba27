"""Join the files of `widgets/` into one module per panel for the browser, without a bundler.

A module that the kernel sends as text cannot import its neighbours, so the files of a panel are
concatenated in the order of their imports, without import lines and comments, and packed. Names
must therefore be unique across the files of a panel, which the tests check.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from functools import cache
from pathlib import Path

from nbprov.model.errors import NotFound

_GRID = (
    "format.js",
    "dom.js",
    "table.js",
    "row_order.js",
    "search_words.js",
    "filter_tools.js",
    "grid_head.js",
    "grid.js",
)
PRICE_TABLE = (
    *_GRID,
    "link.js",
    "facets.js",
    "facet_menus.js",
    "price_tools.js",
    "row_texts.js",
    "clipboard.js",
    "price_picks.js",
    "price_table.js",
)
PAGE_LINK = (
    "forms.js",
    "ended_cells.js",
    "drawn_lines.js",
    "cell_problems.js",
    "page_link.js",
)
RUN_PANEL = (
    *_GRID,
    "link.js",
    "confirm.js",
    "clipboard.js",
    "run_outlook.js",
    "run_lanes.js",
    "run_attempts.js",
    "run_openings.js",
    "run_panel.js",
)
CLUSTERS_TABLE = (
    "format.js",
    "dom.js",
    "table.js",
    "link.js",
    "confirm.js",
    "facts.js",
    "budgets.js",
    "day_costs.js",
    "market_rows.js",
    "machine_load.js",
    "guard_clocks.js",
    "cluster_tasks.js",
    "clusters_table.js",
)
PROVISION_FORM = ("format.js", "dom.js", "clipboard.js", "form_cell.js", "provision_form.js")
STYLE = "nbprov.css"

_IMPORT = re.compile(r'^import .* from "\./.*";\n', re.MULTILINE)
_BLOCK_COMMENT = re.compile(r"/\*.*?\*/[ \t]*", re.DOTALL)
_LINE_COMMENT = re.compile(r"(?:^|(?<=[;{},]))[ \t]*// .*$", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=const |(?:async )?function )", re.MULTILINE)
_SPACE = re.compile(r"\n\s+")
_AROUND = re.compile(r"\s*([{};])\s*")

_LOADER = """const bytes = Uint8Array.from(atob("PACKED"), (c) => c.charCodeAt(0));
const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
const text = await new Response(stream).text();
const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
const panel = await import(url);
URL.revokeObjectURL(url);
if (!document.querySelector("style[data-nbprov-style=VERSION]")) {
  const sheet = document.createElement("style");
  sheet.dataset.nbprovStyle = "VERSION";
  sheet.textContent = panel.style;
  document.head.append(sheet);
}
export default panel.default;
"""


@cache
def folder() -> Path:
    """Return the folder of the files: inside an installed wheel, or beside the package.

    Raises
    ------
    NotFound
        If the installation is broken.
    """
    package = Path(__file__).resolve().parents[1]
    for place in (package / "_static", package.parent / "widgets"):
        if (place / STYLE).is_file():
            return place
    raise NotFound(
        "the files of nbprov's panels are missing", hint="reinstall nbprov", code="assets.missing"
    )


def _read(name: str) -> str:
    return (folder() / name).read_text(encoding="utf-8")


@cache
def module(names: tuple[str, ...]) -> str:
    """Return the files joined into one module; the last file exports the panel."""
    text = "".join(_IMPORT.sub("", _read(name)) for name in names)
    text = _EXPORT.sub("", _LINE_COMMENT.sub("", _BLOCK_COMMENT.sub("", text)))
    return _SPACE.sub("\n", text).strip() + "\n"


@cache
def packed(names: tuple[str, ...]) -> str:
    """Return a module that unpacks the joined one with the style, and exports its panel.

    The text travels to the browser with every panel, and into a notebook that keeps the state of
    its widgets; packed it is less than half as long. A page gets the style once.
    """
    text = f"{module(names)}export const style = {json.dumps(style())};\n"
    code = base64.b64encode(zlib.compress(text.encode(), 9)).decode("ascii")
    version = f"v{zlib.crc32(style().encode()):x}"
    return _LOADER.replace("PACKED", code).replace("VERSION", version)


@cache
def style() -> str:
    """Return the style of all panels."""
    text = _BLOCK_COMMENT.sub("", _read(STYLE))
    return _AROUND.sub(r"\1", text).replace(": ", ":").replace(", ", ",").strip()
