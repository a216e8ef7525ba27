"""Fill notebook variables into the tree of a cell, and write the tree as text again."""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Iterable
from collections.abc import Mapping as Map
from dataclasses import dataclass, field
from functools import partial

from nbprov.model.spec import Variable
from nbprov.spec.interpolation.redaction import names_secret
from nbprov.spec.yaml.diagnostics import Findings, InvalidValue
from nbprov.spec.yaml.nodes import Mapping, Node, Scalar, ScalarKind, Sequence, quoted
from nbprov.spec.yaml.reader import MAX_BYTES
from nbprov.spec.yaml.secret_lines import looks_secret

from .dollar_rules import DollarMeaning, dollar_meaning, is_the_machines
from .redaction import OWN_KEYS, HiddenValue, KeyPath, is_webhook, redacted_text
from .variables import REFERENCE, Converter, UnknownVariable, embedded, escaped, look_up, revealed

SHOWN_LENGTH = 60
HIDDEN = "hidden"
MAX_WRITTEN = 4 * MAX_BYTES
"""Letters of a cell that is written anew; only anchors can make it larger."""

_shorten = reprlib.Repr()


_PATH_ESCAPED = re.compile(r"\$(?=[$A-Za-z_{])")
_BARE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_UNWRITABLE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


@dataclass(slots=True)
class _Use:
    """The uses of one variable in a cell.

    `hidden` means that its value is not shown; `secret` and `clear` say where it went.
    """

    shown: str
    paths: list[str] = field(default_factory=list)
    hidden: bool = False
    secret: bool = False
    clear: bool = False


@dataclass(slots=True)
class FilledCell:
    """A cell with its variables filled in.

    Attributes
    ----------
    documents
        The trees; nodes without variables are the ones that were read.
    replaced
        The node, and the key path to it, that replaces the text at an offset.
    whole
        Whether an anchor shares text with a `$`, so that the text cannot be replaced piece by
        piece.
    """

    documents: list[Node]
    replaced: dict[int, tuple[Node, KeyPath]]
    variables: tuple[Variable, ...] = ()
    whole: bool = False


def fill(
    documents: list[Node], variables: Map[str, object] | None, findings: Findings
) -> FilledCell:
    """Replace the names of notebook variables by their values, or record a problem there.

    Parameters
    ----------
    variables
        The notebook's variables; None if there is no notebook.
    """
    if "$" not in findings.text and "\\" not in findings.text:
        return FilledCell(documents, {})
    filler = _Filler(variables, findings)
    filled = [filler.document(document) for document in documents]
    return FilledCell(filled, filler.replaced, filler.variables(), filler.whole)


