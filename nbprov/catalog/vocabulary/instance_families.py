"""What a type's name tells: its family, its quota, and whether its region is in the US."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from .geography import ground_of

DEFAULT_FAMILIES = "default"
"""Value of `Query.families` that means each cloud's own general-purpose families."""

GENERAL_PURPOSE: Mapping[str, frozenset[str]] = {
    "aws": frozenset({"m6i", "m6id", "m7i", "r6i", "r6id", "r7i", "c6i", "c6id", "c7i"}),
    "azure": frozenset({"Ds_v5", "Es_v5", "Fs_v2"}),
    "gcp": frozenset(
        f"{series}-{kind}" for series in ("n2", "n4") for kind in ("standard", "highmem", "highcpu")
    ),
}
"""The families that serve a request without accelerator and type.

For clouds that are not named here, everything that they sell is default.
"""

MEMORY_IS_TYPICAL = frozenset({"runpod", "primeintellect"})
"""Clouds whose memory figure beside an accelerator is typical, not a promise or a limit."""

_AZURE = re.compile(r"^Standard_([A-Z]+)\d+(?:-\d+)?([a-z]*)((?:_[A-Za-z0-9]+)*)$")


@cache
def family_of(cloud: str, instance_type: str) -> str:
    """Return the family of a type: its letters and suffix without the size.

    Examples
    --------
    >>> family_of("aws", "m6i.2xlarge"), family_of("azure", "Standard_D8s_v5")
    ('m6i', 'Ds_v5')
    >>> family_of("gcp", "n2-highmem-4")
    'n2-highmem'
    """
    if cloud == "aws":
        return instance_type.partition(".")[0]
    if cloud == "gcp":
        return "-".join(instance_type.partition("+")[0].split("-")[:2])
    if cloud == "azure":
        match = _AZURE.match(instance_type)
        return "".join(match.groups()) if match else instance_type
    return ""


def is_default_family(cloud: str, instance_type: str, accelerator: str) -> bool:
    """Tell whether a request that names neither accelerator nor type may get this machine."""
    families = GENERAL_PURPOSE.get(cloud)
    return families is None or (not accelerator and family_of(cloud, instance_type) in families)


# EC2's on-demand and spot limits are separate but grouped alike; a block's market is its own field.
_AWS_QUOTA = (
    (re.compile(r"^(inf)\d"), "Inf"),
    (re.compile(r"^(trn)\d"), "Trn"),
    (re.compile(r"^(dl)\d"), "DL"),
    (re.compile(r"^(hpc)\d"), "HPC"),
    (re.compile(r"^(u-|u\d)"), "High Memory"),
    (re.compile(r"^(mac)"), "Mac"),
    (re.compile(r"^p\d"), "P"),
    (re.compile(r"^(g|gr|vt)\d"), "G and VT"),
    (re.compile(r"^f\d"), "F"),
    (re.compile(r"^x\d"), "X"),
    (re.compile(r"^[acdhimrtz]\w*\d"), "Standard"),
)


@cache
def quota_family(cloud: str, instance_type: str, accelerator: str) -> str:
    """Return the name of the limit that the cloud counts this type against.

    The name is empty if limits go by type or are not known.

    Examples
    --------
    >>> quota_family("aws", "g5.xlarge", "A10G"), quota_family("aws", "m6i.large", "")
    ('G and VT', 'Standard')
    >>> quota_family("gcp", "a2-highgpu-1g", "A100")
    'A100'
    """
    if cloud == "aws":
        return next((name for pattern, name in _AWS_QUOTA if pattern.match(instance_type)), "")
    return accelerator if cloud == "gcp" else ""


def is_us(cloud: str, region: str) -> bool:
    """Tell whether a region lies in the United States, as far as its name tells.

    Examples
    --------
    >>> is_us("aws", "us-east-1"), is_us("azure", "australiaeast"), is_us("vast", "Texas, US, NA")
    (True, False, True)
    """
    return ground_of(cloud, region).country == "US"
