"""Facts as the plain values of a message to the page."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any


def plain_fields(facts: Any) -> dict[str, Any]:
    """Return the fields of facts by name, and those of facts in them.

    `dataclasses.asdict` copies every value, which took half the time of a panel's change. Facts
    are frozen, so that nothing of them need be copied.

    Parameters
    ----------
    facts
        A frozen dataclass of texts, numbers, tuples, and such dataclasses.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Point:
    ...     x: int
    >>> @dataclass(frozen=True)
    ... class Line:
    ...     points: tuple[Point, ...]
    >>> plain_fields(Line((Point(1), Point(2))))
    {'points': ({'x': 1}, {'x': 2})}
    """
    return {name: _plain(getattr(facts, name)) for name in _names(facts.__class__)}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_plain(one) for one in value)
    return plain_fields(value) if _names(value.__class__) else value


@cache
def _names(kind: type) -> tuple[str, ...]:
    """The names of a dataclass's fields; none for another type."""
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()
