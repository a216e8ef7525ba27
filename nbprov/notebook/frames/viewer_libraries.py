"""Find the JavaScript libraries of viewers in the user's own Python environment.

Nothing is loaded from the network: a frame that may load a library could send data in the address.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import importlib.util
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from nbprov.model.files import durable
from nbprov.model.paths import home

PACKAGES = {"plotly": "plotly", "bokeh": "bokeh", "vega": "vl-convert-python"}
"""The package to install for each viewer that needs a library."""

_FILES = {
    "plotly": ("package_data/plotly.min.js",),
    "bokeh": tuple(f"server/static/js/bokeh{part}.min.js" for part in ("", "-widgets", "-tables")),
}
_MAKE_VEGA = "import sys, vl_convert; sys.stdout.write(vl_convert.javascript_bundle())"
MAKE_SECONDS = 120.0
"""Making the library of Vega takes 5 s on an idle computer."""


@dataclass(frozen=True, slots=True)
class ViewerLibrary:
    """The code of a viewer.

    Attributes
    ----------
    digest
        Identifies the code within a page.
    packed
        The code in base64 of gzip.
    """

    digest: str
    packed: str


@cache
def library_of(viewer: str) -> ViewerLibrary | None:
    """Return a viewer's library; None if its package is not installed.

    The first call for Vega takes some seconds, because vl-convert puts the library together.
    """
    packed = _packed_vega() if viewer == "vega" else _packed(_files_of(viewer))
    if not packed:
        return None
    return ViewerLibrary(
        hashlib.sha256(packed).hexdigest(), base64.b64encode(packed).decode("ascii")
    )


def pack(text: str) -> bytes:
    """Return a text as a frame unpacks it: gzip, without the time."""
    return gzip.compress(text.encode("utf-8", "replace"), 6, mtime=0)


def _files_of(viewer: str) -> list[Path]:
    # The package is found and not imported, since that may take seconds.
    spec = importlib.util.find_spec(viewer)
    folders = (spec and spec.submodule_search_locations) or ()
    files = [Path(folder) / name for folder in list(folders)[:1] for name in _FILES[viewer]]
    return files if all(file.is_file() for file in files) else []


def _packed(files: list[Path]) -> bytes:
    return pack("\n;\n".join(file.read_text(encoding="utf-8") for file in files)) if files else b""


def _packed_vega() -> bytes:
    try:
        version = re.sub(r"[^\w.]", "-", metadata.version(PACKAGES["vega"]))
    except metadata.PackageNotFoundError:
        return b""
    kept = home() / "cache" / f"vega-{version}.js.gz"
    if kept.is_file():
        return kept.read_bytes()
    # In a process of its own, with -P: a module of this name in the notebook's folder may have come
    # from the machine.
    command = [sys.executable, "-P", "-c", _MAKE_VEGA]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=MAKE_SECONDS, check=True, encoding="utf-8"
        )
    except (OSError, subprocess.SubprocessError):
        return b""
    packed = pack(done.stdout)
    durable.write(kept, packed)
    return packed
