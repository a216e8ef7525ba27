"""Which values of a cell are secret, and the cell's text without them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Mapping as Map
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from nbprov.spec.reading.nodes import Kind, Mapping, Node, Scalar, Sequence
from nbprov.spec.yaml.diagnostics import MASK, Findings
from nbprov.spec.yaml.reader import is_internal, looks_secret

REFERENCE = "secrets:"
"""How an entry of a list under `secrets` names a secret."""

_COMMENT = re.compile(r"#[^\n]*")
_YAML_BLANKS = " \t\r\n\x85\u2028\u2029"
"""What YAML takes for space or line end; any other blank is part of the value."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
ON = "true"
"""Stored in place of a webhook's address: its end is still told."""

_YES_NO = frozenset({"true", "false", "yes", "no", "on", "off"})
Trail = tuple[str, ...]
"""The keys that lead to a value; positions in lists are left out."""

OWN_KEYS = frozenset({"envs", "labels", "file_mounts", "setup", "run"})
"""Fields whose keys are the user's own: a variable called `_X` is no internal field."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """A value that is never shown, and what is stored in its place."""

    scalar: Scalar
    instead: str = "null"


def hide_secrets(documents: Iterable[Node], findings: Findings) -> tuple[Hidden, ...]:
    """Find every secret value of the cell and have it masked wherever it would be shown.

    Values below a misspelled `secrets` count, those of internal fields, and a webhook's address. A secret that also stands outside,
    through an anchor, is a problem: it could not be hidden there.
    """
    found = _Sorter()
    for document in documents:
        found.visit(document, ())
    hidden = {
        key: hide for key, hide in found.internal.items() if key not in found.visible
    } | found.secret
    findings.hide(hide.scalar for hide in hidden.values())
    for key in found.visible.keys() & found.secret.keys():
        message, hint = (
            "a secret's value also stands outside `secrets`",
            "write it under `secrets` only, without an anchor",
        )
        if found.secret[key].instead == ON:
            message, hint = (
                "the address of a webhook also stands outside `wait`",
                "write it out in both places, without an anchor",
            )
        findings.error(found.visible[key].start, "secrets", "secret-shared", message, hint)
    return tuple(hidden.values())


class _Sorter:
    """Sorts the values of a tree: below a key that names secrets, below an internal key, or for all to see."""

    def __init__(self) -> None:
        self.secret: dict[int, Hidden] = {}
        self.internal: dict[int, Hidden] = {}
        self.visible: dict[int, Scalar] = {}
        self._seen: set[int] = set()

    def visit(self, node: Node, trail: Trail) -> None:
        """Sort a tree that these keys lead to."""
        if id(node) in self._seen:
            return
        self._seen.add(id(node))
        if isinstance(node, Scalar):
            self.visible[id(node)] = node
            return
        if isinstance(node, Sequence):
            for item in node.items:
                self.visit(item, trail)
            return
        for key, value in node.pairs:
            self._entry(key, value, (*trail, key.text))

    def _entry(self, key: Scalar, value: Node, trail: Trail) -> None:
        if key.text in OWN_KEYS:
            for name, inner in value.pairs if isinstance(value, Mapping) else [(key, value)]:
                if looks_secret(name.text) and not isinstance(inner, Scalar):
                    self._hide(self.secret, _values(inner, set()))
                else:
                    self.visible.update((id(s), s) for s in all_scalars(inner, set()))
        elif key.text == "managed_secrets":
            self._hide(
                self.secret, (s for s in _values(value, set()) if not _NAME.fullmatch(s.text))
            )
        elif is_internal_at(trail):
            self._hide(self.internal, _values(value, set()))
        elif is_webhook(trail) and isinstance(value, Scalar):
            if value.kind is Kind.TEXT and value.text.strip().lower() not in _YES_NO:
                self._hide(self.secret, [value], ON)
        elif looks_secret(key.text):
            self._hide(self.secret, _values(value, set()))
        else:
            self.visit(value, trail)

    @staticmethod
    def _hide(where: dict[int, Hidden], scalars: Iterable[Scalar], instead: str = "null") -> None:
        where.update((id(scalar), Hidden(scalar, instead)) for scalar in scalars)


def is_internal_at(trail: Trail) -> bool:
    """Whether these keys lead to a field internal to SkyPilot: at the top level, under `resources`, or in one of its alternatives."""
    *above, name = trail
    return is_internal(name) and (
        not above or (above[0] == "resources" and above[1:] in ([], ["any_of"], ["ordered"]))
    )


def is_webhook(trail: Trail) -> bool:
    """Whether these keys lead to where the address of a webhook may stand."""
    return trail in (("wait", "notify"), ("nbprov", "wait", "notify"))


def _values(node: Node, seen: set[int]) -> Iterator[Scalar]:
    """The scalars of a tree that may be secret: not the names of secrets, not nulls."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, Scalar):
        if not node.is_null and node.text and not node.text.startswith(REFERENCE):
            yield node
        return
    for child in node.items if isinstance(node, Sequence) else [value for _, value in node.pairs]:
        yield from _values(child, seen)


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


MAX_SEARCHED = 50
"""Secret values that are searched for in comments; with more of them, comments are left out whole."""


def blotted(
    documents: Iterable[Node],
    secret: Iterable[Hidden],
    findings: Findings,
    replaced: Map[int, Callable[[], str]] = MappingProxyType({}),
    ends: Map[int, int] = MappingProxyType({}),
) -> str:
    """The cell's text with every secret value replaced by null (a webhook's address by `true`), and masked in comments.

    Parameters
    ----------
    replaced, ends
        By the offset where it begins: what to write instead of a piece of the text, and the offset where that piece ends.
    """
    hidden = {id(hide.scalar): hide for hide in secret}
    seen: set[int] = set()
    pieces_at: dict[tuple[int, int], Callable[[str], str]] = {}
    for scalar in (scalar for document in documents for scalar in all_scalars(document, seen)):
        span = (scalar.start.offset, scalar.end.offset)
        if id(scalar) in hidden:
            pieces_at[span] = partial(_without, hidden[id(scalar)])
        else:
            pieces_at.setdefault(span, str)
    for start, write in replaced.items():
        pieces_at[start, ends[start]] = partial(_instead, write)
    text, pieces, done = findings.text, [], 0
    for (start, end), write_piece in sorted(pieces_at.items(), key=lambda item: item[0]):
        if start < done:
            continue
        pieces.append(_without_comments(text[done:start], findings))
        piece = write_piece(text[start:end])
        pieces.append(" " if text[start - 1 : start] == ":" and piece != text[start:end] else "")
        pieces.append(piece)
        done = end
    pieces.append(_without_comments(text[done:], findings))
    return "".join(pieces)


def _without(hide: Hidden, was: str) -> str:
    anchor = f"&{hide.scalar.anchor} " if hide.scalar.anchor else ""
    return _instead(lambda: anchor + hide.instead, was)


def _instead(write: Callable[[], str], was: str) -> str:
    return write() + was[len(was.rstrip(_YAML_BLANKS)) :]


def _without_comments(gap: str, findings: Findings) -> str:
    values = findings.secret_values()
    if not values or "#" not in gap:
        return gap
    if len(values) > MAX_SEARCHED:
        return _COMMENT.sub("#", gap)

    def masked(match: re.Match[str]) -> str:
        comment = match.group()
        for value in sorted(values, key=len, reverse=True):
            comment = comment.replace(value, MASK)
        return comment

    return _COMMENT.sub(masked, gap)
