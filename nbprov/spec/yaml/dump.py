"""Write plain values as YAML that this reader and YAML 1.1 readers understand alike."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import yaml

from nbprov.model.money import MICROS_PER_USD, Micros

_SAFE = re.compile(r"[0-9]+[hms]|[A-Za-z/~.][A-Za-z0-9_./~-]*(:[A-Za-z0-9_.+]+)*")
_RESERVED = frozenset(
    {"null", "true", "false", "yes", "no", "on", "off", "y", "n", "~", ".inf", ".nan"}
)
_BLOCK = re.compile(
    r"[^\s\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff][^\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]*\n"
)


class _Dumper(yaml.SafeDumper):
    """Quotes all text that this reader or a YAML 1.1 reader could read as something else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = '"'
    if _BLOCK.fullmatch(value) and not any(line.endswith(" ") for line in value.split("\n")):
        style = "|"
    elif _SAFE.fullmatch(value) and value.lower() not in _RESERVED:
        style = ""
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


class Number(str):
    """A number that is written exactly as its text."""


def _number(dumper: yaml.SafeDumper, value: Number) -> yaml.ScalarNode:
    tag = "float" if "." in value or "e" in value else "int"
    return dumper.represent_scalar(f"tag:yaml.org,2002:{tag}", str(value))


_Dumper.add_representer(str, _text)
_Dumper.add_representer(Number, _number)


def dumped(body: dict[str, Any]) -> str:
    """A map as YAML; keys keep their order."""
    return yaml.dump(body, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10**6)


def number(value: float) -> str:
    """A number as text; a whole one has no `.0`."""
    return repr(float(value)).removesuffix(".0")


def money(micros: Micros) -> Number:
    """US dollars, exactly."""
    amount = f"{Decimal(micros) / MICROS_PER_USD:f}"
    return Number(amount.rstrip("0").rstrip(".") if "." in amount else amount)


def duration(seconds: float) -> str:
    """A duration in the largest unit in which it is exact."""
    unit, length = next(
        (u, n) for u, n in (("h", 3600), ("m", 60), ("s", 1)) if seconds % n == 0 or u == "s"
    )
    return f"{int(seconds / length)}{unit}" if seconds % 1 == 0 else f"{number(seconds)}s"


def share(value: float) -> str:
    """A share as a percentage; the reader takes at most six decimals."""
    return f"{value * 100:.6f}".rstrip("0").rstrip(".") + "%"
