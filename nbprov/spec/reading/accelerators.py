"""Reading `accelerators`: one kind, a set of which any will do, a list whose first is the first choice."""

from __future__ import annotations

from dataclasses import dataclass

from nbprov.model.spec import Accelerator
from nbprov.spec.yaml.diagnostics import Findings

from . import units
from .field_reader import attempt, converted
from .nodes import Kind, Mark, Node, Scalar, Sequence, describe, is_null, quoted


@dataclass(frozen=True, slots=True)
class Choice:
    """Accelerators to choose from; `ordered` where they were a list: first choice first."""

    kinds: tuple[Accelerator, ...]
    ordered: bool
    at: Mark


def read_accelerators(node: Node, path: str, findings: Findings) -> Choice | None:
    if isinstance(node, Scalar):
        if node.kind in (Kind.INT, Kind.FLOAT):
            findings.error(
                node.start,
                path,
                "accelerator",
                f"{path}: a number alone names no accelerator",
                "write name:count, as in A100:8",
            )
            return None
        kind = converted(node, path, findings, units.accelerator, wants="name:count")
        return None if kind is None else Choice((kind,), False, node.start)
    pairs = (
        [(item, None) for item in node.items] if isinstance(node, Sequence) else list(node.pairs)
    )
    if not pairs:
        findings.error(
            node.start,
            path,
            "empty",
            f"{path} lists nothing",
            "name an accelerator, or leave the field out for none",
        )
        return None
    kinds: dict[tuple[object, ...], Accelerator] = {}
    for number, (item, count) in enumerate(pairs):
        one = _one_accelerator(item, count, f"{path}[{number}]", findings)
        if one is not None:
            kinds.setdefault(
                (one.name.casefold(), one.count, one.memory_gib, one.memory_at_least, one.maker),
                one,
            )
    return Choice(tuple(kinds.values()), isinstance(node, Sequence), node.start) if kinds else None


def _one_accelerator(
    item: Node, count: Node | None, path: str, findings: Findings
) -> Accelerator | None:
    if not isinstance(item, Scalar) or item.kind is not Kind.TEXT:
        findings.error(
            item.start,
            path,
            "accelerator",
            f"{path} must be name:count, not {describe(item)}",
            "write [H100:8, A100:8]",
        )
        return None
    if count is None or is_null(count):
        return attempt(item, path, findings, lambda: units.accelerator(item.text))
    if not isinstance(count, Scalar) or count.kind not in (Kind.INT, Kind.FLOAT):
        found = quoted(count.text) if isinstance(count, Scalar) else describe(count)
        message = f"{path}: the count of {quoted(item.text)} must be a number, not {found}"
        findings.error(
            count.start, path, "accelerator", message, "write it without quotes: {A100: 8}"
        )
        return None
    number = attempt(
        count,
        path,
        findings,
        lambda: units.positive(count.text, "a number of accelerators", "{A100: 8}"),
    )
    return (
        None
        if number is None
        else attempt(item, path, findings, lambda: units.accelerator(item.text, number))
    )
