"""The clouds with an adapter, found by the entry point `nbprov.clouds` and imported when first
used.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from threading import Lock

from nbprov.model.errors import NotFound
from nbprov.model.failures import Failure

from .base import Cloud

ENTRY_POINT_GROUP = "nbprov.clouds"

_lock = Lock()
_made: dict[str, Cloud] = {}


def _points() -> dict[str, EntryPoint]:
    return _found(tuple(sys.path))


@lru_cache(maxsize=4)
def _found(path: tuple[str, ...]) -> dict[str, EntryPoint]:
    # Reading all entry points takes about 40 ms, most of a warm plan. Packages installed later are
    # found once `sys.path` or the process changes.
    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}


def names() -> tuple[str, ...]:
    """Return the clouds that have an adapter, sorted; nothing is imported."""
    return tuple(sorted(_points()))


def is_external(name: str) -> bool:
    """Tell whether a cloud's adapter comes from another package; nothing is imported."""
    point = _points().get(name)
    return point is not None and not point.module.startswith("nbprov.")


def missing(name: str) -> Failure | None:
    """Return why a cloud cannot be used, without loading its adapter.

    None if it may be usable, or if its package cannot tell. A package tells by a function `missing`
    beside its factory, which reads variables and small files, sends no request and imports little.
    Most people use one or two clouds; the adapters of the others would cost a quarter of the time
    of the first table.

    Raises
    ------
    NotFound
        If no adapter has this name.
    """
    look = getattr(import_module(_point(name).module), "missing", None)
    found: Failure | None = look() if look is not None else None
    return found


def set_up(name: str) -> tuple[str, ...]:
    """Return the commands for a terminal that set a cloud up.

    Empty where its package does not tell. It tells by a constant `SET_UP` beside its factory.

    Raises
    ------
    NotFound
        If no adapter has this name.
    """
    found: tuple[str, ...] = getattr(import_module(_point(name).module), "SET_UP", ())
    return found


def get(name: str) -> Cloud:
    """Return the adapter of a cloud: one object for each process.

    Raises
    ------
    NotFound
        If no adapter has this name.
    """
    with _lock:
        if name not in _made:
            factory = _point(name).load()
            _made[name] = factory()
        return _made[name]


def _point(name: str) -> EntryPoint:
    point = _points().get(name)
    if point is None:
        raise NotFound(
            f"no cloud is called {name!r}",
            hint=f"clouds with an adapter: {', '.join(names())}",
            code="cloud.unknown",
        )
    return point
