"""Parse the values of scalars: durations, money, sizes, ports, accelerators, booleans.

Each function takes text and returns a value, or raises `InvalidValue` with what is wrong and what
to write instead.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from nbprov.model.money import MICROS_PER_USD, Micros, usd
from nbprov.model.resources import Accelerator, Compare, Quantity
from nbprov.spec.yaml.diagnostics import InvalidValue
from nbprov.spec.yaml.nodes import Scalar, ScalarKind, quoted

_NUMBER = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?"
_LONGEST = 40
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LONGEST_DURATION = 10 * 366 * 86_400.0
_MOST_MONEY = 10**9 * MICROS_PER_USD
_POWERS = {"k": -2, "m": -1, "g": 0, "t": 1, "p": 2}

_DURATION = re.compile(rf"({_NUMBER})\s*([smhdw])")
_MONEY = re.compile(r"\$?\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_PLAIN_QUANTITY = re.compile(rf"({_NUMBER})\s*(\+?)")
_SIZE = re.compile(rf"({_NUMBER})\s*([A-Za-z]+)(\+?)")
_STRICT_UNIT = re.compile(r"[kmgtp][bi]|[KMGTP][bBiI]")
_LOOSE_UNIT = re.compile(r"[kmgtp](i?b?)", re.IGNORECASE)
_SHARE = re.compile(r"([0-9]{1,6}(?:\.[0-9]{0,6})?)\s*%")
_ZERO = re.compile(r"0+(?:\.0*)?\s*[smhdw]?")
_PORTS = re.compile(r"([0-9]{1,5})(?:\s*-\s*([0-9]{1,5}))?")
_NAME = re.compile(r"[A-Za-z0-9]+(?:(?:[._-]{1,2})[A-Za-z0-9]+)*")
_DEVICE_MEMORY = re.compile(rf"(?:([A-Za-z]+):)?({_NUMBER})\s*([A-Za-z]+)(\+?)")
_ACCELERATOR = re.compile(r"[A-Za-z0-9](?:[\w .-]*[\w+])?")


def positive(text: str, what: str, example: str) -> float:
    """A number above zero.

    Raises
    ------
    InvalidValue
        Also for nan, infinity and numbers of absurd length.
    """
    if len(text) > _LONGEST or not re.fullmatch(_NUMBER, text):
        raise InvalidValue(f"{quoted(text)} is not {what}", f"write {example}")
    value = float(text)
    if not math.isfinite(value) or value <= 0:
        raise InvalidValue(f"{what} must be above zero, not {quoted(text)}", f"write {example}")
    return value


def boolean(scalar: Scalar) -> bool:
    """A boolean: true, false, and the unquoted words yes, no, on and off.

    Raises
    ------
    InvalidValue
        For anything else, also for quoted booleans, 0 and 1.
    """
    if scalar.kind is ScalarKind.BOOL:
        return scalar.is_true
    word = scalar.text.lower()
    if scalar.plain and word in ("yes", "on", "no", "off"):
        return word in ("yes", "on")
    raise InvalidValue(
        f"{quoted(scalar.text)} is not true or false", "write true or false, without quotes"
    )


def duration(text: str) -> float:
    """Seconds from `90s`, `30m`, `4h`, `2d` or `1w`, rounded to whole seconds.

    Decimals are allowed; the unit is required.

    Examples
    --------
    >>> duration("1.5h"), duration("30s")
    (5400.0, 30.0)
    """
    match = _DURATION.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        bare = re.fullmatch(_NUMBER, text) is not None
        raise InvalidValue(
            f"{quoted(text)} {'lacks its unit' if bare else 'is not a duration'}",
            "write 90s, 30m, 4h, 2d or 1w",
        )
    seconds = float(match[1]) * _UNIT_SECONDS[match[2]]
    if not math.isfinite(seconds) or round(seconds) < 1 or seconds > _LONGEST_DURATION:
        raise InvalidValue(
            f"a duration must be between 1 second and 10 years, not {quoted(text)}",
            "write 90s, 30m, 4h, 2d or 1w",
        )
    return float(round(seconds))


def duration_or_zero(text: str) -> float:
    """A duration, or 0.

    Examples
    --------
    >>> duration_or_zero("0"), duration_or_zero("20s")
    (0.0, 20.0)
    """
    return 0.0 if _ZERO.fullmatch(text.strip()) else duration(text.strip())


def seconds(text: str) -> float:
    """A duration; a bare number means seconds."""
    return duration(text if text[-1:].isalpha() else f"{text}s")


def share(text: str) -> float:
    """A share, from `20%`.

    Examples
    --------
    >>> share("20%"), share("150 %")
    (0.2, 1.5)
    """
    match = _SHARE.fullmatch(text.strip())
    if match is None:
        raise InvalidValue(f"{quoted(text)} is not a share", "write a percentage: 20%")
    value = float(match[1]) / 100
    if value <= 0:
        raise InvalidValue(
            f"a share must be above zero, not {quoted(text)}", "write a percentage: 20%"
        )
    return value


def money(text: str) -> Micros:
    """US dollars, from `5`, `2.50` or `$5`.

    Examples
    --------
    >>> money("$0.90"), money("2.5")
    (900000, 2500000)
    """
    match = _MONEY.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        negative = text.lstrip("$ ").startswith("-")
        raise InvalidValue(
            f"{quoted(text)} is {'below zero' if negative else 'not an amount of money'}",
            "write US dollars: 5, 2.50 or $5",
        )
    try:
        micros = usd(match[1])
    except ValueError:
        micros = 0  # more digits than any amount has
    if not 0 < micros <= _MOST_MONEY:
        raise InvalidValue(
            f"{quoted(text)} is not an amount between $0.000001 and $1,000,000,000",
            "write US dollars: 5, 2.50 or $5",
        )
    return micros


def cpus(text: str) -> Quantity:
    """A number of vCPUs: `4` or `0.5` is exact, `4+` is at least."""
    match = _PLAIN_QUANTITY.fullmatch(text.strip())
    if match is None:
        raise InvalidValue(
            f"{quoted(text)} is not a number of vCPUs", "write 4 (exactly) or 4+ (at least)"
        )
    value = positive(match[1], "a number of vCPUs", "4 or 4+")
    return Quantity(Compare.AT_LEAST if match[2] else Compare.EXACTLY, value)


def memory(text: str) -> Quantity:
    """GiB of memory; all units are binary.

    `32` is exact, `32+` is at least, `3x` is per vCPU; `64GB`, `64GiB+` and `1.5TB` have units.

    Examples
    --------
    >>> str(memory("64 GB+")), str(memory("3x"))
    ('64+', '3x')
    """
    text = text.strip()
    match = _PLAIN_QUANTITY.fullmatch(text)
    if match:
        value = positive(match[1], "an amount of memory", "32, 32+ or 64GB+")
        return Quantity(Compare.AT_LEAST if match[2] else Compare.EXACTLY, value)
    match = _SIZE.fullmatch(text)
    if match and match[2] in ("x", "X") and not match[3]:
        return Quantity(Compare.PER_VCPU, positive(match[1], "an amount of memory", "4x"))
    if match is None or not _LOOSE_UNIT.fullmatch(match[2]):
        swapped = re.fullmatch(rf"({_NUMBER})\+\s*([A-Za-z]+)", text)
        example = f"{swapped[1]}{swapped[2]}+" if swapped else "32, 32+, 64GB+ or 4x (per vCPU)"
        raise InvalidValue(f"{quoted(text)} is not an amount of memory", f"write {example}")
    value = positive(match[1], "an amount of memory", "32, 32+ or 64GB+") * _in_gib(match[2])
    if not math.isfinite(value) or value <= 0:
        raise InvalidValue(
            f"{quoted(text)} is not an amount of memory a machine can have",
            "write 32, 32+ or 64GB+",
        )
    return Quantity(Compare.AT_LEAST if match[3] else Compare.EXACTLY, value)


def disk_gb(text: str) -> tuple[int, bool]:
    """Size of a disk in GB, and whether it was rounded up, from `100`, `1TB` or `2048MB`."""
    hint = "write whole GB, 100 or 1TB"
    match = re.fullmatch(r"([0-9]{1,12})\s*([A-Za-z]*)", text)
    if match is None or (match[2] and not _STRICT_UNIT.fullmatch(match[2])):
        raise InvalidValue(f"{quoted(text)} is not the size of a disk", hint)
    exact = int(match[1]) * (_in_gib(match[2]) if match[2] else 1)
    size = math.ceil(exact)
    if not 0 < size <= 10**7:
        raise InvalidValue(f"a disk of {quoted(text)} cannot be had", hint)
    return size, size != exact


def _in_gib(unit: str) -> float:
    return float(1024.0 ** _POWERS[unit[0].lower()])


def port_range(text: str) -> tuple[int, int]:
    """A port or a range of ports, from `8080` or `8080-8090`."""
    match = _PORTS.fullmatch(text)
    if match is None:
        raise InvalidValue(f"{quoted(text)} is not a port", "write 8080 or 8080-8090")
    low, high = int(match[1]), int(match[2] or match[1])
    if not 1 <= low <= 65535 or not 1 <= high <= 65535:
        raise InvalidValue(f"{quoted(text)} is not between 1 and 65535", "write 8080 or 8080-8090")
    if low > high:
        raise InvalidValue(f"{quoted(text)} goes from high to low", f"write {high}-{low}")
    return low, high


def merge_ports(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Sorted ranges without overlap; adjacent ones are joined.

    Examples
    --------
    >>> merge_ports([(8081, 8081), (8080, 8080), (22, 22)])
    ((22, 22), (8080, 8081))
    """
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def parse_accelerator(text: str, count: float | None = None) -> Accelerator:
    """One kind of accelerator, from `A100`, `A10:0.33`, `80GB+:8` or `nvidia:80GB`.

    Parameters
    ----------
    count
        The number beside the name in a map; the text may then hold none.

    Examples
    --------
    >>> str(parse_accelerator("A10:0.33")), str(parse_accelerator("nvidia:80GB+:4"))
    ('A10:0.33', 'nvidia:80GB+:4')
    """
    head, tail = text.strip(), ""
    if ":" in head:
        before, after = (part.strip() for part in head.rsplit(":", 1))
        if not _DEVICE_MEMORY.fullmatch(after) or re.fullmatch(_NUMBER, after):
            head, tail = before, after
            if not tail:
                raise InvalidValue(
                    f"{quoted(text)} lacks the number after its colon",
                    "write A100 or A100:8",
                    "accelerator",
                )
    if tail and count is not None:
        raise InvalidValue(
            f"{quoted(text)} has a count twice", "write the count once: {A100: 8}", "accelerator"
        )
    if tail:
        try:
            count = positive(tail, "a number of accelerators", f"{head}:1")
        except InvalidValue as bad:
            raise InvalidValue(bad.message, bad.hint, "accelerator") from None
    return _kind(text, head, 1.0 if count is None else count)


