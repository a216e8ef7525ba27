"""Read the smaller fields under `resources`: one function for each field."""

from __future__ import annotations

from nbprov.model.money import Micros
from nbprov.model.places import Market
from nbprov.model.resources import Quantity
from nbprov.spec.reading import literals
from nbprov.spec.reading.field_reader import (
    as_mapping,
    choice,
    converted,
    join,
    read_boolean,
    recognise,
    text_of,
)
from nbprov.spec.schema.registry import Section
from nbprov.spec.yaml.diagnostics import Findings, InvalidValue
from nbprov.spec.yaml.nodes import (
    Mapping,
    Node,
    Scalar,
    ScalarKind,
    Sequence,
    as_given,
    is_null,
    quoted,
)

DISK_TIERS = ("low", "medium", "high", "ultra", "best")
NETWORK_TIERS = ("standard", "best")
STRATEGIES = ("failover", "eager_next_region", "none")
NOT_RECOVERED = "a cluster that is lost is told of, and not made again by itself yet"
MOST_PRIORITY = 1000


def read_spot(node: Node, path: str, findings: Findings) -> tuple[Market, ...] | None:
    if isinstance(node, Scalar) and node.text.strip().lower() == "prefer":
        return (Market.SPOT, Market.ON_DEMAND)
    spot = read_boolean(node, path, findings)
    return None if spot is None else (Market.SPOT if spot else Market.ON_DEMAND,)


def read_memory(node: Node, path: str, findings: Findings) -> Quantity | None:
    amount = converted(node, path, findings, literals.memory, wants="an amount of memory")
    if amount is not None and amount.compare == "=" and not amount.value.is_integer():
        findings.warn(
            node.start,
            path,
            "odd-memory",
            f"{path}: exactly {amount.value:g} GiB fits few machines; `+` means at least",
        )
    return amount


def read_ports(node: Node, path: str, findings: Findings) -> tuple[tuple[int, int], ...] | None:
    items = node.items if isinstance(node, Sequence) else (node,)
    ranges = [
        converted(item, path, findings, literals.port_range, wants="a port") for item in items
    ]
    return literals.merge_ports(r for r in ranges if r is not None)


def read_labels(node: Node, path: str, findings: Findings) -> dict[str, str] | None:
    mapping = as_mapping(node, path, findings, "write labels: {team: nlp}")
    if mapping is None:
        return None
    labels = {}
    for key, value in mapping.pairs:
        here = join(path, key.text)
        if not key.text.strip():
            findings.error(
                key.start,
                here,
                "value",
                f"{path}: a label needs a name",
                "write labels: {team: nlp}",
            )
        text = text_of(value, here, findings, wants="text", numbers=False)
        if text is not None:
            labels[key.text] = text
    return labels


def read_instance_type(node: Node, path: str, findings: Findings) -> str | None:
    def name(text: str) -> str:
        if not text.strip() or any(c.isspace() for c in text.strip()):
            raise InvalidValue(
                f"{quoted(text)} is not an instance type",
                "write the cloud's name of it, as in p4d.24xlarge",
            )
        return text.strip()

    return converted(node, path, findings, name, wants="the name of an instance type")


def read_tier(node: Node, path: str, findings: Findings) -> int | None:
    if (
        isinstance(node, Scalar)
        and node.kind is ScalarKind.INT
        and node.text.isdecimal()
        and len(node.text) <= 6
    ):
        return int(node.text)
    findings.error(
        node.start,
        path,
        "value",
        f"{path} must be a whole number from 0",
        "write tier: 0 for the first choice",
    )
    return None


def read_amount(node: Node, path: str, findings: Findings) -> Micros | None:
    return converted(node, path, findings, literals.money, wants="US dollars per hour")


def read_cpus(node: Node, path: str, findings: Findings) -> Quantity | None:
    """Read a number of vCPUs."""
    number = converted(node, path, findings, literals.cpus, wants="a number of vCPUs")
    if (
        number is not None
        and number.compare == "="
        and number.value > 1
        and not number.value.is_integer()
    ):
        findings.warn(
            node.start,
            path,
            "odd-cpus",
            f"{path}: exactly {number.value:g} vCPUs fits few machines; `+` means at least",
        )
    return number


def read_disk_tier(node: Node, path: str, findings: Findings) -> str | None:
    """Read the speed of the boot disk."""
    tier = choice(node, path, findings, DISK_TIERS)
    if tier == "ultra":
        findings.warn(
            node.start,
            path,
            "dear-disk",
            f"{path}: ultra adds about $2 an hour to each node's price",
        )
    return tier


def read_network_tier(node: Node, path: str, findings: Findings) -> str | None:
    """Read the speed of the network; `standard` is no demand."""
    tier = choice(node, path, findings, NETWORK_TIERS)
    return "" if tier == "standard" else tier


def read_priority(node: Node, path: str, findings: Findings) -> int | None:
    """Read a place in a queue, which nbprov does not have."""
    hint = (
        f"write priority: 0, a whole number from -{MOST_PRIORITY} to {MOST_PRIORITY}; or leave it "
        "out"
    )
    if (
        not isinstance(node, Scalar)
        or node.kind is not ScalarKind.INT
        or len(node.text) > 8
        or not node.text.lstrip("+-").isdecimal()
    ):
        given = as_given(node)
        findings.error(
            node.start, path, "value", f"{path} must be a whole number, not {given}", hint
        )
        return None
    if abs(int(node.text)) > MOST_PRIORITY:
        findings.error(
            node.start,
            path,
            "value",
            f"{path} must be from -{MOST_PRIORITY} to {MOST_PRIORITY}, not {node.text}",
            hint,
        )
        return None
    findings.note(node.start, path, "not-used", "priority is not used: nothing queues here")
    return int(node.text)


def read_recovery(node: Node, path: str, findings: Findings) -> str | None:
    """Read where a preempted cluster is replaced; restarts of a failed program are noted."""
    if not isinstance(node, Mapping):
        return _strategy(node, path, findings)
    strategy: str | None = ""
    for key, value in node.pairs:
        here = join(path, key.text)
        if key.text == "strategy" and not is_null(value):
            strategy = _strategy(value, here, findings)
        elif not is_null(value) and not _restarts_are_good(key.text, value, here, findings):
            strategy = None
        else:
            recognise(key, value, Section.RECOVERY, path, findings)
    return strategy


def _strategy(node: Node, path: str, findings: Findings) -> str | None:
    word = choice(node, path, findings, STRATEGIES)
    if word == "none":
        return ""
    if word is not None and not path.endswith(".spot_recovery"):  # its other note says it too
        findings.note(node.start, path, "not-used", f"{path}: {NOT_RECOVERED}")
    return word


def _restarts_are_good(name: str, node: Node, path: str, findings: Findings) -> bool:
    if name not in ("max_restarts_on_errors", "recover_on_exit_codes"):
        return True
    is_codes = name == "recover_on_exit_codes"
    numbers = node.items if is_codes and isinstance(node, Sequence) else (node,)
    most = 255 if is_codes else 10**6
    for number in numbers:
        good = (
            isinstance(number, Scalar)
            and number.kind is ScalarKind.INT
            and number.text.isdecimal()
            and len(number.text) <= 7
        )
        if not good or (isinstance(number, Scalar) and int(number.text) > most):
            example = "[33, 34]" if is_codes else "3"
            findings.error(
                number.start,
                path,
                "value",
                f"{path} must hold whole numbers from 0 to {most}",
                f"write {name}: {example}",
            )
            return False
    return True
