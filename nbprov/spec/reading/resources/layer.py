"""One map under `resources`, or one alternative of it, as typed values.

An alternative lies over the outer map like a layer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from nbprov.model.money import Micros
from nbprov.model.places import Market
from nbprov.model.resources import DEFAULT_DISK_GB, Image, LocalDisk, PlaceRule, Quantity
from nbprov.spec.reading.field_reader import as_mapping, join, recognise
from nbprov.spec.reading.guards import AutostopField, read_autostop
from nbprov.spec.schema.registry import ALIASES, Section
from nbprov.spec.yaml.diagnostics import Findings
from nbprov.spec.yaml.nodes import Mapping, Mark, Node, Scalar, is_null, quoted

from . import scalars
from .accelerators import AcceleratorChoice, read_accelerator_args, read_accelerators
from .disks import read_disk, read_local_disk
from .images import read_image
from .place_choices import ANYWHERE, PlaceChoice, narrowed
from .place_fields import read_rules, reader_of

PLACES = ("infra", "cloud", "region", "zone")
_ABSENT_ALIKE = frozenset({"any_of", "ordered"})
_OLD_NAMES = {"spot_recovery": "job_recovery"}


@dataclass(frozen=True, slots=True)
class ResourceLayer:
    """The demands of one map.

    `given` names the fields that are written, nulls included: they override those of an outer map.

    `seen` has the place and path of each field's value; after `over` also of the outer map's.
    """

    at: Mark
    path: str
    given: frozenset[str] = frozenset()
    seen: dict[str, tuple[Mark, str]] = field(default_factory=dict)
    place_choices: tuple[PlaceChoice, ...] = ANYWHERE
    named: dict[str, Any] = field(default_factory=dict)
    places: tuple[PlaceRule, ...] = ()
    accelerators: AcceleratorChoice | None = None
    accelerator_args: tuple[tuple[str, str], ...] = ()
    instance_type: str = ""
    cpus: Quantity | None = None
    memory: Quantity | None = None
    use_spot: tuple[Market, ...] = (Market.ON_DEMAND,)
    image_id: Image | None = None
    disk_size: int = DEFAULT_DISK_GB
    disk_tier: str = ""
    network_tier: str = ""
    local_disk: LocalDisk | None = None
    ports: tuple[tuple[int, int], ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    autostop: AutostopField | None = None
    job_recovery: str = ""
    priority: int | None = None
    max_hourly_cost: Micros | None = None
    max_price: Micros | None = None
    tier: int = 0

    @property
    def cap(self) -> Micros | None:
        """The lower one of the two price caps."""
        caps = [c for c in (self.max_hourly_cost, self.max_price) if c is not None]
        return min(caps) if caps else None

    def where(self, name: str) -> tuple[Mark, str]:
        """Place and path of a field's value; those of the layer if it is not written."""
        return self.seen.get(name, (self.at, join(self.path, name)))

    def over(self, outer: ResourceLayer, findings: Findings) -> ResourceLayer:
        """This alternative over the outer map.

        Its fields replace the outer ones, its labels are merged, and its places narrow the outer
        ones.
        """
        plain = self.given - {*PLACES, "labels"}
        changes: dict[str, Any] = {name: getattr(self, name) for name in plain}
        if "labels" in self.given:
            changes["labels"] = {**outer.labels, **self.labels} if self.labels else {}
        place_choices, pushed = narrowed(outer.place_choices, self.named)
        if pushed:
            words = (
                "cloud replaces the outer cloud, and with it the outer region and zone, which "
                "belong to that one"
            )
            findings.note(self.at, join(self.path, "cloud"), "place-replaced", words)
        seen = {**outer.seen, **self.seen}
        return replace(
            outer,
            at=self.at,
            path=self.path,
            given=self.given,
            seen=seen,
            place_choices=place_choices,
            **changes,
        )


