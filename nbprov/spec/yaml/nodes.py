"""The tree of a cell: scalars with their source text and place, sequences and mappings.

Values follow the YAML 1.2 core schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Mark(NamedTuple):
    """A place in the text: line and column from 1, and the character's offset from 0."""

    line: int
    column: int
    offset: int


class ScalarKind(Enum):
    """The type of a scalar under the YAML 1.2 core schema."""

    NULL = "nothing"
    BOOL = "a boolean"
    INT = "a number"
    FLOAT = "a decimal number"
    TEXT = "text"


_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)


def kind_of(text: str) -> ScalarKind:
    """The type of a plain (unquoted) scalar with this text.

    Examples
    --------
    >>> [kind_of(t).name for t in ("NO", "22:22", "010", "0.10")]
    ['TEXT', 'TEXT', 'INT', 'FLOAT']
    >>> [kind_of(t).name for t in ("1_000", "2024-01-01", "~", "True")]
    ['TEXT', 'TEXT', 'NULL', 'BOOL']
    """
    if text in _NULLS:
        return ScalarKind.NULL
    if text in _TRUE or text in _FALSE:
        return ScalarKind.BOOL
    if _INT.fullmatch(text):
        return ScalarKind.INT
    return ScalarKind.FLOAT if _FLOAT.fullmatch(text) else ScalarKind.TEXT


@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """One value as written.

    `plain` is False if it is quoted or a block; `text` is its content.
    """

    text: str
    kind: ScalarKind
    plain: bool
    start: Mark
    end: Mark
    anchor: str = ""

    @property
    def is_null(self) -> bool:
        """Whether it is null."""
        return self.kind is ScalarKind.NULL

    @property
    def is_true(self) -> bool:
        """Whether it is the boolean true."""
        return self.kind is ScalarKind.BOOL and self.text in _TRUE

    @property
    def size(self) -> int:
        """Number of nodes in this tree."""
        return 1


@dataclass(frozen=True, slots=True, eq=False)
class Sequence:
    """A list. `size` counts the nodes of the whole tree, with aliases expanded."""

    items: tuple[Node, ...]
    start: Mark
    end: Mark
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class Mapping:
    """A map whose keys are scalars, each once.

    `size` counts the nodes of the whole tree, with aliases expanded.
    """

    pairs: tuple[tuple[Scalar, Node], ...]
    start: Mark
    end: Mark
    size: int

    def get(self, name: str) -> Node | None:
        """The value of a key; None if the key is absent."""
        return next((value for key, value in self.pairs if key.text == name), None)


Node = Scalar | Sequence | Mapping


def is_null(node: Node) -> bool:
    """Whether the node is the scalar null."""
    return isinstance(node, Scalar) and node.is_null


def all_scalars(node: Node, seen: set[int]) -> Iterator[Scalar]:
    """Every scalar of a tree once, keys included."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, Scalar):
        yield node
    elif isinstance(node, Sequence):
        for item in node.items:
            yield from all_scalars(item, seen)
    else:
        for key, value in node.pairs:
            yield key
            yield from all_scalars(value, seen)


def describe(node: Node) -> str:
    """The type of a node in a word or two, for a message."""
    if isinstance(node, Mapping):
        return "a map"
    return "a list" if isinstance(node, Sequence) else node.kind.value


def quoted(text: str) -> str:
    """A value as a message shows it: short, and on one line.

    Examples
    --------
    >>> quoted("A100:x")
    '`A100:x`'
    """
    flat = " ".join(text.split())
    return f"`{flat if len(flat) <= 40 else flat[:39] + '…'}`"


def as_given(node: Node) -> str:
    """A value as a message repeats it: its text, or that it is a map or list."""
    return (
        "a map"
        if isinstance(node, Mapping)
        else "a list"
        if isinstance(node, Sequence)
        else quoted(node.text)
    )


def is_off(node: Node) -> bool:
    """Whether a field is switched off with `false`, or an unquoted `no` or `off`."""
    return (
        isinstance(node, Scalar)
        and not is_null(node)
        and node.plain
        and node.text.lower() in ("false", "no", "off")
    )
