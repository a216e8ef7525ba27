"""Bounds on what a machine's bytes may become here: memory, time, and hashing.

A few bytes may stand for much: an operation of one byte makes a set of 216, one array may be
referred to a thousand times, and keys that hash alike make each insertion visit all others, which
no Ctrl-C stops. So everything is counted before it is made.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from nbprov.model.clock import Seconds

from .value_builders import MOST_ALIKE, NotPlain

MOST_BUILT = 1_000_000_000
"""Bytes that one variable may take here; a machine sends at most a tenth, packed."""
MOST_SECONDS: Seconds = 120.0
"""How long one variable may take to read: 100 MB of small numbers take a quarter on a slow laptop.
"""
MOST_HASHED = 5_000_000
"""Parts of the tuples that are hashed at once: 0.1 s, in which no Ctrl-C is heard."""
STEP = 1_000_000
"""Parts that are looked at in one step, of some 30 ms: Ctrl-C is heard between two of them."""
DEEPEST = 200
"""Levels of nested tuples, lists and arrays of objects.

Hashing and freeing them takes a level of the C stack for each, which nothing guards.
"""
ITEM = 64
"""Bytes that are counted for a part of a built value: an object and the reference to it."""


def too_much() -> NotPlain:
    """Return the refusal of a value that is made to take more than it should."""
    return NotPlain("it is made to take more room than it should, or more time")


class DecodeLimits:
    """Counts what the reading of one variable has made so far."""

    def __init__(self) -> None:
        self._left = MOST_BUILT
        self._end = time.monotonic() + MOST_SECONDS
        self._alike: Counter[tuple[int, int]] = Counter()

    def charge(self, size: int) -> None:
        """Count bytes that are about to be taken.

        Raises
        ------
        NotPlain
            If they are too many, or it has taken too long.
        """
        self._left -= size
        if self._left < 0 or time.monotonic() > self._end:
            raise too_much()

    def keys(self, container: int, keys: Iterable[Any], parts: int) -> None:
        """Look at keys before they are put into a container, which is told apart by a number.

        Parameters
        ----------
        parts
            The parts of all of them, counted as often as they are hashed.
        """
        if parts > MOST_HASHED:
            raise too_much()
        for key in keys:
            if type(key) is str or type(key) is bytes:
                continue  # each process hashes them its own way, so nobody can choose them alike
            mark = container, hash(key)
            self._alike[mark] += 1
            if self._alike[mark] > MOST_ALIKE:
                raise too_much()


def are_all(kinds: frozenset[object], parts: Sequence[Any]) -> bool:
    """Return whether all parts are of these types, such as a million numbers."""
    return all(
        kinds.issuperset(map(type, parts[start : start + STEP]))
        for start in range(0, len(parts), STEP)
    )


def are_none(kinds: frozenset[object], parts: Sequence[Any]) -> bool:
    """Return whether no part is of these types."""
    return all(
        kinds.isdisjoint(map(type, parts[start : start + STEP]))
        for start in range(0, len(parts), STEP)
    )


def weight_of(value: Any) -> tuple[int, int]:
    """Return the bytes and the parts of plain data, shared parts counted each time.

    Raises
    ------
    NotPlain
        If it is nested too deeply, or in itself.
    """
    return _weight(value, {}, 0)


_WEIGHING = frozenset({bytes, bytearray, str, dict, tuple, list})


def _weight(value: Any, known: dict[int, tuple[int, int]], depth: int) -> tuple[int, int]:
    if isinstance(value, bytes | bytearray | str):
        return len(value) + ITEM, 1
    if isinstance(value, dict):
        return len(value) * 2 * ITEM + ITEM, len(value) * 2
    if not isinstance(value, tuple | list):
        return ITEM, 1
    found = known.get(id(value))
    if found is None:
        if depth > DEEPEST:
            raise too_much()
        size, parts = ITEM * (1 + len(value)), 1 + len(value)
        if not are_none(_WEIGHING, value):
            for part in value:
                if type(part) in _WEIGHING:
                    more = _weight(part, known, depth + 1)
                    size, parts = size + more[0], parts + more[1]
        found = known[id(value)] = size, parts
    return found
