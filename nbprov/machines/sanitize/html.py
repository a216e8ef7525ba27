"""HTML that a machine sent: what is only text and tables is rebuilt from a short list of what is harmless, all else goes into a frame of its own.

A page that shows a notebook can do whatever its owner can: run code in the kernel, read files. So nothing that a machine wrote may run in it, follow
the page's addresses, or lie over what belongs to somebody else.
"""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from itertools import islice

FRAME_PIXELS = 420
"""Height of a frame. It can be drawn larger; asking its content would take a script of ours in the page."""

READ_LIMIT = 1_000_000
"""Characters up to which HTML is read and rebuilt, a third of a second's work; what is longer goes into a frame unread."""

MOST_TORN = 50
"""Signs `<` without a `>` before the next one: for each of them the parser looks through all that follows."""

DEEPEST = 200
"""Levels of elements: browsers close what is deeper in ways of their own."""

_TAGS = frozenset(
    [
        "a",
        "abbr",
        "b",
        "bdi",
        "blockquote",
        "br",
        "caption",
        "center",
        "cite",
        "code",
        "col",
        "colgroup",
        "dd",
        "del",
        "details",
        "dfn",
        "div",
        "dl",
        "dt",
        "em",
        "figcaption",
        "figure",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "i",
        "img",
        "ins",
        "kbd",
        "li",
        "mark",
        "meter",
        "ol",
        "p",
        "pre",
        "progress",
        "q",
        "s",
        "samp",
        "small",
        "span",
        "strong",
        "sub",
        "summary",
        "sup",
        "table",
        "tbody",
        "td",
        "tfoot",
        "th",
        "thead",
        "tr",
        "tt",
        "u",
        "ul",
        "var",
    ]
)
_VOID = frozenset(("br", "col", "hr", "img"))
_ATTRIBUTES = frozenset(
    [
        "align",
        "alt",
        "bgcolor",
        "border",
        "cellpadding",
        "cellspacing",
        "colspan",
        "dir",
        "face",
        "height",
        "high",
        "lang",
        "low",
        "max",
        "min",
        "open",
        "optimum",
        "rowspan",
        "scope",
        "span",
        "start",
        "title",
        "valign",
        "value",
        "width",
    ]
)
_LOST_QUIETLY = frozenset(
    ("class", "id", "role", "tabindex", "name", "target", "rel", "halign", "scoped")
)
_PROPERTIES = frozenset(
    [
        "background",
        "background-color",
        "border",
        "border-bottom",
        "border-collapse",
        "border-color",
        "border-left",
        "border-radius",
        "border-right",
        "border-spacing",
        "border-style",
        "border-top",
        "border-width",
        "color",
        "column-gap",
        "display",
        "empty-cells",
        "flex",
        "flex-direction",
        "flex-wrap",
        "font",
        "font-family",
        "font-size",
        "font-style",
        "font-variant",
        "font-weight",
        "gap",
        "height",
        "justify-content",
        "align-items",
        "letter-spacing",
        "line-height",
        "list-style",
        "list-style-type",
        "margin",
        "margin-bottom",
        "margin-left",
        "margin-right",
        "margin-top",
        "max-height",
        "max-width",
        "min-height",
        "min-width",
        "opacity",
        "overflow",
        "overflow-x",
        "overflow-y",
        "padding",
        "padding-bottom",
        "padding-left",
        "padding-right",
        "padding-top",
        "row-gap",
        "table-layout",
        "text-align",
        "text-decoration",
        "text-indent",
        "text-overflow",
        "text-transform",
        "vertical-align",
        "white-space",
        "width",
        "word-break",
        "word-wrap",
        "overflow-wrap",
    ]
)
_VALUE = re.compile(r"[-\w\s#%.,'\"()]{0,200}\Z")
_CALL = re.compile(r"([\w-]*)\(")
_CALLS = frozenset(("rgb", "rgba", "hsl", "hsla"))
_NEGATIVE = re.compile(r"(?:^|\s)-\s*[\d.]")
_DISPLAYS = frozenset(
    (
        "block",
        "inline",
        "inline-block",
        "flex",
        "inline-flex",
        "none",
        "table",
        "table-row",
        "table-cell",
        "list-item",
    )
)
_DATA_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]*\Z")
_LINK = re.compile(r"(?:https?://|mailto:)[^\s\x00-\x20\x7f]*\Z", re.IGNORECASE)

# pandas puts these rules before every DataFrame; notebooks bring their own, so that nothing is lost with them.
_PANDAS_RULES = re.compile(
    r"(?:\s*\.dataframe\s+(?:tbody|thead|tfoot)?[\w\s:.()-]*\{\s*(?:vertical-align|text-align)\s*:\s*\w+\s*;?\s*\})+\s*\Z"
)

_TORN = re.compile(r"<(?=[^<>]*(?:<|\Z))|<!--")

