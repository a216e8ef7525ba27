"""The table that a command returns as a cell's value: a heading, rows, and lines below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .tables import Column, html_heading, html_lines, html_page, html_table, safe_text, text_table


class ResultTable:
    """A table with a heading and lines below it, shown as text or as HTML.

    Parameters
    ----------
    data
        What the table was made from. Its attributes are also attributes of the table, so that
        `x = %nbprov catalog diff` and then `x.to_frame()` work.
    """

    def __init__(
        self,
        heading: str,
        columns: Sequence[Column],
        rows: Sequence[Sequence[str]],
        lines: Sequence[str],
        data: Any,
    ) -> None:
        self.heading = heading
        self.columns = columns
        self.rows = rows
        self.lines = lines
        self.data = data

    def text(self) -> str:
        """Return the table as text."""
        table = text_table(self.columns, self.rows) if self.rows else []
        return safe_text("\n".join([self.heading, *table, *self.lines]))

    def html(self) -> str:
        """Return the table as HTML that every viewer shows."""
        return html_page(
            html_heading(self.heading),
            html_table(self.columns, self.rows) if self.rows else "",
            html_lines(self.lines),
        )

    def bundle(self) -> dict[str, str]:
        """Return both forms, by MIME type."""
        return {"text/plain": self.text(), "text/html": self.html()}

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return self.bundle()

    def __repr__(self) -> str:
        return self.text()

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Any:
        return iter(self.data)

    def __getitem__(self, index: Any) -> Any:
        return self.data[index]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.data, name)
