"""The common form of RunPod's two catalogues.

Types with unit prices, and the data centres that have them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from nbprov.clouds.pricing import gpu_names
from nbprov.model.money import Micros
from nbprov.model.price_list import PriceRow

ARCH = "x86_64"
# The vCPUs and GiB that come with each GPU. RunPod's list has neither, because they differ from
# host to host; these are the usual ones, from its pricing page as SkyPilot's catalog keeps them,
# 2026.
_BESIDE: dict[str, tuple[float, float]] = {
    "A100-80GB": (8, 117),
    "A100-80GB-SXM": (16, 117),
    "A30": (12, 39),
    "A40": (9, 48),
    "B200": (28, 180),
    "H100": (16, 176),
    "H100-NVL": (16, 94),
    "H100-SXM": (20, 125),
    "H200-SXM": (12, 188),
    "L4": (8, 45),
    "L40": (9, 125),
    "L40S": (12, 62),
    "MI300X": (24, 283),
    "RTX2000-Ada": (6, 31),
    "RTX3070": (8, 30),
    "RTX3080": (8, 14),
    "RTX3080-Ti": (8, 18),
    "RTX3090": (4, 25),
    "RTX3090-Ti": (8, 24),
    "RTX4000-Ada": (8, 47),
    "RTX4080": (8, 22),
    "RTX4080-SUPER": (12, 62),
    "RTX4090": (5, 29),
    "RTX5000-Ada": (6, 62),
    "RTX5080": (5, 30),
    "RTX5090": (6, 46),
    "RTX6000-Ada": (10, 62),
    "RTXA4000": (6, 35),
    "RTXA4500": (7, 30),
    "RTXA5000": (3, 25),
    "RTXA6000": (8, 50),
    "RTXPRO4500": (28, 62),
    "RTXPRO6000": (14, 125),
    "RTXPRO6000-MaxQ": (18, 215),
    "RTXPRO6000-WK": (12, 186),
}
_COUNTRY_FIRST = ("US", "CA")
_CENTRE = re.compile(r"^([A-Z]+)-([A-Z]+)-\d+$")


@dataclass(frozen=True, slots=True)
class CatalogGpu:
    """One type of GPU in the secure cloud.

    The hourly prices of one, and the most that one machine has.
    """

    id: str
    said: str
    memory_gb: float | None
    maker: str
    most: int
    on_demand: Micros | None
    spot: Micros | None = None

    @property
    def name(self) -> str:
        """The name in nbprov's catalogue, with the form factor if RunPod sells several."""
        return gpu_names.read(self.said, self.memory_gb).formed


@dataclass(frozen=True, slots=True)
class CatalogCpu:
    """One flavour of CPU pods: the hourly price of a vCPU, GB for each vCPU, and the sizes."""

    id: str
    least: int
    most: int
    gib_a_vcpu: float
    each: Micros


@dataclass(frozen=True, slots=True)
class Centre:
    """A data centre and the ids of the types it has."""

    id: str
    gpus: frozenset[str] = frozenset()
    cpus: frozenset[str] = frozenset()

    @property
    def region(self) -> str:
        """Its country.

        Examples
        --------
        >>> [Centre(name).region for name in ("EU-CZ-1", "US-TX-3", "CA-MTL-1", "EUR-IS-2", "MOON")]
        ['CZ', 'US', 'CA', 'IS', 'MOON']
        """
        parts = _CENTRE.match(self.id)
        if parts is None:
            return self.id
        return parts[1] if parts[1] in _COUNTRY_FIRST else parts[2]


@dataclass(frozen=True, slots=True)
class Offered:
    """The content of one catalogue.

    Attributes
    ----------
    unread
        How many types were left out because their price or number could not be read.
    """

    gpus: tuple[CatalogGpu, ...]
    centres: tuple[Centre, ...]
    cpus: tuple[CatalogCpu, ...] = ()
    unread: int = 0
    notes: tuple[str, ...] = field(default=())


def rows(offered: Offered) -> Iterator[PriceRow]:
    """Make a row for every type, number of units, and data centre that has it."""
    for centre in offered.centres:
        for gpu in offered.gpus:
            if gpu.id in centre.gpus:
                yield from (_gpu_row(centre, gpu, count) for count in range(1, gpu.most + 1))
        for cpu in offered.cpus:
            if cpu.id in centre.cpus:
                yield from _cpu_rows(centre, cpu)


def _gpu_row(centre: Centre, gpu: CatalogGpu, count: int) -> PriceRow:
    vcpus, gib = _BESIDE.get(gpu.name, (0, 0))
    known = gpu_names.read(gpu.said, gpu.memory_gb)
    return PriceRow(
        centre.region,
        f"{count}x_{gpu.name}_SECURE",
        centre.id,
        gpu.name,
        count,
        known.device_gib,
        known.maker or gpu.maker,
        vcpus * count or None,
        gib * count or None,
        ARCH,
        gpu.on_demand * count if gpu.on_demand is not None else None,
        gpu.spot * count if gpu.spot is not None else None,
    )


def _cpu_rows(centre: Centre, cpu: CatalogCpu) -> Iterator[PriceRow]:
    vcpus = max(1, cpu.least)
    while vcpus <= cpu.most:
        gib = vcpus * cpu.gib_a_vcpu
        yield PriceRow(
            centre.region,
            f"{cpu.id}-{vcpus}-{gib:g}",
            centre.id,
            vcpus=vcpus,
            memory_gib=gib,
            arch=ARCH,
            on_demand=cpu.each * vcpus,
        )
        vcpus *= 2
