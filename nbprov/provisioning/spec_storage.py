"""The text of a spec as the ledger keeps it: one that can be read again, by any later kernel, to the same spec."""

from __future__ import annotations

from dataclasses import replace

from nbprov.model.errors import NbprovError
from nbprov.model.remarks import Origin
from nbprov.model.spec import Spec


def readable_text(spec: Spec) -> str:
    """The cell's own text where reading it alone gives this spec, else the spec written out (fields were ignored, or it was built in Python).

    Either way secrets have no values in it.
    """
    from nbprov.spec import parse, to_yaml

    if spec.source:
        try:
            again = parse(spec.source)
        except NbprovError:
            again = None
        if again is not None and _meaning(again) == _meaning(spec):
            return spec.source
    return to_yaml(spec)


def _meaning(spec: Spec) -> Spec:
    """What a spec asks for: nothing of where it was written, what its variables were called, or what is never stored."""
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
