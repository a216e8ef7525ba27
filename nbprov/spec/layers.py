"""One map of demands under `resources`, or one alternative of it, as typed values; and how an alternative lies over the outer map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from nbprov.model.money import Micros
from nbprov.model.places import Market
from nbprov.model.spec import DEFAULT_DISK_GB, Accelerator, Quantity

from . import scalars
from .fields import ALIASES, Where
from .guards import GivenAutostop, read_autostop, read_boolean
from .nodes import Kind, Mapping, Mark, Node, Scalar, Sequence, describe, is_null, quoted
from .problems import Findings
from .scalars import Triple
from .values import as_mapping, attempt, converted, entries, join, recognise, text_of

ANYWHERE = (Triple(),)
_PLACES = frozenset({"infra", "cloud", "region", "zone"})
_ABSENT_ALIKE = frozenset({"any_of", "ordered"})


@dataclass(frozen=True, slots=True)
class Choice:
    """Accelerators to choose from; `ordered` where they were a list: first choice first."""

    kinds: tuple[Accelerator, ...]
    ordered: bool
    at: Mark


@dataclass(frozen=True, slots=True)
class Layer:
    """The demands of one map. `given` names the fields that were written, nulls included: they override an outer map's."""

    at: Mark
    path: str
    given: frozenset[str] = frozenset()
    accelerators: Choice | None = None
    infra: tuple[Triple, ...] = ()
    cloud: tuple[str, ...] = ()
    region: tuple[str, ...] = ()
    zone: tuple[str, ...] = ()
    places: tuple[Triple, ...] = ANYWHERE
    instance_type: str = ""
    cpus: Quantity | None = None
    memory: Quantity | None = None
    use_spot: tuple[Market, ...] = (Market.ON_DEMAND,)
    disk_size: int = DEFAULT_DISK_GB
    ports: tuple[tuple[int, int], ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    autostop: GivenAutostop | None = None
    max_hourly_cost: Micros | None = None
    max_price: Micros | None = None
    tier: int = 0

    @property
    def cap(self) -> Micros | None:
        """The lower of the two price caps."""
        caps = [c for c in (self.max_hourly_cost, self.max_price) if c is not None]
        return min(caps) if caps else None

    def over(self, outer: Layer, findings: Findings) -> Layer:
        """This alternative laid over the outer map: its fields replace the outer ones, labels are merged, places narrowed."""
        plain = self.given - _PLACES - {"labels"}
        changes: dict[str, Any] = {name: getattr(self, name) for name in plain}
        if "labels" in self.given:
            changes["labels"] = {**outer.labels, **self.labels} if self.labels else {}
        merged = replace(outer, at=self.at, path=self.path, **changes)
        return replace(merged, places=_narrowed(outer.places, self, findings))


def read_layer(node: Node, where: Where, path: str, findings: Findings) -> Layer | None:
    """Read one map of demands; None, and a problem, where the node is no map."""
    mapping = as_mapping(node, path, findings, "write its fields as lines below it, indented")
    if mapping is None:
        return None
    values: dict[str, Any] = {}
    given: dict[str, Scalar] = {}
    for key, value in mapping.pairs:
        if where is Where.ITEM and key.text in _ABSENT_ALIKE:
            findings.error(
                key.start, join(path, key.text), "nested", f"{key.text} cannot stand inside an alternative", "write one flat list"
            )
            continue
        known = recognise(key, value, where, path, findings)
        if known is None or known.name in _ABSENT_ALIKE:
            continue
        if known.name in given and not is_null(value) and not is_null(mapping.get(given[known.name].text) or key):
            _same_field_twice(key, given[known.name], join(path, key.text), findings)
            continue
        if where is Where.RESOURCES and is_null(value):
            continue
        given[known.name] = key
        if key.text == "accelerator":
            findings.note(key.start, join(path, key.text), "alias", "accelerator is read as accelerators")
        if not is_null(value):
            read = _READERS[known.name](value, join(path, key.text), findings)
            if read is not None:
                values[known.name] = read
    _check_places(mapping, given, path, findings)
    layer = Layer(mapping.start, path, frozenset(given), **values)
    return replace(layer, places=_narrowed(ANYWHERE, layer, findings))


def _same_field_twice(key: Scalar, first: Scalar, path: str, findings: Findings) -> None:
    names = f"{quoted(first.text)} in line {first.start.line} and {quoted(key.text)}"
    findings.error(key.start, path, "same-field", f"{names} are one field under two names", f"keep `{ALIASES.get(key.text, key.text)}`")


def _check_places(mapping: Mapping, given: dict[str, Scalar], path: str, findings: Findings) -> None:
    infra = mapping.get("infra")
    if "infra" not in given or infra is None or is_null(infra):
        return
    for name in ("cloud", "region", "zone"):
        other = mapping.get(name)
        if name in given and other is not None and not is_null(other):
            message = f"`infra` (line {given['infra'].start.line}) and `{name}` both name the place"
            findings.error(given[name].start, join(path, name), "infra-beside", message, "write it all in infra: cloud/region/zone")


def _narrowed(outer: tuple[Triple, ...], layer: Layer, findings: Findings) -> tuple[Triple, ...]:
    """The places of an alternative: `infra` replaces the outer ones; cloud, region and zone narrow them."""
    if "infra" in layer.given:
        return layer.infra or ANYWHERE
    places = list(outer)
    if "cloud" in layer.given:
        clouds = layer.cloud or ("",)
        kept = {p for p in outer if not p.cloud or not layer.cloud or p.cloud in layer.cloud}
        if "region" not in layer.given and any((p.region or p.zone) and p not in kept for p in outer):
            words = "cloud replaces the outer cloud, and with it the outer region and zone, which belong to that one"
            findings.note(layer.at, join(layer.path, "cloud"), "place-replaced", words)
        places = [replace(p, cloud=c) if p.cloud in ("", c) or not c else Triple(c) for c in clouds for p in outer]
    if "region" in layer.given:
        clouds_left = tuple(dict.fromkeys(p.cloud for p in places))
        places = [Triple(cloud, region) for cloud in clouds_left for region in layer.region or ("",)]
    if "zone" in layer.given:
        places = [replace(p, zone=zone) for p in places for zone in layer.zone or ("",)]
    return tuple(dict.fromkeys(places))


def _read_accelerators(node: Node, path: str, findings: Findings) -> Choice | None:
    if isinstance(node, Scalar):
        if node.kind in (Kind.INT, Kind.FLOAT):
            findings.error(
                node.start, path, "accelerator", f"{path}: a number alone names no accelerator", "write name:count, as in A100:8"
            )
            return None
        kind = converted(node, path, findings, scalars.accelerator, wants="name:count")
        return None if kind is None else Choice((kind,), False, node.start)
    pairs = [(item, None) for item in node.items] if isinstance(node, Sequence) else list(node.pairs)
    if not pairs:
        findings.error(node.start, path, "empty", f"{path} lists nothing", "name an accelerator, or leave the field out for none")
        return None
    kinds: dict[tuple[object, ...], Accelerator] = {}
    for number, (item, count) in enumerate(pairs):
        one = _one_accelerator(item, count, f"{path}[{number}]", findings)
        if one is not None:
            kinds.setdefault((one.name.casefold(), one.count, one.memory_gib, one.memory_at_least, one.maker), one)
    return Choice(tuple(kinds.values()), isinstance(node, Sequence), node.start) if kinds else None


def _one_accelerator(item: Node, count: Node | None, path: str, findings: Findings) -> Accelerator | None:
    if not isinstance(item, Scalar) or item.kind is not Kind.TEXT:
        findings.error(item.start, path, "accelerator", f"{path} must be name:count, not {describe(item)}", "write [H100:8, A100:8]")
        return None
    if count is None or is_null(count):
        return attempt(item, path, findings, lambda: scalars.accelerator(item.text))
    if not isinstance(count, Scalar) or count.kind not in (Kind.INT, Kind.FLOAT):
        found = quoted(count.text) if isinstance(count, Scalar) else describe(count)
        message = f"{path}: the count of {quoted(item.text)} must be a number, not {found}"
        findings.error(count.start, path, "accelerator", message, "write it without quotes: {A100: 8}")
        return None
    number = attempt(count, path, findings, lambda: scalars.positive(count.text, "a number of accelerators", "{A100: 8}"))
    return None if number is None else attempt(item, path, findings, lambda: scalars.accelerator(item.text, number))


def _read_names(convert: Callable[[str], Any], wants: str) -> Callable[[Node, str, Findings], tuple[Any, ...] | None]:
    """A reader of one name, or of a list or set of names: any of these."""

    def read(node: Node, path: str, findings: Findings) -> tuple[Any, ...] | None:
        if isinstance(node, Scalar):
            one = converted(node, path, findings, convert, wants=wants)
            return None if one is None else (one,)
        if isinstance(node, Mapping) and any(k.text in ("allow", "deny", "prefer") for k, _ in node.pairs):
            name = path.rsplit(".", 1)[-1]
            findings.cannot_honour(node.start, path, name, f"{path}: allow, deny and prefer are not used yet", f"write a list of {name}s")
            return None
        members = entries(node)
        if members is None:
            findings.error(
                node.start, path, "type", f"{path} must be {wants} or a list, not {describe(node)}", f"write {wants}, or [one, other]"
            )
            return None
        found = [_member(member, f"{path}[{n}]", findings, convert, wants) for n, member in enumerate(members)]
        if not found:
            findings.error(node.start, path, "empty", f"{path} lists nothing", "name a place, or leave the field out for any")
        if len(found) > 1:
            findings.note(node.start, path, "places", f"{path}: any of these, the cheapest first; to prefer one, use `ordered`")
        return tuple(dict.fromkeys(f for f in found if f is not None)) or None

    return read


def _member(node: Node, path: str, findings: Findings, convert: Callable[[str], Any], wants: str) -> Any:
    if is_null(node):
        findings.error(node.start, path, "empty", f"{path} is an empty entry", "remove it")
        return None
    return converted(node, path, findings, convert, wants=wants)


def _read_spot(node: Node, path: str, findings: Findings) -> tuple[Market, ...] | None:
    if isinstance(node, Scalar) and node.text.strip().lower() == "prefer":
        return (Market.SPOT, Market.ON_DEMAND)
    spot = read_boolean(node, path, findings)
    return None if spot is None else (Market.SPOT if spot else Market.ON_DEMAND,)


def _read_disk(node: Node, path: str, findings: Findings) -> int | None:
    size = converted(node, path, findings, scalars.disk_gb, wants="a size in GB")
    if size is None:
        return None
    if size[1]:
        findings.note(node.start, path, "rounded", f"{path} is rounded up to {size[0]} GB")
    return size[0]


def _read_memory(node: Node, path: str, findings: Findings) -> Quantity | None:
    amount = converted(node, path, findings, scalars.memory, wants="an amount of memory")
    if amount is not None and amount.compare == "=" and not amount.value.is_integer():
        findings.warn(node.start, path, "odd-memory", f"{path}: exactly {amount.value:g} GiB fits few machines; `+` means at least")
    return amount


def _read_ports(node: Node, path: str, findings: Findings) -> tuple[tuple[int, int], ...] | None:
    items = node.items if isinstance(node, Sequence) else (node,)
    ranges = [converted(item, path, findings, scalars.port_range, wants="a port") for item in items]
    return scalars.merge_ports(r for r in ranges if r is not None)


def _read_labels(node: Node, path: str, findings: Findings) -> dict[str, str] | None:
    mapping = as_mapping(node, path, findings, "write labels: {team: nlp}")
    if mapping is None:
        return None
    labels = {}
    for key, value in mapping.pairs:
        here = join(path, key.text)
        if not key.text.strip():
            findings.error(key.start, here, "value", f"{path}: a label needs a name", "write labels: {team: nlp}")
        text = text_of(value, here, findings, wants="text", numbers=False)
        if text is not None:
            labels[key.text] = text
    return labels


def _read_instance_type(node: Node, path: str, findings: Findings) -> str | None:
    def name(text: str) -> str:
        if not text.strip() or any(c.isspace() for c in text.strip()):
            raise scalars.Bad(f"{quoted(text)} is not an instance type", "write the cloud's name of it, as in p4d.24xlarge")
        scalars.refuse_variable(text)
        return text.strip()

    return converted(node, path, findings, name, wants="the name of an instance type")


def _read_tier(node: Node, path: str, findings: Findings) -> int | None:
    if isinstance(node, Scalar) and node.kind is Kind.INT and node.text.isdecimal() and len(node.text) <= 6:
        return int(node.text)
    findings.error(node.start, path, "value", f"{path} must be a whole number from 0", "write tier: 0 for the first choice")
    return None


def _amount(node: Node, path: str, findings: Findings) -> Micros | None:
    return converted(node, path, findings, scalars.money, wants="US dollars per hour")


_READERS: dict[str, Callable[[Node, str, Findings], Any]] = {
    "accelerators": _read_accelerators,
    "infra": _read_names(scalars.infra, "cloud/region/zone"),
    "cloud": _read_names(scalars.cloud_name, "the name of a cloud"),
    "region": _read_names(scalars.place_name, "the name of a region"),
    "zone": _read_names(scalars.place_name, "the name of a zone"),
    "instance_type": _read_instance_type,
    "cpus": lambda node, path, findings: converted(node, path, findings, scalars.cpus, wants="a number of vCPUs"),
    "memory": _read_memory,
    "use_spot": _read_spot,
    "disk_size": _read_disk,
    "ports": _read_ports,
    "labels": _read_labels,
    "autostop": read_autostop,
    "max_hourly_cost": _amount,
    "max_price": _amount,
    "tier": _read_tier,
}
