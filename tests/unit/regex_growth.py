"""Regular expressions of a package, and how their time grows with text that is made to slow them.

A pattern is asked with its own parts: n times a piece that it would take, and an end that it would
not. A pattern that goes back over what it read then takes far more than four times as long for four
times the text. The whole kernel stands still meanwhile, since a match holds the interpreter's lock.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from re import _constants, _parser  # type: ignore[attr-defined]
from types import ModuleType
from typing import Any

LENGTH = 8_000
"""Characters of the longest text: a pattern of linear time reads them in a fraction of 1 ms."""
SLOW = 0.001
"""Seconds that are worth a second look; a quarter of the text is measured then, too."""
TOO_SLOW = 0.03
"""Seconds after which the text is not made longer."""
MOST_SECONDS = 0.1
"""Seconds that a pattern may take for the longest text it gets: no Ctrl-C is heard meanwhile."""
MOST_GROWTH = 9.0
"""Linear time grows by 4 from a quarter to the whole, quadratic time by 16."""
TRIES = 5
ROUNDS = 3
"""The best of several counts is taken, since others use the machine too."""
_REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT)
SCANS = frozenset({"findall", "finditer", "search", "split", "sub", "subn"})
ANCHORED = frozenset({"fullmatch", "match"})
ENDS = ("\0", "")
"""What no piece ends with, and nothing, which a pattern that wants more does not take either."""


@dataclass
class Found:
    """A pattern, the module that has it, and the methods it is called with there."""

    where: str
    pattern: re.Pattern[Any]
    methods: set[str] = field(default_factory=set)


def modules_of(package: str) -> Iterator[ModuleType]:
    """Import a package and every module below it."""
    root = importlib.import_module(package)
    yield root
    for info in pkgutil.walk_packages(getattr(root, "__path__", ()), f"{package}."):
        if not info.name.endswith("__main__"):
            yield importlib.import_module(info.name)


def patterns_of(module: ModuleType) -> list[Found]:
    """Return the patterns of a module: those of its tables, and those that its functions name.

    A pattern is asked as the module calls it: one that only has to match at a text's start is not
    looked for everywhere.
    """
    try:
        tree = ast.parse(inspect.getsource(module))
    except OSError:  # an empty file has no source
        return []
    used: dict[str, set[str]] = {}
    inline: list[Found] = []
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        method, of = node.func.attr, node.func.value
        name = (
            of.id if isinstance(of, ast.Name) else of.attr if isinstance(of, ast.Attribute) else ""
        )
        if method not in SCANS | ANCHORED or not name:
            continue
        used.setdefault(name, set()).add(method)
        if name == "re" and node.args and (text := _text_of(node.args[0], module)) is not None:
            where = f"{module.__name__}, line {node.lineno}"
            inline.append(Found(where, re.compile(text, _flags(node)), {method}))
    every = {method for methods in used.values() for method in methods} or set(SCANS | ANCHORED)
    tables = [
        Found(f"{module.__name__}.{name}", pattern, used.get(name, every))
        for name, value in vars(module).items()
        for pattern in _inside(value)
    ]
    unlike = {(one.pattern, frozenset(one.methods)): one for one in tables + inline}
    return [found for found in unlike.values() if found.pattern.pattern]


def alternatives(found: Found) -> list[Found]:
    """Return the alternatives of a pattern one by one: its time is the sum of theirs."""
    text, flags = found.pattern.pattern, found.pattern.flags
    whole = text.decode("latin-1") if isinstance(text, bytes) else text
    parts, depth, is_class, at = [0], 0, False, 0
    while at < len(whole):
        one = whole[at]
        if one == "\\":
            at += 1
        elif is_class:
            is_class = one != "]"
        elif one == "[":
            is_class = True
            at += 2 if whole[at + 1 : at + 3] == "^]" else whole[at + 1 : at + 2] == "]"
        elif one in "()":
            depth += 1 if one == "(" else -1
        elif one == "|" and depth == 0:
            parts.append(at + 1)
        at += 1
    ends = [start - 1 for start in parts[1:]] + [len(whole)]
    texts = [whole[start:end] for start, end in zip(parts, ends, strict=True)]
    return [
        Found(
            found.where,
            re.compile(one.encode("latin-1") if isinstance(text, bytes) else one, flags),
            found.methods,
        )
        for one in texts
        if one
    ]


def _flags(node: ast.Call) -> int:
    names = (part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute))
    flags = 0
    for name in names:
        flags |= re.RegexFlag[name] if name in re.RegexFlag.__members__ else 0
    return flags


def _text_of(node: ast.expr, module: ModuleType) -> str | bytes | None:
    """Return the pattern that is written in a call; a value that is put into it is a word."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
        return node.value
    if isinstance(node, ast.Name):
        value = getattr(module, node.id, None)
        return value if isinstance(value, str | bytes) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values
        )
    return None


