"""Find the options of the magics in a shell."""

from __future__ import annotations

from typing import Any


def options_of(shell: Any) -> Any:
    """Return the configurable object behind `%config Nbprov`."""
    return next(made for made in shell.configurables if type(made).__name__ == "Nbprov")
