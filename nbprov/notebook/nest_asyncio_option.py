"""nest_asyncio for a user's own nested loops, on request only."""

from __future__ import annotations

from nbprov.model.errors import UsageError


def apply() -> None:
    """Patch asyncio for nested use.

    Notes
    -----
    The library is archived, swaps `asyncio.run` for the whole process and cannot patch uvloop. nbprov never needs it.

    Raises
    ------
    UsageError
        If it is not installed, or the running loop cannot be patched.
    """
    try:
        import nest_asyncio
    except ImportError:
        raise UsageError(
            "nest_asyncio is not installed", hint="pip install 'nbprov[nest]'", code="nest.missing"
        ) from None
    try:
        nest_asyncio.apply()
    except ValueError as error:
        raise UsageError(
            f"nest_asyncio cannot patch this loop: {error}",
            hint="nbprov itself works without it",
            code="nest.refused",
        ) from None
