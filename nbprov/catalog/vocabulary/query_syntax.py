"""Price questions as people write them.

`A100:4+`, `80GB+:8`, `nvidia:24GB`, `/A100.*/`, `a100*`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from nbprov.catalog.errors import QueryError, UnknownName

from . import name_matching

_SIZE = re.compile(
    r"^(?:(?P<maker>[a-z]+):)?(?P<size>\d+(?:\.\d+)?)\s*gi?b?(?P<more>\+)?(?::(?P<count>[^:]*))?$",
    re.IGNORECASE,
)
_HINT = "write A100, A100:8, A100:4+, 80GB+, nvidia:24GB:2, A100* or /A100.*/"


@dataclass(frozen=True, slots=True)
class Asked:
    """What was written, taken apart.

    Either `name` (which may be a pattern) or `device_gib` is given.

    Attributes
    ----------
    count
        None: any.
    device_gib, device_at_least
        GB of one device.
    """

    name: str = ""
    count: float | None = None
    count_at_least: bool = False
    device_gib: float | None = None
    device_at_least: bool = False
    maker: str = ""


def read(text: str) -> Asked:
    """Take a demand on accelerators apart.

    Raises
    ------
    QueryError
        If it is in no known form.

    Examples
    --------
    >>> read("A100:4+"), read("80GB+:8").device_at_least
    (Asked(name='A100', count=4.0, count_at_least=True, device_gib=None, device_at_least=False,
    maker=''), True)"""
    said = text.strip()
    if said.startswith("/") and said.rfind("/") > 0:
        end = said.rfind("/") + 1
        name, rest = said[:end], said[end:]
        if rest and not rest.startswith(":"):
            raise QueryError(f"{text!r}: after the pattern stands a count, or nothing", hint=_HINT)
        name_matching.pattern(name)
        return _counted(Asked(name=name), rest[1:] if rest else None, text)
    size = _SIZE.match(said)
    if size is not None:
        if not float(size["size"]) > 0:
            raise QueryError(f"{text!r} is no size of memory", hint=_HINT)
        asked = Asked(
            device_gib=float(size["size"]),
            device_at_least=bool(size["more"]),
            maker=(size["maker"] or "").lower(),
        )
        return _counted(asked, size["count"], text)
    name, colon, count = said.partition(":")
    if not name.strip() or ":" in count:
        raise QueryError(f"{text!r} names no accelerator", hint=_HINT)
    return _counted(Asked(name=name.strip()), count if colon else None, text)


def resolved(asked: Asked, known: Sequence[str], *, fuzzy: bool = False) -> tuple[str, ...]:
    """The names that are meant; empty where the question is about memory.

    Parameters
    ----------
    fuzzy
        A fragment of several names means all of them, instead of being an error.

    Raises
    ------
    UnknownName, AmbiguousName, QueryError
    """
    if not asked.name:
        return ()
    if not fuzzy and name_matching.pattern(asked.name) is None:
        return (name_matching.resolve(asked.name, known),)
    found = name_matching.matching(asked.name, known)
    if not found:
        raise UnknownName(asked.name, name_matching.close(asked.name, known))
    return tuple(found)


def _counted(asked: Asked, text: str | None, whole: str) -> Asked:
    if text is None:
        return asked
    said = text.strip()
    try:
        count = float(said.removesuffix("+"))
    except ValueError:
        count = math.nan
    if not 0 < count < math.inf:
        raise QueryError(f"{whole!r}: the count after the colon is a positive number", hint=_HINT)
    return Asked(
        asked.name, count, said.endswith("+"), asked.device_gib, asked.device_at_least, asked.maker
    )
