"""What nbprov prints: every line passes the cleaner, since much of it was written by others."""

from __future__ import annotations

from nbprov.model.text.plain import printable


def say(*parts: object, sep: str = " ", end: str = "\n", flush: bool = False) -> None:
    """Print as `print` does, without anything that controls a terminal."""
    print(printable(sep.join(map(str, parts))), end=end, flush=flush)
