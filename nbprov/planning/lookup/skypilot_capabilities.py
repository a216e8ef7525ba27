"""What SkyPilot 0.14.1 expects each cloud to be able to do.

It is used for comparisons, and for clouds that are only in the catalogue.

A capability is absent here if SkyPilot's table rules the cloud out for it. nbprov's own adapters
declare their capabilities themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from nbprov.clouds.base import Capabilities

from .enabled_clouds import EnabledCloud

THREE_TIERS = frozenset({"low", "medium", "high"})
ALL_TIERS = THREE_TIERS | {"ultra"}

_usual = partial(
    Capabilities,
    multi_node=True,
    ports=True,
    docker=True,
    disk_sizes=True,
)

SKYPILOT_FEATURES: Mapping[str, Capabilities] = {
    "aws": _usual(
        spot=True, stop=True, images=True, disk_tiers=ALL_TIERS, network_best=True, local_disk=True
    ),
    "azure": _usual(spot=True, stop=True, images=True, disk_tiers=THREE_TIERS),
    "cudo": _usual(docker=False),
    "do": _usual(stop=True, images=True),
    "gcp": _usual(
        spot=True,
        stop=True,
        images=True,
        disk_tiers=ALL_TIERS,
        network_best=True,
        accelerator_args=True,
    ),
    "hyperstack": _usual(),
    "lambda": _usual(),
    "nebius": _usual(spot=True, stop=True, images=True, disk_tiers=THREE_TIERS, network_best=True),
    "oci": _usual(spot=True, stop=True, images=True, disk_tiers=THREE_TIERS),
    "primeintellect": _usual(spot=True, multi_node=False, docker=False, ports=False),
    "runpod": _usual(spot=True, multi_node=False, images=True),
    "vast": _usual(spot=True, stop=True, multi_node=False, images=True),
}
"""Capabilities by cloud. On Nebius `network_best` holds for machines with eight H100 or H200;
`machines.py` looks at the type.
"""


def skypilot_clouds(names: Iterable[str], account: str = "") -> dict[str, EnabledCloud]:
    """These clouds as enabled, with the capabilities that SkyPilot expects of them.

    A name that it does not know has the usual capabilities.

    Examples
    --------
    >>> skypilot_clouds(["lambda"])["lambda"].capabilities.spot
    False
    """
    return {name: EnabledCloud(account, SKYPILOT_FEATURES.get(name, _usual())) for name in names}
