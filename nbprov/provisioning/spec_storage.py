"""The text of a spec as the ledger keeps it, so that any later kernel reads the same spec."""

from __future__ import annotations

from dataclasses import replace

from nbprov.model.remarks import Origin
from nbprov.model.spec import Spec


def readable_text(spec: Spec) -> str:
    """The cell's own text where reading it alone gives this spec; otherwise the spec as YAML.

    It is written as YAML where fields were ignored, or where Python made or changed the spec.
    Either text holds no values of secrets. The text is not read again for that.
    """
    from nbprov.spec import to_yaml

    read = spec.source_spec
    if spec.source and read is not None and _stored_part(read) == _stored_part(spec):
        return spec.source
    return to_yaml(spec)


def _stored_part(spec: Spec) -> Spec:
    """A spec without where it was written, its variables' names, and what is never stored."""
    nowhere = Origin("")
    return replace(
        spec,
        requests=tuple(replace(r, origin=nowhere) for r in spec.requests),
        file_mounts=tuple(replace(m, origin=nowhere) for m in spec.file_mounts),
        outputs=tuple(replace(m, origin=nowhere) for m in spec.outputs),
        wait=replace(spec.wait, notify=spec.wait.notify or bool(spec.wait.webhook), webhook=""),
        variables=(),
        secrets=dict.fromkeys(spec.secrets),
        remarks=(),
        source="",
    )
