"""Which clouds there are: looked up by entry point `nbprov.clouds`, imported when first used."""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from threading import Lock

from nbprov.model.errors import NotFound

from .base import Cloud

ENTRY_POINT_GROUP = "nbprov.clouds"

_lock = Lock()
_made: dict[str, Cloud] = {}


def _points() -> dict[str, EntryPoint]:
    return _found(tuple(sys.path))


@lru_cache(maxsize=4)
def _found(path: tuple[str, ...]) -> dict[str, EntryPoint]:
    # Reading all entry points takes some 40 ms: most of a warm plan. What is installed later is seen once `sys.path` or the process changes.
    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}


def names() -> tuple[str, ...]:
    """The clouds that have an adapter, sorted; nothing is imported."""
    return tuple(sorted(_points()))


def get(name: str) -> Cloud:
    """The adapter of a cloud; one object a process.

    Raises
    ------
    NotFound
        If no adapter has this name.
    """
    with _lock:
        if name not in _made:
            point = _points().get(name)
            if point is None:
                raise NotFound(
                    f"no cloud is called {name!r}",
                    hint=f"clouds with an adapter: {', '.join(names())}",
                    code="cloud.unknown",
                )
            factory = point.load()
            _made[name] = factory()
        return _made[name]
