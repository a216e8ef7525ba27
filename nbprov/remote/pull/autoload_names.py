"""Names that programs on this computer load only because the file lies in their working folder."""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Iterable

ENDINGS = (
    ".py",
    ".pyw",
    ".pyc",
    ".pyo",
    ".pyd",
    ".so",
    ".pth",
    ".dll",
    ".exe",
    ".com",
    ".bat",
    ".cmd",
    ".ps1",
)
"""What Python imports from its working folder before all else (`numpy.py`), and what Windows runs.

Python imports from folders below it too.
"""
NAMES = (
    *(
        "makefile",
        "gnumakefile",
        "justfile",
        "package.json",
        "dockerfile",
        "compose.yaml",
        "docker-compose.yml",
        "snakefile",
        "dvc.yaml",
    ),
    *(
        "pyproject.toml",
        "setup.cfg",
        "pytest.ini",
        "tox.ini",
        "mypy.ini",
        "pylintrc",
        "matplotlibrc",
    ),
)
"""Files that tell tools or libraries in a folder what to run or load."""
METADATA = (".dist-info", ".egg-info", ".egg", ".egg-link")
"""What Python takes for an installed package, with its entry points, in a folder of imports."""

_MAGIC = re.compile(r"[*?\[\]]")


def is_worked_in(folder: str, notebook: str) -> bool:
    """Return whether a folder is or contains the notebook's own or one that Python imports from."""
    own = os.path.join(os.path.realpath(folder), "")
    return any(
        os.path.join(os.path.realpath(place or "."), "").startswith(own)
        for place in (notebook, *sys.path)
    )


def why_apart(pattern: str, name: str, *, is_link: bool) -> str:
    """Return the pattern that would take a file under its own name; empty if this one does.

    It differs where the machine chose a name that programs load by themselves. A pattern takes what
    it names: an ending (`*.py`), a whole name, or more of a name than its leading dot.

    Parameters
    ----------
    pattern
        Relative to the folder that programs work in, with at least one of `*`, `?`, `[`.
    name
        Of a file or link, relative to the same folder.

    Examples
    --------
    >>> why_apart("*", "numpy.py", is_link=False)
    '*.py'
    >>> why_apart("*", "numpy/__init__.py", is_link=False)
    '**/*.py'
    >>> why_apart("*.py", "train.py", is_link=False), why_apart("*", "scores.csv", is_link=False)
    ('', '')
    """
    parts, asked = name.split("/"), [part for part in pattern.split("/") if part]
    parts = [
        "".join(c for c in part if unicodedata.category(c) != "Cf")
        for part in parts
        # macOS may ignore invisible characters.
    ]
    last = parts[-1].casefold()
    own = name.split("/")[0]
    said = _MAGIC.split(asked[-1])[-1].casefold()
    ending = next((ending for ending in _endings() if last.endswith(ending)), "")
    if ending and not said.endswith(ending):
        return f"*{ending}" if len(parts) == 1 else f"**/*{ending}"
    first = _MAGIC.split(asked[0])
    if len(first) > 1 and parts[0].startswith(".") and len(first[0]) < 2:
        return own
    if parts[0].casefold().endswith(METADATA) and not first[-1].casefold().endswith(METADATA):
        return own
    is_tools = last in NAMES and len(parts) == 1 and last != asked[-1].casefold()
    return name if is_link or is_tools else ""


def _endings() -> Iterable[str]:
    # Windows runs what its own list says, and looks into the working folder first.
    more = os.environ.get("PATHEXT", "").casefold().split(";") if sys.platform == "win32" else ()
    return (*ENDINGS, *(ending for ending in more if ending.startswith(".")))
