"""The machine types of Compute Engine, for which a price has to be added up.

Google bills a machine by its parts (cores, memory, accelerators, local SSD) and nowhere lists which
parts a type has, so the sizes stand here. Source: Google's pages on machine families
("Accelerator-optimized machine family", "General-purpose machine family", "Compute-optimized
machine family"), also as transcribed in google-cloud-pricing-cost-calculator `build/gcp.yml`
(Apache-2.0); as of 2026-07.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

PARTITION_GIB = 375
"""The size of one local SSD of the accelerator-optimized machines."""


@dataclass(frozen=True, slots=True)
class Device:
    """An accelerator.

    Its name in the catalogue, its memory in GiB, and its name in the Compute API.
    """

    name: str
    gib: float
    api_name: str


@dataclass(frozen=True, slots=True)
class MachineType:
    """One machine type and the parts it is billed by.

    Attributes
    ----------
    name
        Empty for accelerators that are sold apart from their host.
    host
        The family whose core and memory prices apply; empty if the accelerator's price includes the
        host.
    ssd_gib
        Local SSD that always comes with the machine and is billed with it.
    spot_only
        Not sold on demand: only as spot, flex-start or reserved.
    """

    name: str
    host: str = ""
    vcpus: float = 0.0
    memory_gib: float = 0.0
    device: Device | None = None
    count: float = 0.0
    ssd_gib: float = 0.0
    spot_only: bool = False

    @property
    def series(self) -> str:
        """The part of the name before the size: `a2-highgpu`, `n1-standard`."""
        return "-".join(self.name.split("-")[:2])


A100 = Device("A100", 40, "nvidia-tesla-a100")
A100_80 = Device("A100-80GB", 80, "nvidia-a100-80gb")
H100 = Device("H100", 80, "nvidia-h100-80gb")
H100_MEGA = Device("H100-MEGA", 80, "nvidia-h100-mega-80gb")
H200 = Device("H200", 141, "nvidia-h200-141gb")
B200 = Device("B200", 180, "nvidia-b200")
L4 = Device("L4", 24, "nvidia-l4")
RTX_PRO_6000 = Device("RTXPRO6000", 96, "nvidia-rtx-pro-6000")
K80 = Device("K80", 12, "nvidia-tesla-k80")
P4 = Device("P4", 8, "nvidia-tesla-p4")
P100 = Device("P100", 16, "nvidia-tesla-p100")
T4 = Device("T4", 16, "nvidia-tesla-t4")
V100 = Device("V100", 16, "nvidia-tesla-v100")

DEVICES = (A100, A100_80, H100, H100_MEGA, H200, B200, L4, RTX_PRO_6000, K80, P4, P100, T4, V100)
# These attach to N1 hosts of many sizes; the catalogue joins them.
ATTACHED = {K80: (1, 2, 4, 8), P4: (1, 2, 4), P100: (1, 2, 4), T4: (1, 2, 4), V100: (1, 2, 4, 8)}

_A2 = {1: (12, 85), 2: (24, 170), 4: (48, 340), 8: (96, 680)}
_A2_ULTRA = {1: (12, 170), 2: (24, 340), 4: (48, 680), 8: (96, 1360)}
_A3 = {1: (26, 234), 2: (52, 468), 4: (104, 936), 8: (208, 1872)}
_G2 = {4: 1, 8: 1, 12: 1, 16: 1, 24: 2, 32: 1, 48: 4, 96: 8}
_G4 = {6: 22, 12: 45, 24: 90, 48: 180, 96: 360, 192: 720, 384: 1440}
_G4_VCPUS_A_DEVICE = 48

# Series: GiB for each vCPU, and its sizes in vCPUs.
_EVEN = (2, 4, 8, 16, 32, 48, 64, 80, 96)
_PLAIN: dict[str, tuple[float, tuple[int, ...]]] = {
    "n1-standard": (3.75, (1, 2, 4, 8, 16, 32, 64, 96)),
    "n1-highmem": (6.5, (2, 4, 8, 16, 32, 64, 96)),
    "n1-highcpu": (0.9, (2, 4, 8, 16, 32, 64, 96)),
    "n2-standard": (4, (*_EVEN, 128)),
    "n2-highmem": (8, _EVEN),
    "n2-highcpu": (1, _EVEN),
    "n2d-standard": (4, (*_EVEN, 128, 224)),
    "n2d-highmem": (8, _EVEN),
    "n2d-highcpu": (1, (*_EVEN, 128, 224)),
    "n4-standard": (4, _EVEN[:-1]),
    "n4-highmem": (8, _EVEN[:-1]),
    "n4-highcpu": (2, _EVEN[:-1]),
    "e2-standard": (4, (2, 4, 8, 16, 32)),
    "e2-highmem": (8, (2, 4, 8, 16)),
    "e2-highcpu": (1, (2, 4, 8, 16, 32)),
    "t2d-standard": (4, (1, 2, 4, 8, 16, 32, 48, 60)),
    "c2-standard": (4, (4, 8, 16, 30, 60)),
    "c2d-standard": (4, (2, 4, 8, 16, 32, 56, 112)),
    "c2d-highmem": (8, (2, 4, 8, 16, 32, 56, 112)),
    "c2d-highcpu": (2, (2, 4, 8, 16, 32, 56, 112)),
    "c3-standard": (4, (4, 8, 22, 44, 88, 176)),
    "c3-highmem": (8, (4, 8, 22, 44, 88, 176)),
    "c3-highcpu": (2, (4, 8, 22, 44, 88, 176)),
}


@cache
def machines() -> tuple[MachineType, ...]:
    """Return all known types.

    Those with accelerators first, and accelerators sold apart without a name.
    """
    return (*_accelerated(), *_apart(), *_plain())


def _accelerated() -> Iterator[MachineType]:
    for count, (vcpus, gib) in _A2.items():
        yield MachineType(f"a2-highgpu-{count}g", "a2", vcpus, gib, A100, count)
    yield MachineType("a2-megagpu-16g", "a2", 96, 1360, A100, 16)
    for count, (vcpus, gib) in _A2_ULTRA.items():
        yield MachineType(
            f"a2-ultragpu-{count}g", "a2", vcpus, gib, A100_80, count, ssd_gib=count * PARTITION_GIB
        )
    for count, (vcpus, gib) in _A3.items():
        yield MachineType(
            f"a3-highgpu-{count}g",
            "a3",
            vcpus,
            gib,
            H100,
            count,
            ssd_gib=2 * count * PARTITION_GIB,
            spot_only=count < 8,
        )
    yield MachineType(
        "a3-megagpu-8g", "a3plus", 208, 1872, H100_MEGA, 8, ssd_gib=16 * PARTITION_GIB
    )
    yield MachineType("a3-ultragpu-8g", "a3ultra", 224, 2952, H200, 8, ssd_gib=32 * PARTITION_GIB)
    yield MachineType("a4-highgpu-8g", "", 224, 3968, B200, 8)
    for vcpus, count in _G2.items():
        yield MachineType(f"g2-standard-{vcpus}", "g2", vcpus, vcpus * 4, L4, count)
    for vcpus, gib in _G4.items():
        yield MachineType(
            f"g4-standard-{vcpus}", "g4", vcpus, gib, RTX_PRO_6000, vcpus / _G4_VCPUS_A_DEVICE
        )


def _apart() -> Iterator[MachineType]:
    for device, counts in ATTACHED.items():
        for count in counts:
            yield MachineType("", device=device, count=count)


def _plain() -> Iterator[MachineType]:
    for series, (ratio, sizes) in _PLAIN.items():
        family = series.partition("-")[0]
        for vcpus in sizes:
            yield MachineType(f"{series}-{vcpus}", family, vcpus, round(vcpus * ratio, 2))
    yield MachineType("n2-highmem-128", "n2", 128, 864)
