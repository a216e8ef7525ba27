"""Completion: where the cursor stands in an unfinished cell, and which keys fit there.

Such text is rarely valid YAML, so indentation, dashes and brackets alone give the place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .schema.registry import ALIASES, OWN, Field, FieldUse, Section, fields, find

_KEY = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([^\s"'#{}\[\],][^:#{}\[\],]*?))\s*:(?=\s|$)""")
_DASH = re.compile(r"(\s*)-(\s+|$)")
_BLOCK_SCALAR = re.compile(r"[|>][-+0-9]*\s*(#.*)?$")
_SMALL_MAPS = frozenset(
    {"nbprov", "config", "budget", "race", "wait", "confirm_above", "health", "python"}
)
_ALTERNATIVES = ("any_of", "ordered")
_OPENING = {"{": "}", "[": "]"}
_LIST = "[]"


@dataclass(frozen=True, slots=True)
class KeyContext:
    """The context of the cursor.

    Attributes
    ----------
    path
        The keys that the cursor is inside of; `[]` stands for a list entry: `("resources",
        "any_of", "[]")`.
    prefix
        The part of the word at the cursor that is already typed.
    keys
        The fields that fit and are not yet in this map, most used first; empty on a value.
    field
        On a value, the name of its field with aliases resolved; empty on a key.
    values
        On a value, the words that the field may hold, if they are few.
    """

    path: tuple[str, ...] = ()
    prefix: str = ""
    keys: tuple[Field, ...] = ()
    field: str = ""
    values: tuple[str, ...] = ()


@dataclass(slots=True)
class _Level:
    """An open map or list: a block with its indent, or a flow collection with its bracket."""

    indent: float
    key: str = ""
    bracket: str = ""
    written: set[str] = field(default_factory=set)


def keys_at(text: str, line: int, column: int) -> KeyContext:
    """Find what may be written at the cursor.

    Parameters
    ----------
    line, column
        The cursor, both from 1; it stands before the character in that column.

    Examples
    --------
    >>> context = keys_at("resources:\\n  use", 2, 6)
    >>> fitting = [f.name for f in context.keys if f.name.startswith(context.prefix)]
    >>> context.path, context.prefix, fitting
    (('resources',), 'use', ['use_spot'])
    >>> keys_at("resources: {accelerators: A1", 1, 29).field
    'accelerators'
    """
    lines = text.split("\n")
    number = min(max(line, 1), len(lines)) - 1
    scan = _Scan()
    for full in lines[:number]:
        scan.line(full.rstrip("\r"))
    current = lines[number].rstrip("\r")
    return scan.cursor(current[: max(column, 1) - 1], lines[number + 1 :])


