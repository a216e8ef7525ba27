"""The size a device is sold under."""

from __future__ import annotations

from functools import cache

_SOLD = (
    4,
    5,
    6,
    8,
    10,
    11,
    12,
    16,
    20,
    24,
    32,
    40,
    44,
    48,
    64,
    80,
    94,
    96,
    128,
    141,
    144,
    180,
    192,
    256,
    288,
)
"""Sizes in GB that makers print on accelerators."""
_SAME = 0.006
"""A device that reports its size in GiB under its name in GB keeps back up to this part for itself."""
_DECIMAL = 2**30 / 10**9
_RESERVED = 0.015
"""The same where the name is in decimal GB."""


@cache
def nominal_gb(reported_gib: float | None) -> float | None:
    """The GB a device is sold under, from the GiB a cloud reports; the figure itself where it is
    near no known size.

    Examples
    --------
    >>> nominal_gb(22.352), nominal_gb(24.0), nominal_gb(44.99), nominal_gb(93.58), nominal_gb(17.0)
    (24.0, 24.0, 48.0, 94.0, 17.0)
    """
    if reported_gib is None:
        return None
    for factor, slack in ((1.0, _SAME), (_DECIMAL, _RESERVED)):
        near = min(_SOLD, key=lambda size: abs(size - reported_gib * factor))
        if abs(near - reported_gib * factor) <= slack * near:
            return float(near)
    return reported_gib
