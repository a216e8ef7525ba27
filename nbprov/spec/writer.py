"""A Spec as YAML that reads back as the same Spec."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import yaml

from nbprov.model.money import MICROS_PER_USD, Micros
from nbprov.model.places import Market
from nbprov.model.spec import DEFAULT_DISK_GB, Accelerator, Autostop, Compare, Guards, Quantity, Request, Spec

_SAFE = re.compile(r"[0-9]+[hms]|[A-Za-z/~.][A-Za-z0-9_./~-]*(:[A-Za-z0-9_.+]+)*")
_RESERVED = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n", "~", ".inf", ".nan"})
_BLOCK = re.compile(r"[^\s\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff][^\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]*\n")


class _Dumper(yaml.SafeDumper):
    """Quotes all text that could be read as something else, by this reader or by a YAML 1.1 one."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = '"'
    if _BLOCK.fullmatch(value) and not any(line.endswith(" ") for line in value.split("\n")):
        style = "|"
    elif _SAFE.fullmatch(value) and value.lower() not in _RESERVED:
        style = ""
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


class _Number(str):
    """A number that is written as it stands."""


def _number(dumper: yaml.SafeDumper, value: _Number) -> yaml.ScalarNode:
    tag = "float" if "." in value or "e" in value else "int"
    return dumper.represent_scalar(f"tag:yaml.org,2002:{tag}", str(value))


_Dumper.add_representer(str, _text)
_Dumper.add_representer(_Number, _number)


def to_yaml(spec: Spec) -> str:
    """Write a spec as YAML. Reading it gives an equal spec, apart from origins, remarks, source, and the values of secrets.

    Secrets are written as null: the text may be shown and stored.

    Examples
    --------
    >>> from nbprov.spec import parse
    >>> print(to_yaml(parse("resources: {gpus: A100, infra: aws, autostop: 10}")), end="")
    resources:
      infra: aws
      accelerators: A100:1
      autostop:
        idle_minutes: 10
    """
    body: dict[str, Any] = {}
    for name in ("name", "num_nodes", "setup", "run", "workdir"):
        value = getattr(spec, name)
        if value != (1 if name == "num_nodes" else ""):
            body[name] = value
    resources = _resources(spec.requests)
    autostop = _autostop(spec.guards)
    if autostop is not None:
        resources["autostop"] = autostop
    if resources or not body:
        body = {"resources": resources, **body}
    if spec.envs:
        body["envs"] = dict(spec.envs)
    if spec.secrets:
        body["secrets"] = dict.fromkeys(spec.secrets)
    if spec.file_mounts:
        body["file_mounts"] = {mount.target: mount.source for mount in spec.file_mounts}
    if spec.guards.max_lifetime is not None:
        body["max_lifetime"] = _duration(spec.guards.max_lifetime)
    if spec.guards.budget is not None:
        body["budget"] = _money(spec.guards.budget)
    return yaml.dump(body, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10**6)


def _resources(requests: tuple[Request, ...]) -> dict[str, Any]:
    items = [_request(request) for request in requests]
    if len(items) == 1:
        return items[0]
    shared = {key: value for key, value in items[0].items() if all(item.get(key) == value for item in items)}
    own = [{key: value for key, value in item.items() if key not in shared} for item in items]
    tiers = [request.tier for request in requests]
    if tiers == list(range(len(tiers))):
        return {**shared, "ordered": own}
    if any(tiers):
        own = [{**item, "tier": tier} if tier else item for item, tier in zip(own, tiers, strict=True)]
    return {**shared, "any_of": own}


def _request(request: Request) -> dict[str, Any]:
    parts = [part or "*" for part in (request.cloud, request.region, request.zone)]
    while parts and parts[-1] == "*":
        parts.pop()
    written: dict[str, Any] = {
        "infra": "/".join(parts),
        "instance_type": request.instance_type,
        "accelerators": _accelerator(request.accelerator),
        "cpus": _quantity(request.cpus),
        "memory": _quantity(request.memory),
        "use_spot": request.market is Market.SPOT,
        "disk_size": request.disk_gb if request.disk_gb != DEFAULT_DISK_GB else None,
        "ports": [f"{low}-{high}" if high > low else low for low, high in request.ports],
        "labels": dict(request.labels),
        "max_hourly_cost": _money(request.max_hourly),
    }
    return {key: value for key, value in written.items() if value}


def _accelerator(kind: Accelerator | None) -> str:
    if kind is None:
        return ""
    head = kind.name
    if kind.memory_gib is not None:
        maker = f"{kind.maker}:" if kind.maker else ""
        head = f"{maker}{_float(kind.memory_gib)}GB{'+' if kind.memory_at_least else ''}"
    return f"{head}:{_float(kind.count)}"


def _quantity(quantity: Quantity | None) -> str:
    if quantity is None:
        return ""
    return _float(quantity.value) + {Compare.EXACTLY: "", Compare.AT_LEAST: "+", Compare.PER_VCPU: "x"}[quantity.compare]


def _float(value: float) -> str:
    return repr(float(value)).removesuffix(".0")


def _duration(seconds: float) -> str:
    unit, length = next((u, n) for u, n in (("h", 3600), ("m", 60), ("s", 1)) if seconds % n == 0 or u == "s")
    return f"{int(seconds / length)}{unit}"


def _money(micros: Micros | None) -> _Number | None:
    if micros is None:
        return None
    amount = f"{Decimal(micros) / MICROS_PER_USD:f}"
    return _Number(amount.rstrip("0").rstrip(".") if "." in amount else amount)


def _autostop(guards: Guards) -> dict[str, Any] | bool | None:
    autostop = guards.autostop
    if guards.is_default:
        return None
    if autostop is None:
        return None if guards.max_lifetime is not None or guards.budget is not None else False
    default = Autostop(autostop.idle)
    minutes = autostop.idle / 60
    written: dict[str, Any] = {"idle_minutes": int(minutes) if minutes.is_integer() else minutes}
    if autostop.down:
        written["down"] = True
    if autostop.wait_for != default.wait_for:
        written["wait_for"] = autostop.wait_for
    if autostop.hook:
        written["hook"] = autostop.hook
    if autostop.hook_timeout != default.hook_timeout:
        written["hook_timeout"] = int(autostop.hook_timeout)
    return written
