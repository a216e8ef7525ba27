"""The options of the magics, by the shell that holds them."""

from __future__ import annotations

from typing import Any


def options_of(shell: Any) -> Any:
    """The configurable object behind `%config Nbprov`."""
    return next(made for made in shell.configurables if type(made).__name__ == "Nbprov")
