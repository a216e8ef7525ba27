"""What a load finds and does, as it is shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from nbprov.model.text.plain import printable


@dataclass(slots=True)
class ReconcileReport:
    """What was found at load and what became of it, one line each.

    A line is replaced as things settle.
    """

    lines: dict[str, str] = field(default_factory=dict)
    on_change: Callable[[], None] = lambda: None

    def say(self, key: str, text: str) -> None:
        """Set the line of one run or machine."""
        self.lines[key] = printable(text)
        self.on_change()

    def __str__(self) -> str:
        return "\n".join(self.lines.values())
