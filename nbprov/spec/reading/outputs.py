"""Read `outputs`, what is pulled before the machine ends, and SkyPilot's sizes of data.

SkyPilot writes the sizes of its input and output under `inputs` and `outputs`.
"""

from __future__ import annotations

import re
from functools import partial

from nbprov.model.remarks import Origin
from nbprov.model.sources import Mount
from nbprov.spec.yaml.diagnostics import Findings, InvalidValue
from nbprov.spec.yaml.nodes import Mapping, Node, Scalar, ScalarKind, Sequence, as_given, is_null

from . import literals
from .field_reader import attempt, join
from .path_variables import holds_unfit

OWN = ""
"""The target of an output without one: the cluster's own folder."""

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_FORMS = 'write outputs: [results, "*.ckpt"], or {~/sky_workdir/out: ./out}'


def read_outputs(node: Node, path: str, findings: Findings) -> tuple[Mount, ...]:
    """Read a file or folder, a list of them, or a map to local targets.

    `{s3://b/x: 20}` is SkyPilot's estimate.
    """
    if isinstance(node, Mapping) and any(_is_size(key, value) for key, value in node.pairs):
        if all(_is_size(key, value) for key, value in node.pairs):
            findings.note(
                node.start,
                path,
                "not-used",
                f"{path} with a size is SkyPilot's egress estimate; it is not in the plan yet",
            )
        else:
            findings.error(
                node.start,
                path,
                "value",
                f"{path} mixes sizes of buckets with folders to copy",
                _FORMS,
            )
        return ()
    pairs: list[tuple[Node, Node | None, str]]
    if isinstance(node, Mapping):
        pairs = [(key, value, join(path, key.text)) for key, value in node.pairs]
    else:
        items = node.items if isinstance(node, Sequence) else (node,)
        pairs = [
            (item, None, f"{path}[{number}]" if isinstance(node, Sequence) else path)
            for number, item in enumerate(items)
        ]
    found: dict[str, Mount] = {}
    for source, target, here in pairs:
        there = _source(source, here, findings)
        to = (
            OWN
            if target is None or is_null(target)
            else _text(target, here, findings, numbers=False)
        )
        if there and (to or target is None or is_null(target)):
            found.setdefault(there, Mount(to, there, Origin(here, source.start.line)))
    return tuple(found.values())


def _source(node: Node, path: str, findings: Findings) -> str:
    text = _text(node, path, findings)
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if text and (
        not parts or parts == ["~"] or ".." in parts or (text.startswith("~") and parts[0] != "~")
    ):
        why = "leads out of its folder" if ".." in parts else "is no folder or file of its own"
        findings.error(
            node.start,
            path,
            "value",
            f"{path}: {as_given(node)} {why}",
            'name a file, a folder or a pattern: [results, "*.ckpt"]',
        )
        return ""
    return text


def _is_size(key: Scalar, value: Node) -> bool:
    return (
        bool(_URI.match(key.text))
        and isinstance(value, Scalar)
        and value.kind in (ScalarKind.INT, ScalarKind.FLOAT)
    )


def _text(node: Node, path: str, findings: Findings, *, numbers: bool = True) -> str:
    unusable = (
        (ScalarKind.BOOL, ScalarKind.NULL)
        if numbers
        else (ScalarKind.BOOL, ScalarKind.NULL, ScalarKind.INT, ScalarKind.FLOAT)
    )
    if not isinstance(node, Scalar) or node.kind in unusable or not node.text.strip():
        given = "nothing" if is_null(node) else as_given(node)
        findings.error(
            node.start, path, "type", f"{path} must name a file or folder, not {given}", _FORMS
        )
        return ""
    if _URI.match(node.text):
        findings.error(
            node.start,
            path,
            "value",
            f"{path} is a URI: results are copied between the machine and here",
            _FORMS,
        )
        return ""
    return "" if holds_unfit(node, path, findings) else node.text.strip()


def read_inputs(node: Node, path: str, findings: Findings) -> tuple[tuple[str, float], ...]:
    """Read `{s3://bucket/x: 120}`: where the data is, and how many GB it has."""
    hint = "write inputs: {s3://bucket/x: 120}, the size in GB"
    if not isinstance(node, Mapping):
        findings.error(
            node.start,
            path,
            "type",
            f"{path} must be a map from a URI to GB, not {as_given(node)}",
            hint,
        )
        return ()
    found = {}
    for key, value in node.pairs:
        here = join(path, key.text)
        size = attempt(value, here, findings, partial(_gigabytes, value))
        if not _URI.match(key.text):
            findings.error(key.start, here, "value", f"{here} is not a URI", hint)
        elif size is not None:
            found[key.text] = size
    return tuple(found.items())


def _gigabytes(node: Node) -> float:
    if not isinstance(node, Scalar) or node.kind not in (ScalarKind.INT, ScalarKind.FLOAT):
        raise InvalidValue(
            f"{as_given(node)} is not a size in GB", "write a number, without quotes: 120"
        )
    return literals.positive(node.text, "a size in GB", "120")
