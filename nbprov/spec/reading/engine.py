"""Read `engine`: a Dask or Ray cluster over the nodes."""

from __future__ import annotations

import re
from difflib import get_close_matches

from nbprov.model.spec import ComputeEngine
from nbprov.spec.yaml.diagnostics import Findings
from nbprov.spec.yaml.nodes import Mapping, Node, Scalar, as_given, is_null, is_off, quoted

from .field_reader import choice, join, whole

KINDS = ("dask", "ray", "none")
OPTIONS = {"dask": ("workers", "threads", "memory"), "ray": ("workers", "memory")}
"""Options of each engine.

`workers` is `gpu` (one per GPU), `cpu` (one per vCPU) or a number per node; `threads` counts per
worker; `memory` is that for data on a node.
"""

_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?) ?([KMGT]i?B)", re.IGNORECASE)

MOST = 10_000


def read_engine(node: Node, path: str, findings: Findings) -> ComputeEngine | None:
    """Read `dask`, `ray`, `none`, or `{dask: {workers: gpu, threads: 4}}`.

    None for `none`; also, with a problem, for anything else.
    """
    if is_off(node):
        return None
    if not isinstance(node, Mapping):
        kind = choice(node, path, findings, KINDS)
        return ComputeEngine(kind) if kind not in (None, "none") else None
    if len(node.pairs) != 1:
        findings.error(
            node.start,
            path,
            "value",
            f"{path} must name one engine",
            f"write {path}: {{dask: {{workers: gpu}}}}",
        )
        return None
    key, options = node.pairs[0]
    kind = choice(key, path, findings, KINDS[:2])
    if kind is None:
        return None
    if is_null(options):
        return ComputeEngine(kind)
    if not isinstance(options, Mapping):
        hint = f"write {path}: {{{kind}: {{workers: gpu}}}}"
        findings.error(
            options.start,
            join(path, kind),
            "type",
            f"{path}.{kind} must be a map, not {as_given(options)}",
            hint,
        )
        return None
    return ComputeEngine(kind, _options(options, kind, join(path, kind), findings))


def _options(
    node: Mapping, kind: str, path: str, findings: Findings
) -> tuple[tuple[str, str], ...]:
    found = {}
    for key, value in node.pairs:
        here = join(path, key.text)
        if key.text not in OPTIONS[kind]:
            near = get_close_matches(key.text[:40].lower(), OPTIONS[kind], 1, 0.6)
            hint = f"did you mean `{near[0]}`?" if near else f"it takes {', '.join(OPTIONS[kind])}"
            message = f"{kind} has no option {quoted(key.text)}"
            findings.error(key.start, here, "unknown-field", message, hint, near[0] if near else "")
        elif not is_null(value):
            text = _option(key.text, value, here, findings)
            if text is not None:
                found[key.text] = text
    return tuple(sorted(found.items()))


def _option(name: str, node: Node, path: str, findings: Findings) -> str | None:
    if name == "workers" and isinstance(node, Scalar) and not node.text.strip()[:1].isdigit():
        return choice(node, path, findings, ("gpu", "cpu"))
    if name == "memory":
        return _size(node, path, findings)
    number = whole(node, path, findings, most=MOST, example=f"{name}: 4")
    return None if number is None else str(number)


def _size(node: Node, path: str, findings: Findings) -> str | None:
    found = _SIZE.fullmatch(node.text.strip()) if isinstance(node, Scalar) else None
    if found is None or float(found[1]) == 0:
        findings.error(
            node.start,
            path,
            "value",
            f"{path} must be a size with its unit, not {as_given(node)}",
            "write memory: 8GB",
        )
        return None
    return f"{found[1]}{found[2]}"
