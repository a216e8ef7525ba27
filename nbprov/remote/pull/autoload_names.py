"""What a program on this computer would import, run or read by itself, only because it lies in the folder that the program works in."""

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
"""What Python imports from its working folder before all else (`numpy.py`), also out of folders in it, and what Windows runs from there."""
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
"""Files by which tools that are started in a folder, or libraries that work in it, are told what to run or load."""
METADATA = (".dist-info", ".egg-info", ".egg", ".egg-link")
"""What Python takes for an installed package, with the entry points that it names, where it lies in a folder of imports."""

_MAGIC = re.compile(r"[*?\[\]]")


def is_worked_in(folder: str, notebook: str) -> bool:
    """Whether a folder is the notebook's own, or another one that Python imports from; or whether one of those lies below it."""
    own = os.path.join(os.path.realpath(folder), "")
    return any(
        os.path.join(os.path.realpath(place or "."), "").startswith(own)
        for place in (notebook, *sys.path)
    )


def why_apart(pattern: str, name: str, *, is_link: bool) -> str:
    """The pattern that would take a file as it is, where this one does not: it let the machine choose a name that is taken by itself. Else empty.

    A pattern takes what it says: an ending (`*.py`), a whole name, or more of a name than its leading dot.

    Parameters
    ----------
    pattern
        Relative to the folder that programs work in, with at least one of `*`, `?`, `[`.
    name
        Of a file or link, relative to the same folder.

    Examples
    --------
    >>> why_apart("*", "numpy.py", is_link=False), why_apart("*", "numpy/__init__.py", is_link=False)
    ('*.py', '**/*.py')
    >>> why_apart("*.py", "train.py", is_link=False), why_apart("*", "scores.csv", is_link=False)
    ('', '')
    """
    parts, asked = name.split("/"), [part for part in pattern.split("/") if part]
    parts = [
        "".join(c for c in part if unicodedata.category(c) != "Cf") for part in parts
    ]  # macOS may read over those
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
    # Windows runs by its own list, and looks into the working folder first.
    more = os.environ.get("PATHEXT", "").casefold().split(";") if sys.platform == "win32" else ()
    return (*ENDINGS, *(ending for ending in more if ending.startswith(".")))


__all__ = ["is_worked_in", "why_apart"]
