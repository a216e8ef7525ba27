"""Rebuild HTML of machines from a short list of harmless elements.

A page that shows a notebook can do whatever the notebook's owner can, such as run code in the
kernel and read files. So nothing that a machine wrote may run in it, load addresses with the
page's rights, or cover what belongs to somebody else. Text and tables are rebuilt in the page;
whatever holds anything else belongs whole into a frame without an origin.

No element is on the list within which browsers read text in another way (`svg`, `math`, `style`,
`noscript`, `template`, `form` and the like), so what is written here cannot change its meaning when
a browser reads it again.
"""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from itertools import islice

READ_LIMIT = 1_000_000
"""Longer HTML goes into a frame unread; reading this much takes a third of a second."""

MOST_TORN = 50
"""Number of `<` without a `>` before the next one; the parser scans all the rest for each."""

DEEPEST = 200
"""Levels of elements; browsers close deeper ones in ways of their own."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TAGS = _names(
    """
    a abbr b bdi blockquote br caption center cite code col colgroup dd del details dfn div dl dt
    em figcaption figure h1 h2 h3 h4 h5 h6 hr i img ins kbd li mark meter ol p pre progress q s
    samp small span strong sub summary sup table tbody td tfoot th thead tr tt u ul var
    """
)
_VOID = frozenset(("br", "col", "hr", "img"))
_ATTRIBUTES = _names(
    """
    align alt bgcolor border cellpadding cellspacing colspan dir face height high lang low max
    min open optimum rowspan scope span start title valign value width
    """
)
_LOST_QUIETLY = _names("class halign id name rel role scoped tabindex target")
"""Attributes that are removed without a frame: they mean something only to a page's programs."""
_PROPERTIES = _names(
    """
    align-items background background-color border border-bottom border-collapse border-color
    border-left border-radius border-right border-spacing border-style border-top border-width
    color column-gap display empty-cells flex flex-direction flex-wrap font font-family font-size
    font-style font-variant font-weight gap height justify-content letter-spacing line-height
    list-style list-style-type margin margin-bottom margin-left margin-right margin-top
    max-height max-width min-height min-width opacity overflow overflow-wrap overflow-x
    overflow-y padding padding-bottom padding-left padding-right padding-top row-gap table-layout
    text-align text-decoration text-indent text-overflow text-transform vertical-align
    white-space width word-break word-wrap
    """
)
LONGEST_VALUE = 200
"""Characters of the value of a style's property; honest ones are a few words."""
_VALUE = re.compile(r"[-\w\s#%.,'\"()]*")
_CALL = re.compile(r"([\w-]*)\(")
_CALLS = frozenset(("rgb", "rgba", "hsl", "hsla"))
_NEGATIVE = re.compile(r"(?:^|\s)-\s*[\d.]")
_DISPLAYS = _names(
    "block contents flex inline inline-block inline-flex list-item none table table-cell table-row"
)
_DATA_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]*\Z")
_LINK = re.compile(r"(?:https?://|mailto:)[^\s\x00-\x20\x7f]*\Z", re.IGNORECASE)

# pandas puts these rules before every DataFrame. They may go, since notebooks style tables too.
# No part of a pattern may take what the next one takes: a match that goes back and forth over a
# machine's text holds the interpreter's lock, and no Ctrl-C is heard.
_PANDAS_SELECTOR = re.compile(r"\s*\.dataframe\s[\w\s:.()-]*")
_PANDAS_ALIGNMENT = re.compile(r"(?:vertical-align|text-align)\s*:\s*\w+\s*;?")

_TORN = re.compile(r"<(?=[^<>]*(?:<|\Z))|<!--")

_PROGRAM = re.compile(
    r"<\s*(?:script|iframe|frame|object|embed)|\bon\w+\s*=|javascript:", re.IGNORECASE
)
_NOT_TYPESET = "mathjax_ignore tex2jax_ignore"
"""The classes of elements in which MathJax 3 and 2 leave TeX alone, which can hold links."""


class _Active(Exception):
    """The HTML holds something that is not on the list of harmless things."""


class _Rebuilder(HTMLParser):
    """Writes HTML anew from what it understands.

    No markup of the original is copied, so no browser can read it in another way.
    """

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
            if not _are_pandas_rules(data):
                raise _Active("style")
            return
        self.parts.append(html.escape(data.replace("\0", ""), quote=False))

    def handle_decl(self, decl: str) -> None:
        raise _Active("declaration")

    def handle_pi(self, data: str) -> None:
        raise _Active("instruction")

    def unknown_decl(self, data: str) -> None:
        raise _Active("declaration")

    def finish(self) -> str:
        """Close every open element and return the whole."""
        self.close()
        if self.in_style:
            raise _Active("style")
        self.parts += [f"</{tag}>" for tag in reversed(self.open)]
        return "".join(self.parts)


def _attribute(tag: str, name: str, value: str) -> str:
    if name.startswith(("data-", "aria-")) or name in _LOST_QUIETLY:
        return ""
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


def _are_pandas_rules(text: str) -> bool:
    """Return whether a style sheet only aligns the text of tables, as that of pandas does."""
    *rules, rest = text.split("}")
    for rule in rules:
        selector, brace, alignment = rule.partition("{")
        if not (brace and _PANDAS_SELECTOR.fullmatch(selector)):
            return False
        if not _PANDAS_ALIGNMENT.fullmatch(alignment.strip()):
            return False
    return bool(rules) and not rest.strip()


def _style(text: str) -> str:
    kept = []
    for rule in text.split(";"):
        name, _, value = rule.partition(":")
        name, value = name.strip().lower(), value.strip()
        if not name and not value:
            continue
        if name not in _PROPERTIES or len(value) > LONGEST_VALUE or not _VALUE.fullmatch(value):
            raise _Active("style")
        if {found.lower() for found in _CALL.findall(value)} - _CALLS:
            raise _Active("style")
        if _NEGATIVE.search(value) or (name == "display" and value.lower() not in _DISPLAYS):
            raise _Active("style")
        kept.append(f"{name}: {value}")
    return "; ".join(kept)


def inert_html(text: str) -> str | None:
    """Return the HTML rebuilt from harmless elements; None if it holds anything else.

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
    except (_Active, AssertionError, RecursionError, ValueError):
        # The parser raises ValueError for `&#` and more digits than Python makes a number of.
        return None


def is_program(text: str) -> bool:
    """Return whether HTML seems to hold a script, which decides how it is offered.

    Where this is wrong, the frame's policy keeps the script from running.
    """
    return _PROGRAM.search(text) is not None


def not_typeset(rebuilt: str) -> str:
    """Return rebuilt HTML so that no page typesets its text as TeX."""
    if "$" not in rebuilt and "\\" not in rebuilt:
        return rebuilt
    return f'<div class="{_NOT_TYPESET}">{rebuilt}</div>'
