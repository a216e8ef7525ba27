"""Remote cells that have ended and that no page is known to show yet."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

MOST_CELLS = 10
"""So many are kept, the latest ones."""


@dataclass(frozen=True, slots=True)
class EndedCell:
    """A cell that ran on a machine.

    Attributes
    ----------
    id
        The notebook's id of the cell.
    mark
        A text in its badge's HTML, by which a page sees whether the badge arrived.
    outputs
        All that the cell shows now, in nbformat's form, its badge last.
    """

    id: str
    mark: str
    outputs: tuple[dict[str, Any], ...]


class EndedCells:
    """The latest run of each cell, until a page shows it. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cells: dict[str, EndedCell] = {}

    def add(self, cell: EndedCell) -> None:
        """Keep a cell, in place of its earlier run."""
        with self._lock:
            self._cells.pop(cell.id, None)
            self._cells[cell.id] = cell
            while len(self._cells) > MOST_CELLS:
                del self._cells[next(iter(self._cells))]

    def marks(self) -> list[dict[str, str]]:
        """What pages are asked for: each cell and its mark."""
        with self._lock:
            return [{"cell": cell.id, "mark": cell.mark} for cell in self._cells.values()]

    def find(self, id: str, mark: str) -> EndedCell | None:
        """This run of a cell; None if it is not kept."""
        with self._lock:
            cell = self._cells.get(id)
        return cell if cell is not None and cell.mark == mark else None

    def begins(self, id: str) -> None:
        """Forget a cell that runs again: its earlier outputs must not come over the new ones."""
        with self._lock:
            self._cells.pop(id, None)

    def seen(self, id: str, mark: str) -> None:
        """Forget this run of a cell: a page shows it, and what a person clears stays cleared."""
        with self._lock:
            if (cell := self._cells.get(id)) is not None and cell.mark == mark:
                del self._cells[id]
