"""What a type's name tells: its family, the quota it counts against, whether its region is in the
US.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from .geography import ground_of

DEFAULT_FAMILIES = "default"
"""In `Query.families`: each cloud's own general-purpose families."""

GENERAL_PURPOSE: Mapping[str, frozenset[str]] = {
    "aws": frozenset({"m6i", "m6id", "m7i", "r6i", "r6id", "r7i", "c6i", "c6id", "c7i"}),
    "azure": frozenset({"Ds_v5", "Es_v5", "Fs_v2"}),
    "gcp": frozenset(
        f"{series}-{kind}" for series in ("n2", "n4") for kind in ("standard", "highmem", "highcpu")
    ),
}
"""The families a request without accelerator and type is served from.

Clouds that are not named here have no such choice: all they sell is default.
"""

MEMORY_IS_TYPICAL = frozenset({"runpod", "primeintellect"})
"""Clouds whose memory figure beside an accelerator is what such a machine usually has, neither a
promise nor a limit.
"""

_AZURE = re.compile(r"^Standard_([A-Z]+)\d+(?:-\d+)?([a-z]*)((?:_[A-Za-z0-9]+)*)$")


@cache
def family_of(cloud: str, instance_type: str) -> str:
    """The family of a type: letters and suffix without the size.

    Examples
    --------
    >>> family_of("aws", "m6i.2xlarge"), family_of("azure", "Standard_D8s_v5"), family_of("gcp", "n2-highmem-4")
    ('m6i', 'Ds_v5', 'n2-highmem')
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
    """Whether a request that names neither accelerator nor type may be given this machine."""
    families = GENERAL_PURPOSE.get(cloud)
    return families is None or (not accelerator and family_of(cloud, instance_type) in families)


# On-demand and spot limits of EC2 are separate but grouped alike; the market is a field of its own
# in a block.
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
    """What the cloud counts against one limit together with this type; empty where limits go by
    type or are not known.

    Examples
    --------
    >>> quota_family("aws", "g5.xlarge", "A10G"), quota_family("aws", "m6i.large", ""), quota_family("gcp", "a2-highgpu-1g", "A100")
    ('G and VT', 'Standard', 'A100')
    """
    if cloud == "aws":
        return next((name for pattern, name in _AWS_QUOTA if pattern.match(instance_type)), "")
    return accelerator if cloud == "gcp" else ""


def is_us(cloud: str, region: str) -> bool:
    """Whether a region lies in the United States, as far as its name tells.

    Examples
    --------
    >>> is_us("aws", "us-east-1"), is_us("azure", "australiaeast"), is_us("vast", "Texas, US, NA")
    (True, False, True)
    """
    return ground_of(cloud, region).country == "US"
