"""Join the files of `widgets/` into one module per panel for the browser, without a bundler.

A module that the kernel sends as text cannot import its neighbours, so the files of a panel are
concatenated in the order of their imports. Import lines, comments and indentation are removed,
because the text travels to the browser with every panel. Names must therefore be unique across the
files of a panel, which the tests check.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from nbprov.model.errors import NotFound

PRICE_TABLE = ("format.js", "dom.js", "table.js", "link.js", "grid.js", "price_table.js")
RUN_PANEL = (
    "format.js",
    "dom.js",
    "table.js",
    "forms.js",
    "link.js",
    "grid.js",
    "confirm.js",
    "run_panel.js",
)
CLUSTERS_TABLE = (
    "format.js",
    "dom.js",
    "table.js",
    "forms.js",
    "link.js",
    "confirm.js",
    "facts.js",
    "clusters_table.js",
)
STYLE = "nbprov.css"

_IMPORT = re.compile(r'^import .* from "\./.*";\n', re.MULTILINE)
_BLOCK_COMMENT = re.compile(r"/\*.*?\*/[ \t]*", re.DOTALL)
_LINE_COMMENT = re.compile(r"(?:^|(?<=[;{},]))[ \t]*// .*$", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=const |function )", re.MULTILINE)
_EDGES = re.compile(r"^[ \t]+|[ \t]+$", re.MULTILINE)
_AROUND = re.compile(r"\s*([{};])\s*")
_NEEDLESS_BREAK = re.compile(r"(?<=[{,;(])\n|(?<=})\n(?=})")
_SPACED = re.compile(
    r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`"""
    r"""|/(?![*/ ])(?:\\.|\[(?:\\.|[^\]\\])*\]|[^/\\\n\[])+/[a-z]*)"""
    r"""|[ ]*(=>|[!=]==|&&|\|\||\?\?|[=,;:?(){}\[\]<>])[ ]*"""
)
"""Texts and regular expressions, which stay as they are, and marks that need no spaces. A division
has spaces around it, so it is not taken for a regular expression."""
_EMPTY_LINES = re.compile(r"\n{2,}")


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


def _minify(text: str) -> str:
    return _NEEDLESS_BREAK.sub("", _EMPTY_LINES.sub("\n", _EDGES.sub("", text))).strip() + "\n"


@cache
def module(names: tuple[str, ...]) -> str:
    """Return the files joined into one module; the last file exports the panel."""
    text = "".join(_IMPORT.sub("", _read(name)) for name in names)
    return _SPACED.sub(
        lambda found: found[1] or found[2],
        _minify(_EXPORT.sub("", _LINE_COMMENT.sub("", _BLOCK_COMMENT.sub("", text)))),
    )


@cache
def style() -> str:
    """Return the style of all panels."""
    text = _BLOCK_COMMENT.sub("", _read(STYLE))
    return _AROUND.sub(r"\1", text).replace(": ", ":").replace(", ", ",").strip()