class _Filler:
    def __init__(self, variables: Map[str, object] | None, findings: Findings) -> None:
        self._variables = variables
        self._findings = findings
        self._converter = Converter()
        self._own: frozenset[str] = frozenset()
        self._uses: dict[str, _Use] = {}
        self._values: dict[str, object] = {}
        self._seen: set[int] = set()
        self.replaced: dict[int, tuple[Node, KeyPath]] = {}
        self.whole = False

    def document(self, node: Node) -> Node:
        if isinstance(node, Mapping):
            own = [
                value
                for key, value in node.pairs
                if key.text in ("envs", "secrets") and isinstance(value, Mapping)
            ]
            self._own = frozenset(key.text for value in own for key, _ in value.pairs)
        return self._node(node, "", (), False)

    def variables(self) -> tuple[Variable, ...]:
        """The variables that were filled in; a value that went to a hidden place is not shown."""
        return tuple(
            Variable(
                name,
                HIDDEN if use.hidden or names_secret(name) else use.shown,
                tuple(dict.fromkeys(use.paths)),
            )
            for name, use in self._uses.items()
        )

    def _node(self, node: Node, path: str, trail: KeyPath, secret: bool) -> Node:
        if isinstance(node, Scalar):
            return self._scalar(node, path, trail, secret)
        if isinstance(node, Sequence):
            items = tuple(
                self._node(item, f"{path}[{number}]", trail, secret)
                for number, item in enumerate(node.items)
            )
            if all(new is old for new, old in zip(items, node.items, strict=True)):
                return node
            return Sequence(items, node.start, node.end, 1 + sum(item.size for item in items))
        return self._mapping(node, path, trail, secret)

    def _mapping(self, node: Mapping, path: str, trail: KeyPath, secret: bool) -> Node:
        pairs: dict[str, tuple[Scalar, Node]] = {}
        changed = False
        own_keys = bool(trail) and trail[-1] in OWN_KEYS
        for key, value in node.pairs:
            here = f"{path}.{key.text}" if path else key.text
            new_key = self._key(key, here, trail, secret)
            here = here if new_key is key else f"{path}.{new_key.text}" if path else new_key.text
            below = secret or (looks_secret(new_key.text) and not own_keys)
            new = self._node(value, here, (*trail, new_key.text), below)
            changed = changed or new is not value or new_key is not key
            if new_key.text in pairs:
                first = pairs[new_key.text][0].start
                message = (
                    f"{quoted(new_key.text)} is written twice: line {first.line}, column "
                    f"{first.column}, and here"
                )
                self._findings.error(key.start, here, "repeated-key", message, "keep one of them")
            pairs.setdefault(new_key.text, (new_key, new))
        if not changed:
            return node
        return Mapping(
            tuple(pairs.values()),
            node.start,
            node.end,
            1 + sum(k.size + v.size for k, v in pairs.values()),
        )

    def _key(self, key: Scalar, path: str, trail: KeyPath, secret: bool) -> Scalar:
        """A key with its variables; only text and numbers can stand there."""
        new = self._scalar(key, path, trail, secret) if "$" in key.text else key
        if isinstance(new, Scalar):
            return new
        self._findings.error(
            key.start,
            path,
            "variable",
            "a list or dict cannot be a key",
            "write a variable that holds text",
        )
        return key

    def _scalar(self, node: Scalar, path: str, trail: KeyPath, secret: bool) -> Node:
        meaning = dollar_meaning(trail)
        if "$" not in node.text:
            return node
        self.whole = self.whole or id(node) in self._seen
        self._seen.add(id(node))
        if meaning in (DollarMeaning.SHELL, DollarMeaning.KEPT):
            return node
        used: list[str] = []
        kept: list[str] = []
        try:
            new = self._filled(node, trail, used, kept, secret)
        except InvalidValue as bad:
            self._refuse(node, path, bad, secret)
            return node
        if kept and meaning is DollarMeaning.VARIABLE:
            names = ", ".join(dict.fromkeys(map(quoted, kept)))
            words = (
                f"{path}: {names} is no notebook variable and stays as it is; the program sees "
                "the text"
            )
            self._findings.note(node.start, path, "dollar-kept", words)
        for name in used:
            self._note_use(name, new, path, trail, secret)
        if used:
            self.replaced[node.start.offset] = (new, trail)
            self._findings.from_variable(node.start)
        return new

    def _refuse(self, node: Scalar, path: str, bad: InvalidValue, secret: bool) -> None:
        if secret:
            # The text may be a literal secret with a dollar sign in it, so it is not repeated.
            message = (
                "a `$` under `secrets` names a notebook variable, and there is none of this name"
            )
            self._findings.error(
                node.start,
                path,
                "variable",
                message,
                "write the name of one, `$$` for a dollar sign, or null",
            )
            return
        closest = bad.closest if isinstance(bad, UnknownVariable) else ""
        self._findings.error(
            node.start, path, "variable", f"{path}: {bad.message}", bad.hint, closest
        )

    def _filled(
        self, node: Scalar, trail: KeyPath, used: list[str], kept: list[str], secret: bool
    ) -> Node:
        """The node with its variables filled in.

        `used` collects the names that were filled in, `kept` those that stay as they are.
        """
        meaning = dollar_meaning(trail)
        match = REFERENCE.fullmatch(node.text)
        if match is not None and not match["dollar"]:
            name = _expression(match)
            if self._stays(name, meaning, trail):
                kept.append(node.text)
                return node
            value = self._value(name)
            used.append(name)
            adapt = _path_escaped if meaning is DollarMeaning.ENV else str
            return self._converter.node(
                revealed(value) if secret else value, name, node.start, node.end, adapt
            )

        def put(found: re.Match[str]) -> str:
            if found["dollar"]:
                return found.group() if meaning is DollarMeaning.ENV else "$"
            name = _expression(found)
            if self._stays(name, meaning, trail):
                kept.append(found.group())
                return found.group()
            value = self._value(name)
            used.append(name)
            text = embedded(revealed(value) if secret else value, name)
            if secret:
                self._findings.hide_text(text)
            return _path_escaped(text) if meaning is DollarMeaning.ENV else text

        text = REFERENCE.sub(put, node.text)
        return (
            node
            if text == node.text and not used
            else Scalar(text, ScalarKind.TEXT, False, node.start, node.end, node.anchor)
        )

    def _stays(self, expression: str, meaning: DollarMeaning, trail: KeyPath) -> bool:
        """Whether a name is left for the spec's own envs, or for the machine."""
        if meaning is not DollarMeaning.ENV:
            return expression not in (self._variables or ()) and is_the_machines(
                expression, trail, self._own
            )
        head = re.match(r"\w*", expression)
        name = head.group() if head else ""
        return self._variables is None or name in self._own or name not in self._variables

    def _value(self, expression: str) -> object:
        if self._variables is None:
            raise InvalidValue(
                f"{quoted('$' + expression)} is a notebook variable, and this text is read "
                "without a notebook",
                "write the value; `$$` is a dollar sign",
                "variable",
            )
        value = look_up(expression, self._variables)
        self._values[expression] = value
        return value

    def _note_use(self, name: str, new: Node, path: str, trail: KeyPath, secret: bool) -> None:
        use = self._uses.setdefault(name, _Use(_brief(self._values.get(name))))
        use.paths.append(path)
        webhook = _holds_webhook(new, trail)
        use.hidden = (
            use.hidden or secret or webhook or (trail[:1] == ("envs",) and names_secret(trail[-1]))
        )
        use.secret = use.secret or secret
        use.clear = use.clear or not (secret or webhook)
        if use.secret and use.clear:
            hint = "write it under `secrets` only"
            self._findings.error(
                new.start,
                path,
                "secret-shared",
                "a secret's value also stands outside `secrets`",
                hint,
            )


