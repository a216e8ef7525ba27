"""The size of a machine where a request names neither accelerator nor type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nbprov.model.resources import Request


@dataclass(frozen=True, slots=True)
class DefaultSize:
    """The size that holds where a request says nothing.

    Attributes
    ----------
    vcpus
        Least number of vCPUs if neither vCPUs nor memory are requested.
    gib_per_vcpu
        Least memory per vCPU if no memory is requested; it keeps `cpus: 4+` off compute-optimised
        families.
    """

    vcpus: float
    gib_per_vcpu: float


USUAL = DefaultSize(vcpus=8, gib_per_vcpu=4)

DEFAULT_SIZES: Mapping[str, DefaultSize] = {
    "aws": USUAL,
    "azure": USUAL,
    "gcp": USUAL,
    "lambda": DefaultSize(vcpus=30, gib_per_vcpu=4),
    "cudo": DefaultSize(vcpus=8, gib_per_vcpu=2),
    "hyperstack": USUAL,
}
"""SkyPilot's sizes by cloud, and the usual one where it has none.

Clouds that are not named (RunPod, Nebius, DO, Vast, PrimeIntellect, `local`, and clouds from
outside) have no default size.
"""


def default_size(cloud: str, families: tuple[str, ...] = ()) -> DefaultSize | None:
    """The default size of a cloud; None if it has none.

    A cloud whose adapter names its general-purpose `families` has the usual size.
    """
    return DEFAULT_SIZES.get(cloud) or (USUAL if families else None)


def is_plain(request: Request) -> bool:
    """Whether a request leaves the choice of machine to the default rules."""
    return request.accelerator is None and not request.instance_type
