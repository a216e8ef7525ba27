"""Tables as aligned text and as plain HTML.

The HTML has no script, style element or caption, so that every viewer of saved notebooks shows it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from nbprov.model.text import plain

TEXT_WIDTH = 118
"""The widest text table, in columns of a terminal."""
LEAST_FLEXIBLE = 12
"""A flexible column is not cut shorter than this."""
GAP = "  "
BETWEEN = " · "
"""Between the parts of a heading."""

# JupyterLab's own table style overrides attributes, so every cell has an inline style. It is kept
# short because it is repeated for each cell.
_TABLE = "border-collapse:collapse"
_CELL = "border:1px solid #999;text-align:{align}"
_TIGHT = ";white-space:nowrap"
_ROOMY = ";min-width:16em"
_GREY = "color:#767676;"  # 4.5 to 1 on white, and more on the dark pages of notebooks


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a static table.

    Attributes
    ----------
    right
        Whether it is aligned to the right, as numbers are.
    flexible
        Whether it may be cut (in text) or wrapped (in HTML) where room is short.
    unbroken
        Whether it is never wrapped, because names with hyphens are hard to read in two lines.
    roomy
        Whether it is wide in HTML, because long texts in a narrow column make every row tall.
    """

    label: str
    right: bool = False
    flexible: bool = False
    unbroken: bool = False
    roomy: bool = False


def width_of(text: str) -> int:
    """Return how many terminal columns a text takes.

    Examples
    --------
    >>> width_of("a100"), width_of("機械")
    (4, 4)
    """
    return sum(
        2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1
        for c in text
    )


def cut(text: str, width: int) -> str:
    """Return the text in at most `width` columns, with an ellipsis where it was longer.

    Examples
    --------
    >>> cut("northamerica", 6)
    'north…'
    """
    if width_of(text) <= width:
        return text
    kept = ""
    for character in text:
        if width_of(kept + character) > width - 1:
            break
        kept += character
    return f"{kept}…"


def one_line(text: str) -> str:
    """Return the text on one line, with single spaces for white space and control characters."""
    return plain.one_line(text)


def safe_text(text: str) -> str:
    """Return the text without control characters, which could move a terminal's cursor."""
    return plain.printable(text).replace("\t", " ")


def text_table(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], *, width: int = TEXT_WIDTH
) -> list[str]:
    """Return the lines of an aligned table: a header, a rule and the rows.

    Where the table is too wide, flexible columns are cut, the widest first.
    """
    cells = [[one_line(c) for c in row] for row in rows]
    widths = [
        max([width_of(column.label), *(width_of(row[i]) for row in cells)])
        for i, column in enumerate(columns)
    ]
    flexible = [i for i, column in enumerate(columns) if column.flexible]
    excess = sum(widths) + len(GAP) * (len(columns) - 1) - width
    for _ in range(excess):
        widest = max(flexible, key=lambda i: widths[i], default=None)
        if widest is None or widths[widest] <= LEAST_FLEXIBLE:
            break
        widths[widest] -= 1
    lines = [_line([c.label for c in columns], columns, widths), GAP.join("─" * w for w in widths)]
    return lines + [_line(row, columns, widths) for row in cells]


def _line(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    parts = []
    for cell, column, width in zip(cells, columns, widths, strict=True):
        text = cut(cell, width)
        room = " " * (width - width_of(text))
        parts.append(room + text if column.right else text + room)
    return GAP.join(parts).rstrip()


def html_text(text: str) -> str:
    """Return the text escaped, and with its dollar signs wrapped where there are several.

    A notebook would otherwise typeset what stands between two of them as a formula. The class on
    the whole block prevents that too, in the viewers that keep classes.

    Examples
    --------
    >>> html_text("$1 & <b>"), html_text("$1 or $2")
    ('$1 &amp; &lt;b&gt;', '<span>$</span>1 or <span>$</span>2')
    """
    escaped = escape(plain.printable(text))
    return escaped.replace("$", "<span>$</span>") if escaped.count("$") > 1 else escaped


def text_heading(parts: Sequence[str], *, width: int = TEXT_WIDTH) -> list[str]:
    """Return the first line of a text form; what has no room continues below it.

    Examples
    --------
    >>> text_heading(["dev: ready", "since noon", "next: run it"], width=26)
    ['dev: ready · since noon', '    next: run it']
    """
    lines = [parts[0]]
    for part in parts[1:]:
        if width_of(f"{lines[-1]}{BETWEEN}{part}") <= width:
            lines[-1] += f"{BETWEEN}{part}"
        else:
            lines.append(f"    {part}")
    return lines


def html_table(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], *, off: Sequence[str] = ()
) -> str:
    """Return a table with inline borders; every cell is escaped.

    Parameters
    ----------
    off
        For each row, why it is grey, which its first cell shows on hover; empty where it is not.
    """

    def is_tight(column: Column, text: str) -> bool:
        if column.unbroken or column.flexible:
            return column.unbroken
        # Most numbers have no place to break at; Firefox breaks `$3.30/h` at its slash.
        return not column.right or "/" in text

    def cell(tag: str, column: Column, text: str, why: str = "", is_first: bool = False) -> str:
        style = (
            (_GREY if why else "")
            + _CELL.format(align="right" if column.right else "left")
            + (_TIGHT if is_tight(column, text) else "")
            + (_ROOMY if column.roomy and tag == "th" else "")
        )
        scope = (
            ' scope="col"' if tag == "th" else f' title="{escape(why)}"' if why and is_first else ""
        )
        return f'<{tag}{scope} style="{style}">{html_text(text)}</{tag}>'

    head = "".join(cell("th", c, c.label) for c in columns)
    reasons = off or [""] * len(rows)
    body = ""
    for row, why in zip(rows, reasons, strict=True):
        cells = zip(columns, row, strict=True)
        body += "<tr>" + "".join(cell("td", c, t, why, not i) for i, (c, t) in enumerate(cells))
        body += "</tr>\n"
    return (
        f'<table border="1" cellpadding="4" style="{_TABLE}">\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n"
    )


def html_lines(lines: Sequence[str]) -> str:
    """Return the lines as paragraphs, escaped and without the empty ones."""
    return "".join(
        f'<p style="margin:2px 0">{html_text(line)}</p>\n' for line in lines if line.strip()
    )


def html_page(*parts: str) -> str:
    """Return the parts of one static display in one block."""
    style = 'class="tex2jax_ignore mathjax_ignore" style="text-align:left"'
    return f"<div {style}>\n{''.join(parts)}</div>"


def html_heading(text: str, *beside: str) -> str:
    """Return the first line of a static display, escaped, with parts that are less prominent."""
    rest = html_text("".join(f"{BETWEEN}{part}" for part in beside))
    return f'<p style="margin:2px 0 6px"><b>{html_text(text)}</b>{rest}</p>\n'


def html_preformatted(text: str) -> str:
    """Return several lines as preformatted text, escaped."""
    return f'<pre style="white-space:pre-wrap">{html_text(text)}</pre>\n' if text.strip() else ""


def more_rows(shown: int, total: int) -> str:
    """Return the line below a table that was cut; empty where nothing was.

    Examples
    --------
    >>> more_rows(20, 40_000)
    '39,980 more rows'
    """
    left = total - shown
    return "" if left <= 0 else f"{left:,} more row{'s' if left > 1 else ''}"
