"""Read `accelerators` and TPU options.

`accelerators` is one kind, a set of which any will do, or a list whose first is preferred.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches

from nbprov.model.resources import Accelerator
from nbprov.spec.reading import literals
from nbprov.spec.reading.field_reader import (
    as_mapping,
    attempt,
    converted,
    join,
    read_boolean,
    text_of,
)
from nbprov.spec.yaml.diagnostics import Findings
from nbprov.spec.yaml.nodes import (
    Mark,
    Node,
    Scalar,
    ScalarKind,
    Sequence,
    describe,
    is_null,
    quoted,
)

from .place_choices import RequestedPlace

_ARGS = ("runtime_version", "tpu_name", "tpu_vm", "gcp_queued_resource")
_YES_NO = frozenset({"tpu_vm", "gcp_queued_resource"})
_KUBERNETES_NAME = re.compile(r"tpu.*-(podslice|device|slice)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class AcceleratorChoice:
    """Accelerators to choose from; if `ordered`, the first is the first choice."""

    kinds: tuple[Accelerator, ...]
    ordered: bool
    at: Mark


def read_accelerators(node: Node, path: str, findings: Findings) -> AcceleratorChoice | None:
    if isinstance(node, Scalar):
        if node.kind in (ScalarKind.INT, ScalarKind.FLOAT):
            findings.error(
                node.start,
                path,
                "accelerator",
                f"{path}: a number alone names no accelerator",
                "write name:count, as in A100:8",
            )
            return None
        kind = converted(node, path, findings, literals.parse_accelerator, wants="name:count")
        return None if kind is None else AcceleratorChoice((kind,), False, node.start)
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
    return (
        AcceleratorChoice(tuple(kinds.values()), isinstance(node, Sequence), node.start)
        if kinds
        else None
    )


def _one_accelerator(
    item: Node, count: Node | None, path: str, findings: Findings
) -> Accelerator | None:
    if not isinstance(item, Scalar) or item.kind is not ScalarKind.TEXT:
        findings.error(
            item.start,
            path,
            "accelerator",
            f"{path} must be name:count, not {describe(item)}",
            "write [H100:8, A100:8]",
        )
        return None
    if count is None or is_null(count):
        return attempt(item, path, findings, lambda: literals.parse_accelerator(item.text))
    if not isinstance(count, Scalar) or count.kind not in (ScalarKind.INT, ScalarKind.FLOAT):
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
        lambda: literals.positive(count.text, "a number of accelerators", "{A100: 8}"),
    )
    return (
        None
        if number is None
        else attempt(item, path, findings, lambda: literals.parse_accelerator(item.text, number))
    )


def is_tpu(kind: Accelerator | None) -> bool:
    """Whether an accelerator is a TPU."""
    return kind is not None and kind.name.casefold().startswith("tpu")


def read_accelerator_args(
    node: Node, path: str, findings: Findings
) -> tuple[tuple[str, str], ...] | None:
    """Read the TPU options; None, and problems, if one is unknown or of the wrong type."""
    mapping = as_mapping(
        node, path, findings, "write accelerator_args: {runtime_version: v2-alpha-tpuv5}"
    )
    if mapping is None:
        return None
    read: dict[str, str] = {}
    for key, value in mapping.pairs:
        here = join(path, key.text)
        if key.text not in _ARGS:
            near = get_close_matches(key.text, _ARGS, 1, 0.6)
            hint = f"did you mean `{near[0]}`?" if near else f"the options are {', '.join(_ARGS)}"
            message = f"unknown field {quoted(key.text)} under `{path}`"
            findings.error(key.start, here, "unknown-field", message, hint, near[0] if near else "")
        elif is_null(value):
            continue
        elif key.text in _YES_NO:
            read[key.text] = str(read_boolean(value, here, findings)).lower()
        else:
            read[key.text] = text_of(value, here, findings, wants="text") or ""
    return tuple(sorted(read.items()))


def tpu_place(
    kind: Accelerator,
    place: RequestedPlace,
    instance_type: str,
    at: Mark,
    path: str,
    findings: Findings,
) -> RequestedPlace:
    """The place of a TPU.

    It is Google Cloud unless another cloud that has TPUs is named; a cloud without them is a
    problem.
    """
    home = "kubernetes" if _KUBERNETES_NAME.fullmatch(kind.name) else "gcp"
    if instance_type:
        message = (
            f"{path}: {quoted(kind.name)} brings its own machine; {quoted(instance_type)} beside "
            "it cannot be"
        )
        findings.error(
            at, path, "tpu", message, f"leave out instance_type: accelerators: {kind.name}"
        )
    if place.cloud not in ("", "gcp", "kubernetes"):
        findings.error(
            at,
            path,
            "tpu",
            f"{path}: {place.cloud} has no TPUs such as {quoted(kind.name)}",
            f"write infra: {home}",
        )
    return place if place.cloud else place._replace(cloud=home)
