"""Read text to nodes with PyYAML's scanner and parser, and our own composer.

PyYAML resolves scalars as in YAML 1.1 (`NO` is false, `22:22` is 1342, `010` is 8), and keeps the
last of repeated keys without a word. A cell that buys machines must mean what it shows, so only
PyYAML's events are used.
"""

from __future__ import annotations

from typing import NoReturn, Protocol

from yaml.error import MarkedYAMLError
from yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
    StreamStartEvent,
)
from yaml.parser import Parser
from yaml.reader import Reader, ReaderError
from yaml.scanner import Scanner

from nbprov.spec.yaml.nodes import (
    Mapping,
    Mark,
    Node,
    Scalar,
    ScalarKind,
    Sequence,
    is_null,
    kind_of,
    quoted,
)

from .diagnostics import Findings
from .secret_lines import hide_secret_lines
from .syntax_errors import fail_on_syntax

MAX_BYTES = 256 * 1024
"""A person writes a cell; a larger file is data that belongs in `file_mounts`."""

MAX_DEPTH = 32
"""Far more levels than a field needs; it keeps nested brackets from using up the stack."""

MAX_NODES = 20_000
"""Nodes with all aliases expanded; it keeps a few nested anchors from growing without end."""

MAX_KEY = 1024
"""Letters of a key, YAML's own limit for keys without a `?`; paths are made of keys."""

