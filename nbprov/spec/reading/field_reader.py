"""Helpers of all readers: wrong types, unknown keys, and fields that are not used yet."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import TypeVar

from nbprov.spec.schema.registry import ALIASES, Field, FieldUse, Section, find, guess
from nbprov.spec.yaml.diagnostics import Findings, InvalidValue
from nbprov.spec.yaml.nodes import (
    Mapping,
    Node,
    Scalar,
    ScalarKind,
    Sequence,
    as_given,
    describe,
    is_null,
    quoted,
)

from .literals import boolean

T = TypeVar("T")


def join(path: str, name: str) -> str:
    """The path of a field below another."""
    return f"{path}.{name}" if path else name


def text_of(
    node: Node, path: str, findings: Findings, *, wants: str, numbers: bool = True
) -> str | None:
    """The source text of a scalar; None, and a problem, for anything else.

    Parameters
    ----------
    wants
        What the field should hold, for the message.
    numbers
        Whether numbers and booleans count as text.
    """
    if not isinstance(node, Scalar):
        findings.error(
            node.start,
            path,
            "type",
            f"{path} must be {wants}, not {describe(node)}",
            _as_written(path, wants),
        )
        return None
    if not numbers and node.kind is not ScalarKind.TEXT:
        findings.error(
            node.start,
            path,
            "type",
            f"{path} must be {wants}, not {describe(node)}",
            "put it in quotes",
        )
        return None
    return node.text


def converted(
    node: Node, path: str, findings: Findings, convert: Callable[[str], T], *, wants: str
) -> T | None:
    """Convert a scalar's text; None, and a problem, if that fails.

    A boolean is never taken for text.
    """
    if isinstance(node, Scalar) and node.kind is ScalarKind.BOOL:
        hint = _as_written(path, "") or "put it in quotes if it is a name"
        findings.error(
            node.start, path, "type", f"{path} must be {wants}, not {quoted(node.text)}", hint
        )
        return None
    text = text_of(node, path, findings, wants=wants)
    if text is None:
        return None
    return attempt(node, path, findings, lambda: convert(text))


def _as_written(path: str, wants: str) -> str:
    """What to write instead of a wrong value: the field's own example, if it has one."""
    name = re.sub(r"\[[0-9]*\]$", "", path).rsplit(".", 1)[-1]
    field = next(
        (f for where in Section if (f := find(where, name)) is not None and f.example), None
    )
    shown = field.example[0] if field is not None else wants
    return f"write {name}: {shown}" if shown else ""


def attempt(node: Node, path: str, findings: Findings, make: Callable[[], T]) -> T | None:
    """Run `make`; an `InvalidValue` becomes a problem at the node."""
    try:
        return make()
    except InvalidValue as bad:
        findings.error(node.start, path, bad.code, f"{path}: {bad.message}", bad.hint)
        return None


def as_mapping(node: Node, path: str, findings: Findings, hint: str) -> Mapping | None:
    """The node if it is a map; None, and a problem, for anything else."""
    if isinstance(node, Mapping):
        return node
    findings.error(node.start, path, "type", f"{path} must be a map, not {describe(node)}", hint)
    return None


def entries(node: Node) -> Iterable[Node] | None:
    """The members of a list, or the keys of a set (a map whose values are all null); else None."""
    if isinstance(node, Sequence):
        return node.items
    if isinstance(node, Mapping) and all(is_null(value) for _, value in node.pairs):
        return [key for key, _ in node.pairs]
    return None


def recognise(
    key: Scalar, value: Node, where: Section, path: str, findings: Findings
) -> Field | None:
    """The field of a key if nbprov reads it; everything else is reported here.

    An unknown key is an error with the nearest field. A known field that is not used yet gets a
    remark, or an error if the program would get another machine than it asked for. A null counts as
    absent.
    """
    field = find(where, key.text)
    if field is None:
        _unknown(key, where, path, findings)
        return None
    if field.use is FieldUse.READ:
        return field
    here = join(path, key.text)
    if field.use is FieldUse.DROPPED:
        findings.note(
            key.start, here, "dropped", f"{key.text} is internal to SkyPilot and is dropped"
        )
    elif (
        not _says_nothing(value)
        and not _asks_for_the_same(field, value)
        and _choice_is_valid(field, value, here, findings)
    ):
        _not_used(field, key, value, here, findings)
    return None


def _says_nothing(value: Node) -> bool:
    """Whether the value is null, or a map or list without entries."""
    if isinstance(value, Mapping):
        return not value.pairs
    return not value.items if isinstance(value, Sequence) else value.is_null


def _asks_for_the_same(field: Field, value: Node) -> bool:
    """Whether the value asks for what nbprov does anyway."""
    return isinstance(value, Scalar) and value.text.strip().lower() in field.same


