"""Turn outputs of a machine into Jupyter messages that are safe to publish.

A machine may be anybody's: a host of a marketplace, or an image from the web. Its data and
pictures are shown; nothing that it sends runs in the page.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from typing import Any

from .html import framed, has_active_tex, safe_html
from .text import clean_text

Bundle = dict[str, Any]

RICH_LIMIT = 16_000_000
"""Characters of one form of an output.

A large figure has 2 million; a page that shows much more stops responding.
"""

_PICTURES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*\Z")
# Forms whose viewers run nothing of their data. Others do: `application/vnd.bokehjs_exec…` is a
# program, and map viewers write the properties of a GeoJSON into the page as HTML.
_DATA = re.compile(
    r"application/json\Z"
    r"|application/vnd\.(?:plotly\.v\d+|dataresource|nteract\.data-explorer)\+json\Z"
)
_MAP = "application/geo+json"
_VEGA = re.compile(r"application/vnd\.(vega|vegalite)\.v(\d{1,2})(?:\.\d{1,2}){0,2}\+json\Z")
_ACTIVE_MARKDOWN = re.compile(r"[<&]|\]\s*[(\[:]")
_NOT_RUN = "[JavaScript from the machine: not run, since it would act in this page]"
_LEFT_OUT = "[an output of {size:,.0f} MB from the machine was left out]"


def safe_content(kind: str, content: Any, namespace: str) -> Bundle:
    """Return the content of a message without anything active.

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
    safe: Bundle = {
        "data": safe_data(content.get("data")),
        "metadata": safe_metadata(content.get("metadata")),
        "transient": {},
    }
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


def safe_data(data: Any) -> Bundle:
    """Return one output with its active forms made harmless or left out."""
    data = data if isinstance(data, Mapping) else {}
    safe: Bundle = {}
    notes: list[str] = []
    for mime, value in data.items():
        value = _whole(value)
        size = _size(value)
        if size > RICH_LIMIT:
            notes.append(_LEFT_OUT.format(size=size / 1e6))
        elif isinstance(mime, str):
            safe.update(_form(mime, value))
    if "application/javascript" in data and not safe.keys() - {"text/plain"}:
        notes.append(_NOT_RUN)
    picture = data.get("image/svg+xml")
    if isinstance(picture, str) and len(picture) <= RICH_LIMIT:
        safe.setdefault("text/html", _svg(picture))
    for mime, value in data.items():
        chart = _vega(mime, _whole(value)) if isinstance(mime, str) else ""
        if chart and len(chart) <= RICH_LIMIT:
            safe.setdefault("text/html", chart)
    if notes:
        safe["text/plain"] = "\n".join(
            [*notes, *([safe["text/plain"]] if "text/plain" in safe else [])]
        )
    if not safe:
        safe["text/plain"] = (
            "[an output from the machine in a form that is not shown: "
            + ", ".join(_names(data))
            + "]"
        )
    return safe


def _names(data: Mapping[Any, Any]) -> list[str]:
    return [re.sub(r"[^\w.+/-]", "?", str(mime))[:60] for mime in list(data)[:5]] or ["none"]


def _whole(value: Any) -> Any:
    """Replace halves of surrogate pairs in a value, which no message can carry."""
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        sound = text.encode("utf-8", "replace").decode()
        return value if sound == text else sound if isinstance(value, str) else json.loads(sound)
    except (TypeError, ValueError, RecursionError):
        return None


def _vega(mime: str, chart: Any) -> str:
    """Return a Vega chart in a frame without an origin; empty if it is none.

    Such a chart is a program. It loads addresses with the rights of the page, which reach the
    files of the notebook's owner, and its expressions can send what it read elsewhere.
    """
    form = _VEGA.match(mime)
    if form is None or not isinstance(chart, Mapping):
        return ""
    kind, version = form[1].replace("vegalite", "vega-lite"), int(form[2])
    vega = version if kind == "vega" else max(5, version)
    scripts = [
        f"vega@{vega}",
        *([f"vega-lite@{version}"] if kind == "vega-lite" else []),
        f"vega-embed@{7 if vega > 5 else 6}",
    ]
    loaded = "".join(
        f'<script src="https://cdn.jsdelivr.net/npm/{name}"></script>' for name in scripts
    )
    # Within a script, a `</script>` in the JSON would end it.
    told = json.dumps(chart).replace("<", "\\u003c")
    return framed(
        f'{loaded}<div id="chart"></div><script>vegaEmbed("#chart", {told},'
        f' {{"mode": "{kind}", "actions": false}})</script>'
    )


def _size(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    try:
        return len(json.dumps(value))
    except (TypeError, ValueError, RecursionError):
        return RICH_LIMIT + 1


def _form(mime: str, value: Any) -> Bundle:
    """Return one form as it may be shown; nothing if it may not be."""
    if _DATA.match(mime):
        return {mime: value}
    if mime == _MAP:
        return {"application/json": value}
    if not isinstance(value, str):
        return {}
    if mime == "text/plain":
        return {mime: clean_text(value)}
    if mime == "text/html":
        return {mime: safe_html(value)}
    if mime in _PICTURES:
        return {mime: value} if _BASE64.match(value) else {}
    if mime == "text/latex":
        return {} if has_active_tex(value) or "<" in value else {mime: clean_text(value)}
    if mime == "text/markdown":
        return _markdown(value)
    return {}


def _markdown(text: str) -> Bundle:
    if not _ACTIVE_MARKDOWN.search(text) and not has_active_tex(text):
        return {"text/markdown": clean_text(text)}
    # Markdown may hold HTML and links of any kind, so its source is shown.
    return (
        {
            "text/html": '<pre style="white-space: pre-wrap">'
            f"{html.escape(clean_text(text), quote=False)}</pre>"
        }
        if not has_active_tex(text)
        else {}
    )


def _svg(picture: str) -> str:
    # Browsers run no script and load nothing within a picture.
    coded = base64.b64encode(picture.encode("utf-8", "replace")).decode("ascii")
    return f'<img src="data:image/svg+xml;base64,{coded}" style="max-width: 100%">'


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