_STRING_TAGS = frozenset({"!", "tag:yaml.org,2002:str"})
_SHAPE_TAGS = frozenset({"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})


class _Position(Protocol):
    """The attributes that PyYAML's two kinds of marks share."""

    line: int
    column: int
    index: int


class _Events(Reader, Scanner, Parser):
    """PyYAML up to its events; marks count characters of the text."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)


def read(findings: Findings) -> list[Node]:
    """Read the documents of a cell; empty ones are left out.

    Raises
    ------
    SpecError
        At once if the text is too large or not YAML. Repeated and unusable keys are only recorded.
    """
    start = Mark(findings.first_line, 1, 0)
    size = len(findings.text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        limit = f"{MAX_BYTES // 1024} kB"
        findings.fail(
            start,
            "",
            "too-large",
            f"the cell has {size // 1024} kB; at most {limit} are read",
            "put data into a file",
        )
    try:
        documents = _Composer(_Events(findings.text), findings).documents()
    except MarkedYAMLError as error:
        fail_on_syntax(findings, error)
    except ReaderError as error:
        line = findings.text.count("\n", 0, error.position)
        column = error.position - (findings.text.rfind("\n", 0, error.position) + 1)
        at = Mark(findings.first_line + line, column + 1, error.position)
        hide_secret_lines(findings)
        findings.fail(
            at,
            "",
            "character",
            f"the character #x{ord(findings.text[error.position]):04x} is not allowed in YAML",
            "delete it",
        )
    return [node for node in documents if not is_null(node)]


class _Composer:
    def __init__(self, events: _Events, findings: Findings) -> None:
        self._events = events
        self._findings = findings
        self._anchors: dict[str, Node | None] = {}
        self._nodes = 0

    def documents(self) -> list[Node]:
        found: list[Node] = []
        while True:
            event = self._next()
            if isinstance(event, StreamEndEvent):
                return found
            if isinstance(event, StreamStartEvent | DocumentEndEvent):
                continue
            if isinstance(event, DocumentStartEvent):
                self._anchors = {}
                continue
            found.append(self._node(event, "", 0))

    def _next(self) -> Event:
        event: Event = self._events.get_event()  # type: ignore[no-untyped-call]
        return event

    def _mark(self, mark: _Position | None) -> Mark:
        if mark is None:
            return Mark(self._findings.first_line, 1, 0)
        return Mark(mark.line + self._findings.first_line, mark.column + 1, mark.index)

    def _fail(self, at: Mark, code: str, message: str, hint: str) -> NoReturn:
        hide_secret_lines(self._findings)
        self._findings.fail(at, "", code, message, hint)

    def _node(self, event: Event, path: str, depth: int) -> Node:
        at = self._mark(event.start_mark)
        if depth > MAX_DEPTH:
            self._fail(
                at,
                "too-deep",
                f"nested more than {MAX_DEPTH} levels deep",
                "a spec needs only a few",
            )
        if isinstance(event, AliasEvent):
            return self._alias(event, at)
        if not isinstance(event, ScalarEvent | CollectionStartEvent):
            self._fail(at, "syntax", "a value is missing here", "write `key: value` lines")
        anchor = event.anchor or ""
        if anchor:
            self._anchors[anchor] = None
        node: Node
        if isinstance(event, ScalarEvent):
            node = self._scalar(event, at)
        else:
            self._check_tag(event.tag, at, path)
            collect = self._sequence if isinstance(event, SequenceStartEvent) else self._mapping
            node = collect(at, path, depth)
        if anchor:
            self._anchors[anchor] = node
        self._count(1, at)
        return node

    def _count(self, nodes: int, at: Mark) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            self._fail(
                at,
                "too-many",
                f"more than {MAX_NODES:,} values, anchors expanded",
                "write fewer alternatives",
            )

    def _alias(self, event: AliasEvent, at: Mark) -> Node:
        if event.anchor not in self._anchors:
            self._fail(
                at,
                "alias",
                "an alias names an anchor that is not defined above it",
                "quote text that starts with `*`",
            )
        node = self._anchors[event.anchor]
        if node is None:
            self._fail(at, "alias", "an anchor contains itself", "write the value out")
        self._count(node.size, at)
        return node

    def _scalar(self, event: ScalarEvent, at: Mark) -> Scalar:
        plain = event.style in (None, "")
        value = self._whole(event.value, at)
        kind = kind_of(value) if plain else ScalarKind.TEXT
        if event.tag in _STRING_TAGS:
            kind, plain = ScalarKind.TEXT, False
        else:
            self._check_tag(event.tag, at, "")
        return Scalar(value, kind, plain, at, self._mark(event.end_mark), event.anchor or "")

    def _whole(self, text: str, at: Mark) -> str:
        """Return a text whose escapes may name a character as two halves, as JSON's do."""
        try:
            text.encode()
        except UnicodeEncodeError:
            try:
                return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
            except UnicodeDecodeError:
                self._findings.error(
                    at,
                    "",
                    "value",
                    "half of a character (`\\ud800` to `\\udfff`), which no program can read",
                    "remove it, or write the whole character",
                )
                return text.encode("ascii", "ignore").decode()
        return text

    def _check_tag(self, tag: str | None, at: Mark, path: str) -> None:
        if tag is not None and tag not in _SHAPE_TAGS:
            self._findings.error(
                at, path, "tag", "YAML tags (`!…`) are not read here", "remove the tag"
            )

    def _sequence(self, at: Mark, path: str, depth: int) -> Sequence:
        items: list[Node] = []
        while not isinstance(event := self._next(), SequenceEndEvent):
            items.append(self._node(event, f"{path}[{len(items)}]", depth + 1))
        return Sequence(
            tuple(items), at, self._mark(event.end_mark), 1 + sum(item.size for item in items)
        )

    def _mapping(self, at: Mark, path: str, depth: int) -> Node:
        unusable = False
        pairs: dict[str, tuple[Scalar, Node]] = {}
        merges: list[tuple[Scalar, Node]] = []
        while not isinstance(event := self._next(), MappingEndEvent):
            key = self._node(event, path, depth + 1)
            name = key.text if isinstance(key, Scalar) and len(key.text) <= MAX_KEY else "?"
            where = f"{path}.{name}" if path else name
            value = self._node(self._next(), where, depth + 1)
            if not isinstance(key, Scalar) or len(key.text) > MAX_KEY:
                unusable = True
                self._findings.error(
                    key.start,
                    path,
                    "key",
                    "a key must be a word",
                    "quote text that starts with `{` or `[`",
                )
            elif key.text == "<<" and key.plain:
                merges.append((key, value))
            elif name in pairs:
                first = pairs[name][0].start
                message = (
                    f"{quoted(name)} is written twice: line {first.line}, column {first.column}, "
                    "and here"
                )
                self._findings.error(key.start, where, "repeated-key", message, "keep one of them")
            else:
                pairs[name] = (key, value)
        if unusable:
            # Nothing inside can be trusted to be where it was meant to be: report it once, and
            # hide by lines what may be secret.
            hide_secret_lines(self._findings)
            return Scalar("", ScalarKind.NULL, True, at, at)
        for key, value in merges:
            self._merge(pairs, key, value, path)
        size = 1 + sum(key.size + value.size for key, value in pairs.values())
        return Mapping(tuple(pairs.values()), at, self._mark(event.end_mark), size)

    def _merge(
        self, pairs: dict[str, tuple[Scalar, Node]], key: Scalar, value: Node, path: str
    ) -> None:
        sources = value.items if isinstance(value, Sequence) else (value,)
        for source in sources:
            if not isinstance(source, Mapping):
                self._findings.error(
                    key.start,
                    path,
                    "merge",
                    "`<<` merges a map, or a list of maps",
                    "name the anchor of a map: `<<: *base`",
                )
                return
            for inner_key, inner in source.pairs:
                pairs.setdefault(inner_key.text, (inner_key, inner))
