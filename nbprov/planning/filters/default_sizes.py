"""The machine of a request that names neither accelerator nor type: how big it is where the request does not say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nbprov.model.spec import Request


@dataclass(frozen=True, slots=True)
class DefaultSize:
    """What holds where a request is silent.

    Attributes
    ----------
    vcpus
        At least so many where neither vCPUs nor memory are asked.
    gib_per_vcpu
        At least so much memory where memory is not asked; keeps `cpus: 4+` off machines of the compute-optimised families.
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
"""SkyPilot's, cloud by cloud, and the usual one where it has no say. Those that are not named here (RunPod, Nebius, DO, Vast, PrimeIntellect, `local`,
clouds from outside) have no default size: any machine serves a silent request."""


def default_size(cloud: str, families: tuple[str, ...] = ()) -> DefaultSize | None:
    """The default size of a cloud; None where it has none. A cloud whose adapter names its general-purpose `families` has the usual one."""
    return DEFAULT_SIZES.get(cloud) or (USUAL if families else None)


def is_plain(request: Request) -> bool:
    """Whether a request leaves the choice of machine to the default rules."""
    return request.accelerator is None and not request.instance_type