class _Scan:
    """Reads lines from the top, and keeps the stack of open maps and lists."""

    def __init__(self) -> None:
        self._stack: list[_Level] = [_Level(0)]
        self._block_scalar: float | None = None
        self._pending = ""

    def line(self, text: str) -> None:
        """Read a whole line above the cursor's line."""
        if self._in_flow():
            self._flow(text)
            return
        stripped = text.strip()
        if not stripped or stripped.startswith("#") or self._inside_block_scalar(text):
            return
        if stripped in ("---", "..."):
            self._stack = [_Level(0)]
            return
        indent, rest = self._dashes(text)
        match = _KEY.match(rest)
        if match is None:
            self._flow(rest)
            return
        name = _key_name(match)
        self._open(indent, name)
        value = rest[match.end() :].strip()
        if _BLOCK_SCALAR.match(value):
            self._block_scalar = indent
        elif value and not value.startswith("#"):
            self._flow(value)

    def cursor(self, before: str, below: list[str]) -> KeyContext:
        """The context at the end of `before`, the part of the cursor's line to its left."""
        if not self._in_flow():
            if self._inside_block_scalar(before if before.strip() else before + "x"):
                return KeyContext(self._path(), field=self._stack[-1].key)
            if before.lstrip().startswith("#") or re.search(r"\s#", before):
                return KeyContext(self._path())
            indent, rest = self._dashes(before)
            match = _KEY.match(rest + ("" if rest.endswith(" ") else "\0"))
            if match is None:
                in_list = self._stack[-1].key == _LIST and not rest.lstrip().startswith(
                    tuple(_OPENING)
                )
                self._settle(indent)
                if rest.lstrip().startswith(tuple(_OPENING)):
                    self._flow(rest)
                    return self._flow_context()
                return self._key_context(rest.strip(), indent, in_list, below)
            self._open(indent, _key_name(match))
            self._flow(rest[match.end() :])
        else:
            self._flow(before)
        if self._in_flow():
            return self._flow_context()
        key = self._stack[-1].key
        return self._value_context(key, self._path()[:-1], self._pending)

    def _inside_block_scalar(self, text: str) -> bool:
        if self._block_scalar is None:
            return False
        if not text.strip() or len(text) - len(text.lstrip()) > self._block_scalar:
            return True
        self._block_scalar = None
        return False

    def _dashes(self, text: str) -> tuple[float, str]:
        """Strip the dashes of list entries; returns the effective indent of the rest, and the
        rest.
        """
        offset = 0
        while match := _DASH.match(text[offset:]):
            indent = offset + len(match[1])
            self._settle(indent + 0.5)
            self._stack.append(_Level(indent + 0.5, _LIST))
            offset += match.end()
        rest = text[offset:]
        return offset + len(rest) - len(rest.lstrip()), rest

    def _settle(self, indent: float) -> None:
        """Close everything with at least this indent."""
        while len(self._stack) > 1 and (self._stack[-1].indent >= indent):
            self._stack.pop()

    def _open(self, indent: float, name: str) -> None:
        self._settle(indent)
        self._stack[-1].written.add(name)
        self._stack.append(_Level(indent, name))

    def _in_flow(self) -> bool:
        return bool(self._stack[-1].bracket)

    def _flow(self, text: str) -> None:
        """Follow brackets, commas and keys; the rest after the last one is the word being
        written.
        """
        quote, self._pending = "", ""
        for at, char in enumerate(text):
            if quote:
                quote = "" if char == quote else quote
                self._pending += char
            elif char in "\"'" and not self._pending.strip():
                quote = char
                self._pending += char
            elif char == "#" and (at == 0 or text[at - 1].isspace()):
                return
            elif char in _OPENING and not self._pending.strip():
                self._stack.append(_Level(float("inf"), _LIST if char == "[" else "", char))
                self._pending = ""
            elif not self._in_flow():
                self._pending += char
            else:
                self._in_brackets(char, text[at + 1 : at + 2])

    def _in_brackets(self, char: str, following: str) -> None:
        top = self._stack[-1]
        if char in "}]" or char == ",":
            if top.bracket == ":":
                self._stack.pop()
            elif self._pending.strip():
                self._stack[-1].written.add(_bare(self._pending))
            if char != "," and self._stack[-1].bracket in _OPENING:
                self._stack.pop()
            self._pending = ""
        elif (
            char == ":"
            and top.bracket == "{"
            and (not following or following.isspace() or following in "{[")
        ):
            name = _bare(self._pending)
            top.written.add(name)
            self._stack.append(_Level(float("inf"), name, ":"))
            self._pending = ""
        else:
            self._pending += char

    def _path(self) -> tuple[str, ...]:
        return tuple(level.key for level in self._stack if level.key)

    def _flow_context(self) -> KeyContext:
        path, prefix = self._path(), self._pending.strip()
        top = self._stack[-1]
        if top.bracket == "{":
            where = _where(path)
            if where is not None:
                return KeyContext(path, _bare(prefix), _unwritten(where, path, top.written))
            return self._value_context(path[-1] if path else "", path[:-1], prefix)
        key = top.key if top.bracket == ":" else next((k for k in reversed(path) if k != _LIST), "")
        return self._value_context(
            key, tuple(path[: path.index(key)]) if key in path else path, prefix
        )

    def _key_context(
        self, prefix: str, indent: float, in_list: bool, below: list[str]
    ) -> KeyContext:
        path = self._path()
        where = _where(path)
        if where is None:
            key = next((k for k in reversed(path) if k != _LIST), "")
            is_value = bool(key) and (in_list or path[-1] != _LIST)
            return (
                self._value_context(key, path[: path.index(key)], prefix)
                if is_value
                else KeyContext(path, prefix)
            )
        written = set(self._stack[-1].written) | _keys_below(below, indent)
        return KeyContext(path, _bare(prefix), _unwritten(where, path, written))

    def _value_context(self, key: str, path: tuple[str, ...], typed: str) -> KeyContext:
        where = _where(path)
        known = find(where, key) if where is not None else None
        if known is None:
            return KeyContext(path, _bare(typed), field=key)
        return KeyContext(path, _bare(typed), field=known.name, values=known.values)


def _where(path: tuple[str, ...]) -> Section | None:
    """The section that a path leads into; None if the keys are the user's own."""
    match path:
        case ():
            return Section.TASK
        case ("nbprov", *rest) if rest:
            return _where(tuple(rest)) if rest[0] in OWN else None
        case (name,) if name in _SMALL_MAPS:
            return Section(name)
        case ("config", "docker"):
            return Section.DOCKER
        case ("config", "hooks", "[]"):
            return Section.HOOK
        case ("file_mounts", _):
            return Section.MOUNT
        case ("resources",):
            return Section.RESOURCES
        case ("resources", "[]"):
            return Section.ITEM
        case ("resources", kind, "[]") if kind in _ALTERNATIVES:
            return Section.ITEM
        case ("resources", *_, "autostop") if len(path) <= 4:
            return Section.AUTOSTOP
        case ("resources", *_, "job_recovery" | "spot_recovery") if len(path) <= 4:
            return Section.RECOVERY
        case ("resources", *_, "infra" | "cloud" | "region" | "zone") if len(path) <= 4:
            return Section.PLACE
        case _:
            return None


def _unwritten(where: Section, path: tuple[str, ...], written: set[str]) -> tuple[Field, ...]:
    names = {ALIASES.get(name, name) for name in written}
    left_out = {"tier"} if where is Section.ITEM and "any_of" not in path else set()
    return tuple(
        f for f in fields(where) if f.name not in names | left_out and f.use is not FieldUse.DROPPED
    )


def _keys_below(lines: list[str], indent: float) -> set[str]:
    """The keys of the same map that stand below the cursor."""
    found = set()
    for line in lines:
        column = len(line) - len(line.lstrip())
        if not line.strip() or column > indent:
            continue
        if column < indent or line.lstrip().startswith("-"):
            break
        match = _KEY.match(line)
        if match:
            found.add(_key_name(match))
    return found


def _key_name(match: re.Match[str]) -> str:
    return next(group for group in match.groups() if group is not None).strip()


def _bare(text: str) -> str:
    return text.strip().lstrip("\"'").rstrip("\"'")
