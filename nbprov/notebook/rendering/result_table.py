"""A table with a heading and lines below it, as text and as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .tables import Column, html_heading, html_lines, html_page, html_table, text_table


class Sheet:
    """A table with a heading and lines below it, in both forms; the data it shows stays at hand.

    Parameters
    ----------
    data
        What the table was made of: its attributes are the sheet's, so that `x = %nbprov catalog diff` and then `x.to_frame()` work.
    """

    def __init__(
        self,
        heading: str,
        columns: Sequence[Column],
        rows: Sequence[Sequence[str]],
        lines: Sequence[str],
        data: Any,
    ) -> None:
        self.heading, self.columns, self.rows, self.lines, self.data = (
            heading,
            columns,
            rows,
            lines,
            data,
        )

    def text(self) -> str:
        """As text."""
        table = text_table(self.columns, self.rows) if self.rows else []
        return "\n".join([self.heading, *table, *self.lines])

    def html(self) -> str:
        """As HTML that every viewer shows."""
        return html_page(
            html_heading(self.heading),
            html_table(self.columns, self.rows) if self.rows else "",
            html_lines(self.lines),
        )

    def bundle(self) -> dict[str, str]:
        """Both, by MIME type."""
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