def _kind(text: str, head: str, count: float) -> Accelerator:
    match = _DEVICE_MEMORY.fullmatch(head)
    if match and _LOOSE_UNIT.fullmatch(match[3]):
        size = positive(match[2], "a device memory", "80GB+") * _in_gib(match[3])
        return Accelerator("", count, size, bool(match[4]), (match[1] or "").lower())
    if not head:
        raise InvalidValue(
            "no accelerator is named", "write A100:8, or leave the field out", "accelerator"
        )
    turned = re.fullmatch(r"([0-9]+)\s*[xX*]\s*([A-Za-z][\w.-]*)", head)
    if turned:
        raise InvalidValue(
            f"{quoted(text)} has its count in front",
            f"write {turned[2]}:{turned[1]}",
            "accelerator",
        )
    if not _ACCELERATOR.fullmatch(head) or not re.search("[A-Za-z]", head):
        variant = re.fullmatch(r"([\w-]+):([0-9]+GB)", head)
        example = (
            f"{variant[1]}-{variant[2]}:1 for that variant"
            if variant
            else "name:count, as in A100:8"
        )
        raise InvalidValue(
            f"{quoted(text)} is not an accelerator", f"write {example}", "accelerator"
        )
    return Accelerator(head, count)


def cluster_name(text: str) -> str:
    """A name of letters, digits and `.` `_` `-`.

    It begins and ends with a letter or digit, and has at most two separators in a row.
    """
    if not _NAME.fullmatch(text):
        raise InvalidValue(
            f"{quoted(text)} is not a name",
            "use letters, digits and . _ -; begin and end with a letter or digit; at most two "
            "separators in a row",
            "name",
        )
    return text
