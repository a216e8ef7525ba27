"""Turn outputs of a machine into Jupyter messages that are safe to publish.

A machine may be anybody's: a host of a marketplace, or an image from the web. Only text, tables
that were rebuilt, JSON and raster pictures are placed in the page. Whatever a program draws is put
beside them as a `Frame`, which nothing in a page draws by itself.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypedDict

from .html import inert_html, is_program, not_typeset
from .tex import is_harmless_tex
from .text import clean_text

Bundle = dict[str, Any]

RICH_LIMIT = 16_000_000
"""Characters of one form of an output.

A large figure has 2 million; a page that shows much more stops responding.
"""

MOST_TYPESET = 50_000
"""Characters of Markdown or a formula that a page is given to set.

Each is set in one step in which the page hears nothing, and 16 MB of braces take it minutes.
"""

_PICTURES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*\Z")
_DATA = "application/json"
"""JupyterLab draws it as text of React elements, without links."""
_MAP = "application/geo+json"
"""Map viewers write the properties of a feature into the page as HTML, so its data is shown."""
_PLOTLY = re.compile(r"application/vnd\.plotly\.v\d+\+json\Z")
_VEGA = re.compile(r"application/vnd\.(vega|vegalite)\.v\d{1,2}(?:\.\d{1,2}){0,2}\+json\Z")
_BOKEH, _BOKEH_LOAD = (f"application/vnd.bokehjs_{name}.v0+json" for name in ("exec", "load"))
_SCRIPT, _SVG, _HTML = "application/javascript", "image/svg+xml", "text/html"
_WIDGET = "application/vnd.jupyter.widget-view+json"
_ACTIVE_MARKDOWN = re.compile(r"[<&]|\]\s*[(\[:]")
"""HTML, entities and links."""
_FENCE = re.compile(r"(?:```|~~~)[`~]*[^\S\r\n]*")
_LANGUAGES = frozenset(("bash", "console", "json", "python", "sh", "sql", "text", "yaml"))
"""Languages of code that nothing draws; others may have a viewer (JupyterLab runs Mermaid)."""
LONGEST_LANGUAGE = 20
"""Characters after a fence that are read; the longest language on the list has 7."""
_NOT_RUN = "[JavaScript from the machine: not run, since it would act in this page]"
_NOT_LOADED = (
    "[BokehJS from the machine: not loaded; figures are drawn by the bokeh installed here]"
)
_LEFT_OUT = "[an output of {size:,.0f} MB from the machine was left out]"
_NO_VIEWER = "[{names}: not shown, since the viewer is a program that could act in this page]"


class Frame(TypedDict):
    """An output that a program draws, and that may stand in a frame only.

    Attributes
    ----------
    viewer
        `plotly`, `vega`, `bokeh`, `html`, or `still` for HTML of which nothing may run.
    name
        What it is called: the viewer, or `svg`.
    page
        What the viewer gets: JSON, JavaScript or HTML.
    """

    viewer: str
    name: str
    page: str


class SafeOutput(NamedTuple):
    """The forms of an output that may be placed in a page, and what is left for a frame."""

    data: Bundle
    frame: Frame | None


def safe_content(kind: str, content: Any, namespace: str) -> Bundle:
    """Return the content of a message without anything active; `frame` holds what a frame may draw.

    Parameters
    ----------
    kind
        `display_data`, `update_display_data`, `execute_result` or `clear_output`.
    namespace
        Identifies the sender, whose display ids cannot meet those of others.
    """
    content = content if isinstance(content, Mapping) else {}
    if kind == "clear_output":
        return {"wait": content.get("wait") is True}
    data, frame = safe_output(content.get("data"))
    safe: Bundle = {
        "data": data,
        "metadata": safe_metadata(content.get("metadata")),
        "transient": {},
    }
    if frame is not None:
        safe["frame"] = frame
    transient = content.get("transient")
    if isinstance(transient, Mapping) and isinstance(transient.get("display_id"), str):
        safe["transient"] = {"display_id": foreign_id(namespace, transient["display_id"])}
    return safe


def foreign_id(namespace: str, display_id: str) -> str:
    """Return a display id that belongs to one sender and to nobody else's displays."""
    return (
        "nbprov-there-"
        + hashlib.sha256(f"{namespace}\0{display_id}".encode("utf-8", "replace")).hexdigest()[:32]
    )


def safe_output(data: Any) -> SafeOutput:
    """Return one output split into its harmless forms and the one that a program draws."""
    whole, notes = _readable(data)
    safe: Bundle = {}
    for mime, value in whole.items():
        safe.update(_form(mime, value))
    frame = next((found for make in _FRAMES if (found := make(whole)) is not None), None)
    notes += _unseen(whole, set(safe), frame)
    if notes:
        safe["text/plain"] = "\n".join([*notes, *filter(None, [safe.get("text/plain")])])
    if not safe:
        kinds = ", ".join(_names(data if isinstance(data, Mapping) else {}))
        safe["text/plain"] = (
            f"[an output from the machine in a form that is not shown: {kinds}]"
            if frame is None
            else ""
        )
    return SafeOutput(safe, frame)


def safe_data(data: Any) -> Bundle:
    """Return the forms of an output that may be placed in a page."""
    return safe_output(data).data


def _readable(data: Any) -> tuple[Bundle, list[str]]:
    """Return the forms that are not too large, and notes about those that are."""
    whole: Bundle = {}
    notes: list[str] = []
    for mime, value in (data if isinstance(data, Mapping) else {}).items():
        value = _whole(value)
        size = _size(value)
        if size > RICH_LIMIT:
            notes.append(_LEFT_OUT.format(size=size / 1e6))
        elif isinstance(mime, str):
            whole[mime] = value
    return whole, notes


