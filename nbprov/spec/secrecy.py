"""Which values of a cell are secret, and the cell's text without them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from .nodes import Mapping, Node, Scalar, Sequence
from .problems import MASK, Findings
from .reader import is_internal, looks_secret

REFERENCE = "secrets:"
"""How an entry of a list under `secrets` names a secret."""

_COMMENT = re.compile(r"#[^\n]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TEXTS = frozenset({"envs", "labels", "file_mounts", "setup", "run"})
"""Fields whose keys are the user's own: a variable called `_X` is no internal field."""


def hide_secrets(documents: Iterable[Node], findings: Findings) -> tuple[Scalar, ...]:
    """Find every secret value of the cell and have it masked wherever it would be shown.

    Values below a misspelled `secrets` count, and those of internal fields. A value that also stands outside, through an anchor, is
    a problem: it could not be hidden there.
    """
    secret: dict[int, Scalar] = {}
    internal: dict[int, Scalar] = {}
    visible: dict[int, Scalar] = {}
    for document in documents:
        _sort(document, True, secret, internal, visible, set())
    hidden = {**{key: scalar for key, scalar in internal.items() if key not in visible}, **secret}
    findings.hide(hidden.values())
    for scalar in (visible[key] for key in visible.keys() & secret.keys()):
        hint = "write it under `secrets` only, without an anchor"
        findings.error(scalar.start, "secrets", "secret-shared", "a secret's value also stands outside `secrets`", hint)
    return tuple(hidden.values())


def _sort(
    node: Node,
    is_top: bool,
    secret: dict[int, Scalar],
    internal: dict[int, Scalar],
    visible: dict[int, Scalar],
    seen: set[int],
) -> None:
    """Sort the values of a tree: below a key that names secrets, below an internal key, or for all to see."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, Scalar):
        visible[id(node)] = node
        return
    if isinstance(node, Sequence):
        for item in node.items:
            _sort(item, is_top, secret, internal, visible, seen)
        return
    for key, value in node.pairs:
        if key.text in _TEXTS:
            for name, inner in value.pairs if isinstance(value, Mapping) else [(key, value)]:
                is_lost = looks_secret(name.text) and not isinstance(inner, Scalar)
                found = _values(inner, set()) if is_lost else all_scalars(inner, set())
                (secret if is_lost else visible).update((id(s), s) for s in found)
        elif key.text == "managed_secrets":
            secret.update((id(s), s) for s in _values(value, set()) if not _NAME.fullmatch(s.text))
        elif is_top and is_internal(key.text):
            internal.update((id(s), s) for s in _values(value, set()))
        elif looks_secret(key.text):
            secret.update((id(s), s) for s in _values(value, set()))
        else:
            _sort(value, False, secret, internal, visible, seen)


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


def blotted(documents: Iterable[Node], secret: Iterable[Scalar], findings: Findings) -> str:
    """The cell's text with every secret value replaced by null, and masked in comments."""
    hidden = {id(scalar) for scalar in secret}
    seen: set[int] = set()
    scalars = [scalar for document in documents for scalar in all_scalars(document, seen)]
    text, pieces, done = findings.text, [], 0
    for scalar in sorted(scalars, key=lambda s: (s.start.offset, s.end.offset)):
        start, end = scalar.start.offset, scalar.end.offset
        if start < done:
            continue
        pieces.append(_without_comments(text[done:start], findings))
        if id(scalar) in hidden:
            pieces.append(" " if text[start - 1 : start] == ":" else "")
            pieces.append(_null(scalar, text[start:end]))
        else:
            pieces.append(text[start:end])
        done = end
    pieces.append(_without_comments(text[done:], findings))
    return "".join(pieces)


def _null(scalar: Scalar, written: str) -> str:
    anchor = f"&{scalar.anchor} " if scalar.anchor else ""
    trailing = written[len(written.rstrip()) :]
    return f"{anchor}null{trailing}"


def _without_comments(gap: str, findings: Findings) -> str:
    values = findings.secret_values()
    if not values or "#" not in gap:
        return gap

    def masked(match: re.Match[str]) -> str:
        comment = match.group()
        for value in sorted(values, key=len, reverse=True):
            comment = comment.replace(value, MASK)
        return comment

    return _COMMENT.sub(masked, gap)
