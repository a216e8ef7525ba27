"""The settings of the documentation as a site: `make site` builds it with Sphinx and MyST."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = "nbprov"
release = version = PROJECT["version"]
# The extension `python_reference` is the module beside this file.
sys.path.insert(0, str(ROOT / "docs"))
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "python_reference"]
# In the reference's own text, what stands between single backticks is a name.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_default_options = {"exclude-members": "of"}
autodoc_typehints_format = "short"
napoleon_use_param = False
napoleon_use_rtype = False
python_use_unqualified_type_hints = True
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"
source_suffix = {".md": "markdown"}
exclude_patterns = ["images"]
# So that `page.md#a-heading` leads there, as in a repository's own pages.
myst_heading_anchors = 4
html_theme = "furo"
html_title = f"nbprov {release}"
html_show_sphinx = False
html_show_copyright = False
# Magics are no Python, and YAML stands in some of their cells: what a lexer cannot read is shown
# plain.
suppress_warnings = ["misc.highlighting_failure"]

LINK = re.compile(r"\[([^\]]+)\]\((?:\.\./)*([\w./-]+?)(#[\w-]+)?\)")


def _with_downloads(text: str) -> str:
    """Make links to files of the repository that are no pages of the site into downloads."""

    def replaced(link: re.Match[str]) -> str:
        words, target = link[1].replace("`", ""), link[2]
        if not (ROOT / target).is_file() or target.startswith("docs/"):
            return link[0]
        if target == "README.md":
            return f"[{words}](/index.md)"
        return f"{{download}}`{words} </../{target}>`"

    return LINK.sub(replaced, text)


def _read(app: Any, name: str, source: list[str]) -> None:
    source[0] = _with_downloads(source[0])


def _included(app: Any, path: Path, parent: str, source: list[str]) -> None:
    source[0] = _with_downloads(source[0])


def setup(app: Any) -> None:
    """Connect what changes pages as they are read."""
    app.connect("source-read", _read)
    app.connect("include-read", _included)