def _inside(value: Any, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth < 3 and isinstance(value, dict):
        for part in (*value, *value.values()):
            yield from _inside(part, depth + 1)
    elif depth < 3 and isinstance(value, list | tuple | set | frozenset):
        for part in value:
            yield from _inside(part, depth + 1)
    elif depth < 3 and hasattr(type(value), "__dataclass_fields__"):
        for name in type(value).__dataclass_fields__:
            yield from _inside(getattr(value, name, None), depth + 1)


# ---- texts that a pattern would take


def _characters(items: Any) -> str:
    """Return one or two characters of a class."""
    denied = items[0][0] is _constants.NEGATE
    if denied:
        taken = re.compile("[" + "".join(_in_class(item) for item in items[1:]) + "]")
        return next((c for c in "a 0.-x" if not taken.match(c)), "~")
    found = [_of_class(item) for item in items]
    return found[0] if len(set(found)) == 1 else found[0] + found[-1]


def _of_class(item: Any) -> str:
    kind, value = item
    if kind is _constants.LITERAL:
        return chr(value)
    if kind is _constants.RANGE:
        return chr(value[0])
    name = str(value)
    if name.startswith("CATEGORY_NOT"):
        return "a" if "SPACE" in name or "DIGIT" in name else "-"
    return " " if "SPACE" in name else "0" if "DIGIT" in name else "a"


def _in_class(item: Any) -> str:
    kind, value = item
    if kind is _constants.LITERAL:
        return re.escape(chr(value))
    if kind is _constants.RANGE:
        return f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
    name = str(value)
    letter = "s" if "SPACE" in name else "d" if "DIGIT" in name else "w"
    return "\\" + (letter.upper() if "NOT" in name else letter)


def _example(parsed: Any, *, full: bool) -> str:
    """Return a text of a pattern; where it is full, with each part that may be left out."""
    return "".join(_part(kind, value, full) for kind, value in parsed)


def _part(kind: Any, value: Any, full: bool) -> str:
    if kind is _constants.LITERAL:
        return chr(value)
    if kind is _constants.NOT_LITERAL:
        return "a" if value != ord("a") else "b"
    if kind is _constants.ANY:
        return "a"
    if kind is _constants.IN:
        return _characters(value)[-1 if full else 0]
    if kind in _REPEATS:
        least, most, body = value
        return _example(body, full=full) * max(least, 1 if full and most else 0)
    if kind is _constants.BRANCH:
        return _example(value[1][-1 if full else 0], full=full)
    if kind is _constants.SUBPATTERN:
        return _example(value[3], full=full)
    if kind is _constants.ATOMIC_GROUP:
        return _example(value, full=full)
    return ""  # looks around, and takes nothing


def _bodies(parsed: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every sequence within a pattern and what stands before it, the whole pattern first."""
    body = list(parsed)
    yield before, body
    for at, (kind, value) in enumerate(body):
        inside: list[Any] = []
        if kind in _REPEATS:
            inside = [value[2]]
        elif kind is _constants.BRANCH:
            inside = value[1]
        elif kind is _constants.SUBPATTERN:
            inside = [value[3]]
        elif kind in (_constants.ASSERT, _constants.ASSERT_NOT):
            inside = [value[1]]
        elif kind is _constants.ATOMIC_GROUP:
            inside = [value]
        for part in inside:
            yield from _bodies(part, before + _example(body[:at], full=True))


def _pieces(kind: Any, value: Any) -> list[str]:
    """Return texts of one part of a pattern, such as both ends of a class."""
    if kind is _constants.IN:
        items = value[value[0][0] is _constants.NEGATE :]
        return [_characters(value), *map(_of_class, items)]
    if kind in _REPEATS:
        inside = list(value[2])
        more = _pieces(*inside[0]) if len(inside) == 1 else []
        return [*more, *(_example(inside, full=full) for full in (True, False))]
    return [] if kind in (_constants.LITERAL, _constants.AT) else [_part(kind, value, True)]


def texts_of(parsed: Any) -> list[tuple[str, str]]:
    """Return beginnings of texts, and what is then repeated.

    Either nothing comes before a part, so that each repetition is a beginning of its own, or what
    comes before the part in the pattern, so that all are within one match.
    """
    found: dict[tuple[str, str], None] = {}
    for before, body in _bodies(parsed):
        for full in (True, False):
            found.setdefault(("", _example(body, full=full)))
        for at, (kind, value) in enumerate(body):
            start = before + _example(body[:at], full=True)
            found.setdefault(("", start))
            for piece in _pieces(kind, value):
                found.setdefault(("", piece))
                if kind in _REPEATS:
                    found.setdefault((start, piece))
    return [(start, piece) for start, piece in found if piece]


def _is_long(part: Any) -> bool:
    return part[0] in _REPEATS and part[1][1] > 1


# ---- measuring


def _seconds(found: Found, text: Any) -> float:
    begun = time.thread_time()
    if found.methods <= {"search"}:
        found.pattern.search(text)
    elif found.methods & SCANS:
        for _ in found.pattern.finditer(text):
            pass
    else:
        found.pattern.match(text)
        found.pattern.fullmatch(text)
    return time.thread_time() - begun


def _text(found: Found, start: str, piece: str, end: str, count: int) -> Any:
    made = start + piece * count + end
    is_bytes = isinstance(found.pattern.pattern, bytes)
    return made.encode("latin-1", "replace") if is_bytes else made


def _best(found: Found, text: Any) -> float:
    return min(_seconds(found, text) for _ in range(TRIES))


def _slowness(
    found: Found, parts: tuple[str, str, str], *, most: int | None, is_nested: bool
) -> str:
    """Return how a pattern is slow for this text, or nothing.

    Parameters
    ----------
    most
        Characters that the text has at most, since it is cut before; None if it may have any.
    """
    piece = parts[1]
    longest = max(8, (most or LENGTH) // len(piece))
    # In small steps where repetitions are nested: exponential time would hang in a large one.
    count = min(longest, 4 if is_nested else longest // 8)
    while True:
        taken = _seconds(found, _text(found, *parts, count))
        if taken > (TOO_SLOW if most is None else MOST_SECONDS) or count == longest:
            break
        count = min(longest, max(count + 1, int(count * 1.25)) if count < 64 else count * 3)
    if most is not None:
        whole = _best(found, _text(found, *parts, count)) if taken > MOST_SECONDS else 0.0
        return f"{whole:.3f} s for {count * len(piece)} characters" if whole > MOST_SECONDS else ""
    if taken < SLOW:
        return ""
    grown = []
    for _ in range(ROUNDS):
        whole = _best(found, _text(found, *parts, count))
        grown.append(whole / max(1e-6, _best(found, _text(found, *parts, max(1, count // 4)))))
        if whole < SLOW or grown[-1] <= MOST_GROWTH:
            return ""
    return f"{min(grown):.0f} times as long for four times the text"


def slowness(found: Found, most: int | None = None) -> str:
    """Return a text that a pattern takes too long for, and how long; nothing if there is none."""
    parsed = _parser.parse(found.pattern.pattern, found.pattern.flags)
    bodies = [body for _, body in _bodies(parsed)]
    repeated = [list(value[2]) for body in bodies for kind, value in body if kind in _REPEATS]
    if not any(_is_long(part) for body in bodies for part in body):
        return ""
    is_nested = any(
        kind in (*_REPEATS, _constants.BRANCH)
        for part in repeated
        for _, body in _bodies(part)
        for kind, _ in body
    )
    for start, piece in texts_of(parsed):
        for end in ENDS if most is None else ENDS[:1]:
            parts = start, piece, end
            if slow := _slowness(found, parts, most=most, is_nested=is_nested):
                return f"{start!r} + {piece!r} * n + {end!r}: {slow}"
    return ""
