"""Apply nest_asyncio for a user's own nested event loops, on request only."""

from __future__ import annotations

from nbprov.model.errors import UsageError


def apply() -> None:
    """Patch asyncio so that event loops can be nested.

    Notes
    -----
    nbprov does not need this. The library is archived, replaces `asyncio.run` for the whole process
    and cannot patch uvloop.

    Raises
    ------
    UsageError
        If the library is not installed, or the running loop cannot be patched.
    """
    try:
        import nest_asyncio
    except ImportError:
        raise UsageError(
            "nest_asyncio is not installed",
            hint="run pip install 'nbprov[nest]'",
            code="nest.missing",
        ) from None
    try:
        nest_asyncio.apply()
    except ValueError as error:
        raise UsageError(
            f"nest_asyncio cannot patch this event loop: {error}",
            hint="nbprov itself works without it",
            code="nest.refused",
        ) from None