def read_layer(node: Node, where: Section, path: str, findings: Findings) -> ResourceLayer | None:
    """Read one map of demands; None, and a problem, if the node is no map."""
    mapping = as_mapping(
        node,
        path,
        findings,
        f"write {path.rsplit('.', 1)[-1]}: {{infra: aws}}" if where is Section.RESOURCES else _ITEM,
    )
    if mapping is None:
        return None
    values: dict[str, Any] = {}
    given: dict[str, Scalar] = {}
    seen: dict[str, tuple[Mark, str]] = {}
    for key, value in mapping.pairs:
        here = join(path, key.text)
        if where is Section.ITEM and key.text in _ABSENT_ALIKE:
            findings.error(
                key.start,
                here,
                "nested",
                f"{key.text} cannot stand inside an alternative",
                "write one flat list",
            )
            continue
        known = recognise(key, value, where, path, findings)
        if known is None or known.name in _ABSENT_ALIKE:
            continue
        name = _OLD_NAMES.get(known.name, known.name)
        if (
            name in given
            and not is_null(value)
            and not is_null(mapping.get(given[name].text) or key)
        ):
            _same_field_twice(key, given[name], here, findings)
            continue
        if is_null(value) and (where is Section.RESOURCES or name in given):
            continue
        given[name] = key
        _note_alias(key, here, findings)
        if not is_null(value):
            seen[name] = (value.start, here)
            read = _READERS[name](value, here, findings)
            if read is not None:
                values[name] = read
    _check_places(mapping, given, path, findings)
    named = {name: values.pop(name, ()) for name in PLACES if name in given}
    return ResourceLayer(
        mapping.start, path, frozenset(given), seen, narrowed(ANYWHERE, named)[0], named, **values
    )


_ITEM = "write each alternative as a map: [{infra: aws}, {infra: gcp}]"


def _note_alias(key: Scalar, path: str, findings: Findings) -> None:
    if key.text == "accelerator":
        findings.note(key.start, path, "alias", "accelerator is read as accelerators")
    elif key.text in _OLD_NAMES:
        words = f"{key.text} is read as {_OLD_NAMES[key.text]}; {scalars.NOT_RECOVERED}"
        findings.note(key.start, path, "alias", words)


def _same_field_twice(key: Scalar, first: Scalar, path: str, findings: Findings) -> None:
    names = f"{quoted(first.text)} in line {first.start.line} and {quoted(key.text)}"
    keep = ALIASES.get(key.text, _OLD_NAMES.get(key.text, key.text))
    findings.error(
        key.start, path, "same-field", f"{names} are one field under two names", f"keep `{keep}`"
    )


def _check_places(
    mapping: Mapping, given: dict[str, Scalar], path: str, findings: Findings
) -> None:
    infra = mapping.get("infra")
    if "infra" not in given or infra is None or is_null(infra):
        return
    texts = {
        name: node.text
        for name in ("cloud", "region", "zone")
        if isinstance(node := mapping.get(name), Scalar) and not node.is_null
    }
    for name in ("cloud", "region", "zone"):
        other = mapping.get(name)
        if name in given and other is not None and not is_null(other):
            message = f"`infra` (line {given['infra'].start.line}) and `{name}` both name the place"
            findings.error(
                given[name].start,
                join(path, name),
                "infra-beside",
                message,
                _one_infra(infra, texts),
            )


def _one_infra(infra: Node, texts: dict[str, str]) -> str:
    """The place written once, if both ways are single names."""
    if not isinstance(infra, Scalar) or not texts:
        return "write it all in infra: cloud/region/zone"
    parts = [*infra.text.split("/"), "*", "*"][:3]
    merged = "/".join(
        texts.get(name, part) for name, part in zip(("cloud", "region", "zone"), parts, strict=True)
    ).removesuffix("/*")
    return f"write one of the two: infra: {infra.text}, or infra: {merged.removesuffix('/*')}"


_READERS: dict[str, Callable[[Node, str, Findings], Any]] = {
    **{name: reader_of(name) for name in PLACES},
    "places": read_rules,
    "accelerators": read_accelerators,
    "accelerator_args": read_accelerator_args,
    "instance_type": scalars.read_instance_type,
    "cpus": scalars.read_cpus,
    "memory": scalars.read_memory,
    "use_spot": scalars.read_spot,
    "image_id": read_image,
    "disk_size": read_disk,
    "disk_tier": scalars.read_disk_tier,
    "network_tier": scalars.read_network_tier,
    "local_disk": read_local_disk,
    "ports": scalars.read_ports,
    "labels": scalars.read_labels,
    "autostop": read_autostop,
    "job_recovery": scalars.read_recovery,
    "priority": scalars.read_priority,
    "max_hourly_cost": scalars.read_amount,
    "max_price": scalars.read_amount,
    "tier": scalars.read_tier,
}
