"""What is particular about TPUs: their options, and the clouds that have them."""

from __future__ import annotations

import re
from difflib import get_close_matches

from nbprov.model.spec import Accelerator
from nbprov.spec.yaml.diagnostics import Findings

from .field_reader import as_mapping, join, read_boolean, text_of
from .nodes import Mark, Node, is_null, quoted
from .place_fields import PlaceWish

_ARGS = ("runtime_version", "tpu_name", "tpu_vm", "gcp_queued_resource")
_YES_NO = frozenset({"tpu_vm", "gcp_queued_resource"})
_KUBERNETES_NAME = re.compile(r"tpu.*-(podslice|device|slice)", re.IGNORECASE)


def is_tpu(kind: Accelerator | None) -> bool:
    """Whether an accelerator is a TPU."""
    return kind is not None and kind.name.casefold().startswith("tpu")


def read_accelerator_args(
    node: Node, path: str, findings: Findings
) -> tuple[tuple[str, str], ...] | None:
    """Read the TPU options; None, and problems, where one is unknown or of the wrong kind."""
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
    kind: Accelerator, wish: PlaceWish, instance_type: str, at: Mark, path: str, findings: Findings
) -> PlaceWish:
    """The place of a TPU: on Google Cloud unless another that has them is named; a problem where one that has none is."""
    home = "kubernetes" if _KUBERNETES_NAME.fullmatch(kind.name) else "gcp"
    if instance_type:
        message = f"{path}: {quoted(kind.name)} brings its own machine; {quoted(instance_type)} beside it cannot be"
        findings.error(
            at, path, "tpu", message, f"leave out instance_type: accelerators: {kind.name}"
        )
    if wish.cloud not in ("", "gcp", "kubernetes"):
        findings.error(
            at,
            path,
            "tpu",
            f"{path}: {wish.cloud} has no TPUs such as {quoted(kind.name)}",
            f"write infra: {home}",
        )
    return wish if wish.cloud else wish._replace(cloud=home)
