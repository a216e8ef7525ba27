"""Match names as people write them to the names that they may have meant."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from nbprov.catalog.errors import AmbiguousName, QueryError, UnknownName

CLOSE = 0.5
"""The least similarity (`difflib`'s ratio) of a name that is proposed."""
LONGEST_PATTERN = 200


def resolve(name: str, known: Sequence[str]) -> str:
    """Return the name in `known` that is meant.

    A name that differs only in case, or in blanks and dashes, comes first, then the only name that
    contains what was written.

    Raises
    ------
    UnknownName, AmbiguousName
        With the close names.

    Examples
    --------
    >>> resolve("a100", ["A100", "A100-80GB"]), resolve("a100 80gb", ["A100", "A100-80GB"])
    ('A100', 'A100-80GB')
    >>> resolve("MI300", ["A100", "MI300X"])
    'MI300X'
    """
    low = name.strip().lower()
    if low:
        for candidate in known:
            if candidate.lower() == low:
                return candidate
        plain = _plain(low)
        alike = [candidate for candidate in known if plain and _plain(candidate) == plain]
        if len(alike) == 1:
            return alike[0]
        holding = sorted(k for k in known if low in k.lower())
        if len(holding) == 1:
            return holding[0]
        if holding:
            raise AmbiguousName(name, holding)
    raise UnknownName(name, close(name, known))


def matching(text: str, known: Sequence[str]) -> list[str]:
    """Return the names that a pattern or a fragment matches, sorted.

    `/A100.*/` is a regular expression that is searched anywhere in the name; `*` and `?` stand for
    any text and any one letter; any other text is an exact name if there is one, else a fragment.

    Raises
    ------
    QueryError
        If the regular expression is not one.

    Examples
    --------
    >>> matching("/^A100/", ["A100", "A100-80GB", "RTXA100"]), matching("h1*", ["H100", "GH100"])
    (['A100', 'A100-80GB'], ['H100'])
    >>> matching("80gb", ["A100", "A100-80GB"])
    ['A100-80GB']
    """
    fits = pattern(text)
    if fits is not None:
        return sorted(name for name in known if fits(name))
    plain = _plain(text)
    exact = [name for name in known if _plain(name) == plain]
    return sorted(exact or (name for name in known if plain and plain in _plain(name)))


def pattern(text: str) -> Callable[[str], object] | None:
    """Return a function that tests names against a pattern; None if the text is a plain name.

    Case is ignored.

    Raises
    ------
    QueryError
        If the regular expression is not one.
    """
    low = text.strip()
    if len(low) > 1 and low.startswith("/") and low.endswith("/"):
        return _compiled(low[1:-1]).search
    if "*" in low or "?" in low:
        return re.compile(fnmatch.translate(low), re.IGNORECASE).match
    return None


@lru_cache(maxsize=256)
def _compiled(expression: str) -> re.Pattern[str]:
    if len(expression) > LONGEST_PATTERN:
        raise QueryError(
            f"a pattern of {len(expression):,} letters is too long",
            hint=f"{LONGEST_PATTERN} are enough for a name",
        )
    try:
        return re.compile(expression, re.IGNORECASE)
    except (re.error, OverflowError, RecursionError) as error:
        raise QueryError(
            f"/{expression}/ is not a regular expression: {error}",
            hint="write /A100.*/, or A100* without slashes",
        ) from error


def close(name: str, known: Iterable[str], n: int = 5) -> list[str]:
    """Return the names most like `name`, best first.

    Names that contain it or that it contains come first, then others by similarity.
    """
    low = _plain(name)
    if not low:
        return []
    scored = []
    for candidate in filter(is_writable, known):
        plain = _plain(candidate)
        ratio = difflib.SequenceMatcher(None, low, plain).ratio()
        if low in plain or (len(plain) > 1 and plain in low):
            ratio += 1
        if ratio >= CLOSE:
            scored.append((-ratio, candidate))
    return [candidate for _, candidate in sorted(scored)[:n]]


def is_writable(name: str) -> bool:
    """Whether a name can be proposed: some marketplaces' places are text such as `, CN, AS`."""
    return name[:1].isalnum()


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())
