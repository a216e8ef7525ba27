"""Disks inside a machine: which instance types have one, and how big it is.

Price files do not tell. EC2 publishes these figures for each type; a type that is not listed here
counts as having none.
"""

from __future__ import annotations

from collections.abc import Mapping

from nbprov.model.resources import LocalDisk

_SIX = (
    "large 118 xlarge 237 2xlarge 474 4xlarge 950 "
    "8xlarge 1900 12xlarge 2850 16xlarge 3800 24xlarge 5700 32xlarge 7600"
)
_FIVE = (
    "large 75 xlarge 150 2xlarge 300 4xlarge 600 "
    "8xlarge 1200 12xlarge 1800 16xlarge 2400 24xlarge 3600"
)
_GRAVITON = (
    "medium 59 large 118 xlarge 237 2xlarge 474 "
    "4xlarge 950 8xlarge 1900 12xlarge 2850 16xlarge 3800"
)
_G5 = (
    "xlarge 250 2xlarge 450 4xlarge 600 8xlarge 900 "
    "12xlarge 3800 16xlarge 1900 24xlarge 3800 48xlarge 7600"
)
_P5 = "48xlarge 30720"

_AWS: Mapping[str, str] = {
    "c5d": (
        "large 50 xlarge 100 2xlarge 200 4xlarge 400 "
        "9xlarge 900 12xlarge 1800 18xlarge 1800 24xlarge 3600"
    ),
    "c6gd": _GRAVITON,
    "c6id": _SIX,
    "g4ad": "xlarge 150 2xlarge 300 4xlarge 600 8xlarge 1200 16xlarge 2400",
    "g4dn": "xlarge 125 2xlarge 225 4xlarge 225 8xlarge 900 12xlarge 900 16xlarge 900 metal 1800",
    "g5": _G5,
    "g6": (
        "xlarge 250 2xlarge 450 4xlarge 600 8xlarge 900 "
        "12xlarge 3760 16xlarge 1880 24xlarge 3760 48xlarge 7520"
    ),
    "g6e": _G5,
    "gr6": "4xlarge 600 8xlarge 900",
    "i3": "large 475 xlarge 950 2xlarge 1900 4xlarge 3800 8xlarge 7600 16xlarge 15200",
    "i4i": (
        "large 468 xlarge 937 2xlarge 1875 4xlarge 3750 8xlarge 7500 16xlarge 15000 32xlarge 30000"
    ),
    "m5d": _FIVE,
    "m5dn": _FIVE,
    "m6gd": _GRAVITON,
    "m6id": _SIX,
    "p3dn": "24xlarge 1800",
    "p4d": "24xlarge 8000",
    "p4de": "24xlarge 8000",
    "p5": "4xlarge 3840 48xlarge 30720",
    "p5e": _P5,
    "p5en": _P5,
    "p6-b200": _P5,
    "r5d": _FIVE,
    "r5dn": _FIVE,
    "r6gd": _GRAVITON,
    "r6id": _SIX,
    "trn1": "2xlarge 474 32xlarge 7600",
    "z1d": "large 75 xlarge 150 2xlarge 300 3xlarge 450 6xlarge 900 12xlarge 1800",
}


def _sizes() -> dict[str, float]:
    sizes: dict[str, float] = {}
    for family, text in _AWS.items():
        words = text.split()
        sizes |= {
            f"{family}.{size}": float(gb) for size, gb in zip(words[::2], words[1::2], strict=True)
        }
    return sizes


LOCAL_DISK_GB: Mapping[str, float] = _sizes()
"""GB of all disks inside the machine together, by instance type; all are NVMe."""


def has_local_disk(instance_type: str, asked: LocalDisk) -> bool:
    """Whether a type has the requested disk; NVMe also meets `ssd`.

    Examples
    --------
    >>> has_local_disk("g5.xlarge", LocalDisk("nvme", 200))
    True
    >>> has_local_disk("m6i.large", LocalDisk())
    False
    """
    size = LOCAL_DISK_GB.get(instance_type)
    if size is None:
        return False
    return size >= asked.size_gb if asked.at_least else abs(size - asked.size_gb) <= 0.5