def _unseen(whole: Bundle, shown: set[str], frame: Frame | None) -> list[str]:
    """Return notes about forms that are dropped where nothing but text is left."""
    if frame is not None or shown - {"text/plain"}:
        return []
    if _BOKEH_LOAD in whole:
        return [_NOT_LOADED]
    if _SCRIPT in whole:
        return [_NOT_RUN]
    viewers = [mime for mime in whole if mime not in (*shown, _WIDGET) and "vnd." in mime]
    return [_NO_VIEWER.format(names=", ".join(_names(viewers)))] if viewers and shown else []


def _names(mimes: Iterable[Any]) -> list[str]:
    return [re.sub(r"[^\w.+/-]", "?", str(mime))[:60] for mime in list(mimes)[:5]] or ["none"]


def _whole(value: Any) -> Any:
    """Replace halves of surrogate pairs in a value, which no message can carry."""
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        sound = text.encode("utf-8", "replace").decode()
        return value if sound == text else sound if isinstance(value, str) else json.loads(sound)
    except (TypeError, ValueError, RecursionError):
        return None


def _size(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    try:
        return len(json.dumps(value))
    except (TypeError, ValueError, RecursionError):
        return RICH_LIMIT + 1


def _plotly_frame(whole: Bundle) -> Frame | None:
    for mime, figure in whole.items():
        if _PLOTLY.match(mime) and isinstance(figure, Mapping):
            return Frame(viewer="plotly", name="plotly", page=json.dumps(figure))
    return None


def _vega_frame(whole: Bundle) -> Frame | None:
    for mime, chart in whole.items():
        form = _VEGA.match(mime)
        if form is not None and isinstance(chart, Mapping):
            mode = "vega" if form[1] == "vega" else "vega-lite"
            page = json.dumps({"mode": mode, "spec": chart})
            return Frame(viewer="vega", name="vega", page=page)
    return None


def _bokeh_frame(whole: Bundle) -> Frame | None:
    script = whole.get(_SCRIPT)
    if _BOKEH not in whole or not isinstance(script, str):
        return None
    return Frame(viewer="bokeh", name="bokeh", page=script)


def _html_frame(whole: Bundle) -> Frame | None:
    page = whole.get(_HTML)
    if not isinstance(page, str) or inert_html(page) is not None:
        return None
    viewer = "html" if is_program(page) else "still"
    return Frame(viewer=viewer, name=viewer, page=page)


def _svg_frame(whole: Bundle) -> Frame | None:
    picture = whole.get(_SVG)
    if not isinstance(picture, str) or whole.keys() & {*_PICTURES, _HTML}:
        return None
    # Browsers run no script and load nothing within a picture.
    coded = base64.b64encode(picture.encode("utf-8", "replace")).decode("ascii")
    page = f'<img src="data:image/svg+xml;base64,{coded}" style="max-width: 100%">'
    return Frame(viewer="still", name="svg", page=page)


_FRAMES = (_plotly_frame, _vega_frame, _bokeh_frame, _html_frame, _svg_frame)


def _form(mime: str, value: Any) -> Bundle:
    """Return one form as it may be placed in a page; nothing if it may not be."""
    if mime == _DATA:
        return {mime: value}
    if mime == _MAP:
        return {_DATA: value}
    if not isinstance(value, str):
        return {}
    if mime == "text/plain":
        return {mime: clean_text(value)}
    if mime == _HTML:
        rebuilt = inert_html(value)
        return {} if rebuilt is None else {mime: not_typeset(rebuilt)}
    if mime in _PICTURES:
        return {mime: value} if _BASE64.match(value) else {}
    if mime == "text/latex":
        # In TeX two backslashes are a command of their own; in Markdown they become one.
        is_set = len(value) <= MOST_TYPESET and is_harmless_tex(value.replace(r"\\", " "))
        return {mime: clean_text(value)} if is_set else {}
    if mime == "text/markdown":
        return _markdown(value)
    return {}


def _markdown(text: str) -> Bundle:
    cleaned = clean_text(text)
    if (
        len(cleaned) <= MOST_TYPESET
        and not _ACTIVE_MARKDOWN.search(cleaned)
        and not _opens_viewer(cleaned)
        and is_harmless_tex(cleaned)
    ):
        return {"text/markdown": cleaned}
    # Markdown may hold HTML and links of any kind, or be too long: its source is shown.
    source = html.escape(cleaned, quote=False)
    return {_HTML: not_typeset(f'<pre style="white-space: pre-wrap">{source}</pre>')}


def _opens_viewer(text: str) -> bool:
    """Return whether a text may hold code in a language that a viewer of its own draws."""
    for fence in _FENCE.finditer(text):
        after = text[fence.end() : fence.end() + LONGEST_LANGUAGE]
        if after[:1].strip() and after.split(maxsplit=1)[0] not in _LANGUAGES:
            return True
    return False


def safe_metadata(metadata: Any) -> Bundle:
    """Return the displayed sizes of pictures, the only metadata that a machine may give."""
    safe: Bundle = {}
    for mime, values in (metadata if isinstance(metadata, Mapping) else {}).items():
        if mime in _PICTURES and isinstance(values, Mapping):
            kept = {
                key: values[key]
                for key in ("width", "height")
                if type(values.get(key)) in (int, float) and 0 < values[key] < 20_000
            }
            if kept:
                safe[mime] = kept
    return safe


def safe_page(data: Any) -> str:
    """Return the text that `x?` shows."""
    return clean_text(data.get("text/plain")) if isinstance(data, Mapping) else ""
