"""A shell for testing magics: without history and colours, and a cell's error is raised here."""

from __future__ import annotations

from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config


class TestingShell(InteractiveShell):
    """An `InteractiveShell` whose `run_cell` raises what the cell raised."""

    __test__ = False

    def __init__(self) -> None:
        config = Config()
        config.HistoryManager.enabled = False
        config.InteractiveShell.colors = "nocolor"
        super().__init__(config=config)

    def run_cell(self, *arguments: Any, **options: Any) -> Any:
        result = super().run_cell(*arguments, **options)
        result.raise_error()
        return result

    def showtraceback(self, *arguments: Any, **options: Any) -> None:
        """Show nothing, because the error is raised."""