def _brief(value: object) -> str:
    """A value in a few words."""
    said = value if isinstance(value, str) else "null" if value is None else _shorten.repr(value)
    flat = " ".join(said[: 4 * SHOWN_LENGTH].split())
    return flat if len(flat) <= SHOWN_LENGTH else flat[: SHOWN_LENGTH - 1] + "…"


def _expression(match: re.Match[str]) -> str:
    return match["bare"] if match["bare"] is not None else match["braced"].strip()


def _path_escaped(text: str) -> str:
    return _PATH_ESCAPED.sub("$$", text)


def _holds_webhook(node: Node, trail: KeyPath) -> bool:
    if is_webhook(trail):
        return True
    if trail in ((), ("wait",), ("nbprov",), ("nbprov", "wait")) and isinstance(node, Mapping):
        return any(_holds_webhook(value, (*trail, key.text)) for key, value in node.pairs)
    return False


def written(node: Node, trail: KeyPath, hidden: Map[int, str]) -> str:
    """A tree as YAML in flow style, on one line, where no text can be read as structure.

    Parameters
    ----------
    trail
        The key path to it; in most fields a `$` is doubled.
    hidden
        What is written instead of a scalar, by the scalar's id.
    """
    if isinstance(node, Sequence):
        return "[" + ", ".join(written(item, trail, hidden) for item in node.items) + "]"
    if isinstance(node, Mapping):
        pairs = (
            f"{_text(key, trail)}: {written(value, (*trail, key.text), hidden)}"
            for key, value in node.pairs
        )
        return "{" + ", ".join(pairs) + "}"
    if id(node) in hidden:
        return hidden[id(node)]
    return _text(node, trail)


def _text(node: Scalar, trail: KeyPath) -> str:
    if node.plain and (node.kind is not ScalarKind.TEXT or _BARE.fullmatch(node.text)):
        return node.text or "null"
    text = escaped(node.text) if dollar_meaning(trail) is DollarMeaning.VARIABLE else node.text
    return _UNWRITABLE.sub(
        lambda m: f"\\u{ord(m.group()):04x}", json.dumps(text, ensure_ascii=False)
    )


def source_of(filled: FilledCell, secret: Iterable[HiddenValue], findings: Findings) -> str:
    """The cell's text with the values of variables, and without those of secrets.

    It is empty if anchors make it too large.
    """
    secret = tuple(secret)
    hidden = {id(hide.scalar): hide.instead for hide in secret}
    if filled.whole and filled.replaced:
        if sum(map(_letters, filled.documents)) > MAX_WRITTEN:
            return ""
        return "\n---\n".join(written(document, (), hidden) for document in filled.documents) + "\n"
    replaced = {
        offset: partial(written, node, trail, hidden)
        for offset, (node, trail) in filled.replaced.items()
    }
    ends = {offset: node.end.offset for offset, (node, _) in filled.replaced.items()}
    return redacted_text(filled.documents, secret, findings, replaced, ends)


def _letters(node: Node) -> int:
    if isinstance(node, Scalar):
        return len(node.text) + 4
    if isinstance(node, Sequence):
        return sum(map(_letters, node.items))
    return sum(_letters(key) + _letters(value) for key, value in node.pairs)