def _not_used(field: Field, key: Scalar, value: Node, path: str, findings: Findings) -> None:
    is_estimate = (
        field.name == "outputs"
        and isinstance(value, Mapping)
        and all("://" in k.text for k, _ in value.pairs)
    )
    advice = f": {field.advice}" if field.advice else ""
    if field.use is FieldUse.ERROR:
        findings.cannot_honour(
            key.start, path, field.name, f"{field.name} is not supported yet{advice}"
        )
    elif findings.is_ignored(field.name, path) or field.use is FieldUse.NOTE or is_estimate:
        findings.note(key.start, path, "not-used", f"{field.name} is not used yet{advice}")
    else:
        findings.warn(key.start, path, "not-used", f"{field.name} is not used yet{advice}")


def _choice_is_valid(field: Field, value: Node, path: str, findings: Findings) -> bool:
    if not field.values or not isinstance(value, Scalar):
        return True
    return choice(value, path, findings, field.values) is not None


def members(
    node: Mapping, where: Section, path: str, findings: Findings
) -> list[tuple[str, Node, str]]:
    """Name, value and path of the known fields that a small map gives."""
    found = []
    for key, value in node.pairs:
        field = recognise(key, value, where, path, findings)
        if field is not None and not is_null(value):
            found.append((field.name, value, join(path, field.name)))
    return found


def whole(node: Node, path: str, findings: Findings, *, most: int, example: str) -> int | None:
    """A whole number from 1 to `most`, unquoted; None, and a problem, for anything else."""

    def read() -> int:
        if (
            isinstance(node, Scalar)
            and node.kind is ScalarKind.INT
            and node.text.isdecimal()
            and len(node.text) <= 9
        ):
            if 1 <= int(node.text) <= most:
                return int(node.text)
            raise InvalidValue(
                f"{quoted(node.text)} is not between 1 and {most}", f"write {example}"
            )
        raise InvalidValue(
            f"{as_given(node)} is not a whole number", f"write {example}, without quotes"
        )

    return attempt(node, path, findings, read)


def read_boolean(node: Node, path: str, findings: Findings) -> bool | None:
    """Read true or false; None, and a problem, for anything else."""
    if not isinstance(node, Scalar):
        findings.error(
            node.start,
            path,
            "type",
            f"{path} must be true or false, not {describe(node)}",
            "write true or false",
        )
        return None
    return attempt(node, path, findings, lambda: boolean(node))


def choice(node: Node, path: str, findings: Findings, words: tuple[str, ...]) -> str | None:
    """One of a few words, case ignored.

    None for anything else, with a problem that names the nearest word.
    """
    text = text_of(node, path, findings, wants=" or ".join(words))
    if text is None:
        return None
    lower = text.strip().lower()
    if lower in words:
        return lower
    near = get_close_matches(lower, words, 1, 0.6)
    hint = f"did you mean {near[0]}?" if near else f"write {', '.join(words[:-1])} or {words[-1]}"
    findings.error(
        node.start,
        path,
        "choice",
        f"{path}: {quoted(text)} is none of {', '.join(words)}",
        hint,
        near[0] if near else "",
    )
    return None


_PARENT = {
    Section.TASK: "at the top level of the cell",
    Section.RESOURCES: "under `resources`",
    Section.AUTOSTOP: "under `resources.autostop`",
    Section.BUDGET: "under `budget`",
}


def _unknown(key: Scalar, where: Section, path: str, findings: Findings) -> None:
    name, here = key.text, join(path, key.text)
    if name.startswith("_") and where in (Section.TASK, Section.RESOURCES, Section.ITEM):
        findings.note(key.start, here, "dropped", f"{name} is internal to SkyPilot and is dropped")
        return
    if findings.is_ignored(name, here):
        findings.warn(
            key.start,
            here,
            "ignored",
            f"{quoted(name)} is not a field nbprov knows; ignored, as you asked",
        )
        return
    found = guess(where, name)
    place = f" under `{path}`" if path else ""
    if found is None:
        hint = (
            f"remove it, or add `--ignore {name}` to go on without"
            if " " not in name.strip() and name.strip()
            else "remove it"
        )
        findings.error(
            key.start, here, "unknown-field", f"unknown field {quoted(name)}{place}", hint
        )
    elif found.elsewhere:
        closest = found.field.name
        belongs = _PARENT.get(found.field.where, f"under `{found.field.where}`")
        same = closest == ALIASES.get(name, name)
        message = (
            f"{quoted(name)} does not belong here"
            if same
            else f"unknown field {quoted(name)}{place}"
        )
        hint = f"write `{closest}` {belongs}{_pasted(found.field)}"
        findings.error(
            key.start, here, "misplaced-field" if same else "unknown-field", message, hint, closest
        )
    else:
        closest = found.field.name
        findings.error(
            key.start,
            here,
            "unknown-field",
            f"unknown field {quoted(name)}{place}",
            f"did you mean `{closest}`?",
            closest,
        )


def _pasted(field: Field) -> str:
    return (
        f":  {field.where}: {{{field.name}: …}}"
        if field.where in (Section.RESOURCES, Section.BUDGET)
        else ""
    )
