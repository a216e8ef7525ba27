"""Put outputs of machines that need a program into the HTML form of a message.

The HTML holds what can be shown without a program, the output itself in base64, and a script of
ours that makes the frame. Where no script runs (a notebook that is not trusted, a viewer of files)
the static part is what a reader sees.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from functools import cache
from typing import Any

from nbprov.machines.sanitize.display_data import Frame
from nbprov.notebook import widget_assets

from .viewer_libraries import PACKAGES, library_of, pack

Bundle = dict[str, Any]

MODES = ("ask", "on", "off")

NAMES = {
    "plotly": "plotly figure",
    "vega": "Vega chart",
    "bokeh": "Bokeh figure",
    "html": "HTML with a program",
    "still": "HTML with styles",
    "svg": "SVG picture",
}

STATIC_TEXT = 20_000
"""Characters of an output's text that are shown in place of its frame."""

_PAGE, _SHELL, _DRAWING = "frame_page.js", "frame_shell.js", "frame_drawing.js"
_POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:;"
    " font-src data:; media-src data: blob:; connect-src data: blob:; frame-src 'none';"
    " worker-src blob:; object-src 'none'; form-action 'none'; base-uri 'none'"
)


class FrameRenderer:
    """Renders the frames of one cell.

    A library is large, so only the first output of a cell that needs it carries it.

    Parameters
    ----------
    mode
        The option `frames`: `ask`, `on` or `off`.
    """

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self._carried: set[str] = set()

    def render(self, data: Bundle, frame: Frame) -> Bundle:
        """Return the forms of a message with the frame as its HTML."""
        name = NAMES[frame["name"]]
        viewer = frame["viewer"]
        static = _static_part(data)
        library = library_of(viewer) if viewer in PACKAGES and self._mode != "off" else None
        if self._mode == "off":
            why = f"{name}: not shown, since %config Nbprov.frames is 'off'"
        elif viewer in PACKAGES and library is None:
            why = f"{name}: to see it, install {PACKAGES[viewer]} here and run the cell again"
        else:
            return {**data, "text/html": self._framed(static, name, frame, library)}
        return {**data, "text/html": f"<div>{static}{_line(why)}</div>"}

    def _framed(self, static: str, name: str, frame: Frame, library: Any) -> str:
        carrier = ""
        if library is not None and library.digest not in self._carried:
            self._carried.add(library.digest)
            carrier = (
                f'<div hidden data-nbprov-library="{library.digest}"'
                f' data-code="{library.packed}"></div>'
            )
        # Nothing of a still output runs, so there is nothing to ask.
        mode = "on" if frame["viewer"] == "still" else self._mode
        payload = json.dumps({"viewer": frame["viewer"], "page": frame["page"]})
        return (
            f'{carrier}<div class="mathjax_ignore tex2jax_ignore" data-nbprov-frame="{mode}"'
            f' data-name="{name}" data-library="{library.digest if library else ""}"'
            f' data-payload="{base64.b64encode(pack(payload)).decode("ascii")}">'
            f"{static}{_line(f'{name}: shown where this notebook is trusted')}</div>"
            f"<script>{_page_script()}</script>"
        )


def _line(text: str) -> str:
    return f'<div style="opacity: 0.8">[{html.escape(text, quote=False)}]</div>'


def _static_part(data: Bundle) -> str:
    """Return what the other forms of an output show without a program."""
    for mime in ("image/png", "image/jpeg", "image/webp", "image/gif"):
        if mime in data:
            return f'<div><img src="data:{mime};base64,{"".join(data[mime].split())}"></div>'
    if "text/html" in data:
        return f"<div>{data['text/html']}</div>"
    text = str(data.get("text/plain", ""))[:STATIC_TEXT]
    return f'<div><pre style="white-space: pre-wrap">{html.escape(text, quote=False)}</pre></div>'


@cache
def _page_script() -> str:
    """Return the script of ours that stands in the page."""
    shell = _in_script(_shell())
    return f"(() => {{{_code(_PAGE)}mountFrames({shell});document.currentScript?.remove()}})()"


@cache
def _shell() -> str:
    """Return the document of the outer frame."""
    drawing = f"(() => {{{_code(_DRAWING)}drawOutput()}})()"
    still = _POLICY.format(scripts=_hash_of(drawing))
    relay = f"{_code(_SHELL)}relayFrame({_in_script(drawing)}, {_in_script(still)})"
    policy = _POLICY.format(scripts=f"{_hash_of(relay)} {_hash_of(drawing)} 'unsafe-eval'")
    return (
        '<!doctype html><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<body><script>{relay}</script>"
    )


def _code(name: str) -> str:
    return widget_assets.module((name,))


def _in_script(text: str) -> str:
    """Return a text as a literal that may stand in a script element."""
    return json.dumps(text).replace("<", "\\u003c")


def _hash_of(script: str) -> str:
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
