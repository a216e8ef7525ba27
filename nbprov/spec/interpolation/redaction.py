"""Find the secret values of a cell, and write the cell's text without them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Mapping as Map
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from nbprov.spec.yaml.diagnostics import MASK, Findings
from nbprov.spec.yaml.nodes import Mapping, Node, Scalar, ScalarKind, Sequence, all_scalars
from nbprov.spec.yaml.secret_lines import is_internal, looks_secret

REFERENCE = "secrets:"
"""The prefix of an entry that names a secret, in a list under `secrets`."""

_COMMENT = re.compile(r"#[^\n]*")
_YAML_BLANKS = " \t\r\n\x85\u2028\u2029"
"""The characters that YAML takes for space or line end; any other blank belongs to the value."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_NAME = re.compile(
    r"(^|_)(API_?KEY|ACCESS_?KEY|SECRET|TOKEN|PASSWORD|PASSWD)(_|$)", re.IGNORECASE
)
ON = "true"
"""Stored in place of a webhook's address, so that the end of a run is still reported."""

_YES_NO = frozenset({"true", "false", "yes", "no", "on", "off"})
KeyPath = tuple[str, ...]
"""The keys that lead to a value; positions in lists are left out."""

OWN_KEYS = frozenset({"envs", "labels", "file_mounts", "setup", "run"})
"""Fields whose keys are the user's own: a variable `_X` there is no internal field."""


@dataclass(frozen=True, slots=True)
class HiddenValue:
    """A value that is never shown, and what is stored instead."""

    scalar: Scalar
    instead: str = "null"


def hide_secrets(documents: Iterable[Node], findings: Findings) -> tuple[HiddenValue, ...]:
    """Find every secret value of the cell, and mask it wherever it would be shown.

    Values below a misspelt `secrets`, of internal fields, and of a webhook's address count too. A
    secret that an anchor repeats outside is a problem, because it could not be hidden there.
    """
    found = _SecretSorter()
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


class _SecretSorter:
    """Sorts the values of a tree into secret ones, internal ones and visible ones."""

    def __init__(self) -> None:
        self.secret: dict[int, HiddenValue] = {}
        self.internal: dict[int, HiddenValue] = {}
        self.visible: dict[int, Scalar] = {}
        self._seen: set[int] = set()

    def visit(self, node: Node, trail: KeyPath) -> None:
        """Sort the tree at a key path."""
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

    def _entry(self, key: Scalar, value: Node, trail: KeyPath) -> None:
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
            if value.kind is ScalarKind.TEXT and value.text.strip().lower() not in _YES_NO:
                self._hide(self.secret, [value], ON)
        elif looks_secret(key.text):
            self._hide(self.secret, _values(value, set()))
        else:
            self.visit(value, trail)

    @staticmethod
    def _hide(
        where: dict[int, HiddenValue], scalars: Iterable[Scalar], instead: str = "null"
    ) -> None:
        where.update((id(scalar), HiddenValue(scalar, instead)) for scalar in scalars)


def names_secret(name: str) -> bool:
    """Whether a variable of this name usually holds a secret.

    Examples
    --------
    >>> names_secret("HF_TOKEN"), names_secret("TOKENIZERS_PARALLELISM")
    (True, False)
    """
    return _SECRET_NAME.search(name) is not None


def is_internal_at(trail: KeyPath) -> bool:
    """Whether a key path leads to a field that is internal to SkyPilot.

    Such fields stand at the top level, under `resources`, or in one of its alternatives.
    """
    *above, name = trail
    return is_internal(name) and (
        not above or (above[0] == "resources" and above[1:] in ([], ["any_of"], ["ordered"]))
    )


def is_webhook(trail: KeyPath) -> bool:
    """Whether the address of a webhook may stand at this key path."""
    return trail in (("wait", "notify"), ("nbprov", "wait", "notify"))


def _values(node: Node, seen: set[int]) -> Iterator[Scalar]:
    """The scalars of a tree that may be secret: neither names of secrets nor nulls."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, Scalar):
        if not node.is_null and node.text and not node.text.startswith(REFERENCE):
            yield node
        return
    for child in node.items if isinstance(node, Sequence) else [value for _, value in node.pairs]:
        yield from _values(child, seen)


MAX_SEARCHED = 50
"""How many secret values are searched for in comments; with more, all comments are removed."""


def redacted_text(
    documents: Iterable[Node],
    secret: Iterable[HiddenValue],
    findings: Findings,
    replaced: Map[int, Callable[[], str]] = MappingProxyType({}),
    ends: Map[int, int] = MappingProxyType({}),
) -> str:
    """The cell's text without secret values.

    Each is replaced by null (a webhook's address by `true`) and masked in comments.

    Parameters
    ----------
    replaced, ends
        By start offset: what to write instead of a piece of text, and the offset where the piece
        ends.
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


def _without(hide: HiddenValue, was: str) -> str:
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
