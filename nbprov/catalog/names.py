"""Names as people write them, and the names they may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from .errors import AmbiguousName, UnknownName

CLOSE = 0.5
"""How alike a name must be to be worth proposing (`difflib`'s ratio)."""


def resolve(name: str, known: Sequence[str]) -> str:
    """The name in `known` that is meant: the same but for case, else the only one that holds it as a fragment.

    Raises
    ------
    UnknownName, AmbiguousName
        With the close names.

    Examples
    --------
    >>> resolve("a100", ["A100", "A100-80GB"]), resolve("MI300", ["A100", "MI300X"])
    ('A100', 'MI300X')
    """
    low = name.strip().lower()
    if low:
        for candidate in known:
            if candidate.lower() == low:
                return candidate
        holding = sorted(k for k in known if low in k.lower())
        if len(holding) == 1:
            return holding[0]
        if holding:
            raise AmbiguousName(name, holding)
    raise UnknownName(name, close(name, known))


def close(name: str, known: Iterable[str], n: int = 5) -> list[str]:
    """The names most like `name`, best first: those that hold it or that it holds, then by likeness."""
    low = _plain(name)
    if not low:
        return []
    scored = []
    for candidate in known:
        plain = _plain(candidate)
        ratio = difflib.SequenceMatcher(None, low, plain).ratio()
        if low in plain or (len(plain) > 1 and plain in low):
            ratio += 1
        if ratio >= CLOSE:
            scored.append((-ratio, candidate))
    return [candidate for _, candidate in sorted(scored)[:n]]


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())
