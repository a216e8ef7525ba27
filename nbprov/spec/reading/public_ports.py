"""Read `expose`: who may reach the ports."""

from __future__ import annotations

from nbprov.model.spec import ExposedPorts
from nbprov.spec.yaml.diagnostics import Findings
from nbprov.spec.yaml.nodes import Mapping, Node, Scalar, as_given

from . import literals
from .field_reader import choice, converted, join

WORDS = ("tunnel", "public")
Ranges = tuple[tuple[int, int], ...]


def read_expose(node: Node, path: str, ports: Ranges, findings: Findings) -> ExposedPorts | None:
    """Read `tunnel`, `public`, or a map from port to one of these.

    Parameters
    ----------
    ports
        The ports of all alternatives; only these can be exposed.
    """
    if isinstance(node, Scalar):
        word = choice(node, path, findings, WORDS)
        return None if word is None else ExposedPorts(everything=word == "public")
    if not isinstance(node, Mapping):
        findings.error(
            node.start,
            path,
            "type",
            f"{path} must be tunnel, public or a map, not {as_given(node)}",
            "write expose: {8080: public}",
        )
        return None
    public = []
    for key, value in node.pairs:
        here = join(path, key.text)
        both = converted(key, here, findings, literals.port_range, wants="a port")
        word = choice(value, here, findings, WORDS)
        if both is None or word is None:
            continue
        if not any(low <= both[0] and both[1] <= high for low, high in ports):
            hint = f"write resources: {{ports: {key.text}}}, or remove it here"
            findings.error(
                key.start,
                here,
                "value",
                f"{path} names port {key.text}, which is not among the ports",
                hint,
            )
        elif word == "public":
            public.append(both)
    return ExposedPorts(public=literals.merge_ports(public))
