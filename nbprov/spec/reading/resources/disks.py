"""Read disks: the size of the boot disk, and the fast disk inside a machine."""

from __future__ import annotations

import re

from nbprov.model.resources import LocalDisk
from nbprov.spec.reading import literals
from nbprov.spec.reading.field_reader import converted
from nbprov.spec.yaml.diagnostics import Findings, InvalidValue
from nbprov.spec.yaml.nodes import Node, Scalar, ScalarKind, quoted

LOCAL_DISK_CLOUDS = frozenset({"", "aws"})
"""Clouds whose machines are known to have disks inside; empty stands for no named cloud."""

_KINDS = ("nvme", "ssd")
_LOCAL_DISK = re.compile(
    r"(?:(nvme|ssd))?(?:(?:^|:)([0-9]{1,7}(?:\.[0-9]{1,3})?)\s*(\+?))?", re.IGNORECASE
)
_HINT = "write local_disk: nvme:1000+, nvme, or 1000+"


def read_disk(node: Node, path: str, findings: Findings) -> int | None:
    """Read the boot disk's size in GB; rounding up is noted."""
    size = converted(node, path, findings, literals.disk_gb, wants="a size in GB")
    if size is None:
        return None
    if size[1]:
        findings.note(node.start, path, "rounded", f"{path} is rounded up to {size[0]} GB")
    return size[0]


def read_local_disk(node: Node, path: str, findings: Findings) -> LocalDisk | None:
    """Read `nvme:1000+`, `ssd:500`, `nvme` or `1000+`.

    None, and a problem, for anything else, also for a bare number.
    """
    if isinstance(node, Scalar) and node.kind in (ScalarKind.INT, ScalarKind.FLOAT):
        hint = f"write local_disk: {node.text}+ (at least) or nvme:{node.text} (exactly)"
        findings.error(
            node.start,
            path,
            "value",
            f"{path}: the number {quoted(node.text)} does not say what it means",
            hint,
        )
        return None
    return converted(node, path, findings, local_disk, wants="kind:GB")


def local_disk(text: str) -> LocalDisk:
    """Parse a disk inside the machine.

    Examples
    --------
    >>> str(local_disk("nvme:1000+")), str(local_disk("nvme")), str(local_disk("500"))
    ('nvme:1000+', 'nvme:100+', 'nvme:500')
    """
    match = _LOCAL_DISK.fullmatch(text.strip())
    if match is None or not text.strip():
        near = next((kind for kind in _KINDS if text.strip().lower().startswith(kind[:2])), "")
        raise InvalidValue(
            f"{quoted(text)} is not a disk inside the machine",
            f"did you mean {near}? {_HINT}" if near else _HINT,
        )
    kind = (match[1] or "nvme").lower()
    if match[2] is None:
        return LocalDisk(kind)
    if float(match[2]) <= 0:
        raise InvalidValue(f"a disk of {quoted(text)} cannot be had", _HINT)
    return LocalDisk(kind, float(match[2]), bool(match[3]))