# TeX in a page is set by MathJax, whose commands can make links and take on names of the page.
_TEX_ACTIVE = re.compile(
    r"\\\s*(?:href|url|style|class|cssId|data|require|def|gdef|edef|let|newcommand|renewcommand|newenvironment|renewenvironment|DeclareMathOperator"
    r"|unicode|mmlToken|bbox|setOptions|definecolor|html\w*|action|toggle|texttip|tooltip|import|input|include\w*|begingroup|csname)(?![a-z])",
    re.IGNORECASE,
)

_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' https: blob: data:; style-src 'unsafe-inline' https: data:; img-src https: data: blob:;"
    " font-src https: data:; media-src https: data: blob:; connect-src https: data: blob:; worker-src blob:; child-src blob: data:; form-action 'none'"
)


class _Active(Exception):
    """Something that is not on the list of what is harmless."""


class _Rebuilder(HTMLParser):
    """Writes anew what it understands. Nothing of the original's markup is copied, so no parser can read it in another way."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.open: list[str] = []
        self.in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "style":
            self.in_style = True
            return
        if tag not in _TAGS or len(self.open) >= DEEPEST:
            raise _Active(tag)
        written = "".join(_attribute(tag, name, value or "") for name, value in attrs)
        if tag == "a" and " href=" in written:
            written += ' target="_blank" rel="noopener noreferrer"'
        self.parts.append(f"<{tag}{written}>")
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag == "style":
            self.in_style = False
        elif tag in self.open:
            while True:
                closed = self.open.pop()
                self.parts.append(f"</{closed}>")
                if closed == tag:
                    return

    def handle_data(self, data: str) -> None:
        if self.in_style:
            if not _PANDAS_RULES.match(data):
                raise _Active("style")
            return
        if _TEX_ACTIVE.search(data):
            raise _Active("tex")
        self.parts.append(html.escape(data.replace("\0", ""), quote=False))

    def handle_decl(self, decl: str) -> None:
        raise _Active("declaration")

    def handle_pi(self, data: str) -> None:
        raise _Active("instruction")

    def unknown_decl(self, data: str) -> None:
        raise _Active("declaration")

    def finish(self) -> str:
        """The whole, every element closed."""
        self.close()
        if self.in_style:
            raise _Active("style")
        self.parts += [f"</{tag}>" for tag in reversed(self.open)]
        whole = "".join(self.parts)
        # Again: what a comment kept apart in the original stands together now.
        if _TEX_ACTIVE.search(whole):
            raise _Active("tex")
        return whole


def _attribute(tag: str, name: str, value: str) -> str:
    if name.startswith(("data-", "aria-")) or name in _LOST_QUIETLY:
        return ""  # Class names, ids and data of a page mean something to it: buttons, dialogs, commands.
    if name == "style":
        return f' style="{html.escape(_style(value))}"'
    if tag == "a" and name == "href":
        if value.startswith("#"):
            return ""
        if not _LINK.match(value):
            raise _Active("link")
    elif tag == "img" and name == "src":
        if not _DATA_PICTURE.match(value):
            raise _Active("picture")
    elif name not in _ATTRIBUTES:
        raise _Active(name)
    return f' {name}="{html.escape(value)}"'


def _style(text: str) -> str:
    kept = []
    for rule in text.split(";"):
        name, _, value = rule.partition(":")
        name, value = name.strip().lower(), value.strip()
        if not name and not value:
            continue
        calls = {found.lower() for found in _CALL.findall(value)}
        if name not in _PROPERTIES or not _VALUE.match(value) or calls - _CALLS:
            raise _Active("style")
        if _NEGATIVE.search(value) or (name == "display" and value.lower() not in _DISPLAYS):
            raise _Active("style")
        kept.append(f"{name}: {value}")
    return "; ".join(kept)


def inert_html(text: str) -> str | None:
    """The HTML rebuilt from what is harmless; None where anything else is in it.

    Examples
    --------
    >>> inert_html("<b onclick=x>a</b>") is None
    True
    >>> inert_html("<table class=dataframe><td>1 < 2")
    '<table><td>1 &lt; 2</td></table>'
    """
    if (
        len(text) > READ_LIMIT
        or sum(1 for _ in islice(_TORN.finditer(text), MOST_TORN + 1)) > MOST_TORN
    ):
        return None
    rebuilder = _Rebuilder()
    try:
        rebuilder.feed(text)
        return rebuilder.finish()
    except (_Active, AssertionError, RecursionError):
        return None


def has_active_tex(text: str) -> bool:
    """Whether TeX would make links, or take on names of the page."""
    return _TEX_ACTIVE.search(text) is not None


def framed(text: str) -> str:
    """HTML in a frame without an origin: its scripts run, and reach neither the page, nor its cookies, nor this computer's own servers."""
    page = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">{text}'
    return (
        f'<iframe sandbox="allow-scripts" referrerpolicy="no-referrer" srcdoc="{html.escape(page)}"'
        f' style="width: 100%; height: {FRAME_PIXELS}px; border: 0; resize: vertical; overflow: auto; background: white"></iframe>'
    )


def safe_html(text: str) -> str:
    """HTML from a machine as it may stand in a page."""
    inert = inert_html(text)
    return framed(text) if inert is None else inert
