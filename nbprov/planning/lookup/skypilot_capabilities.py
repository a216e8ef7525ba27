"""What SkyPilot 0.14.1 takes each cloud to be able to do: for comparisons, and for clouds that are only in the catalogue.

A demand that its table rules a cloud out for is absent here; nbprov's own adapters say for themselves what they can do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nbprov.clouds.base import Capabilities

from .enabled_clouds import EnabledCloud

THREE_TIERS = frozenset({"low", "medium", "high"})
ALL_TIERS = THREE_TIERS | {"ultra"}

SKYPILOT_FEATURES: Mapping[str, Capabilities] = {
    "aws": Capabilities(
        spot=True, stop=True, images=True, disk_tiers=ALL_TIERS, network_best=True, local_disk=True
    ),
    "azure": Capabilities(spot=True, stop=True, images=True, disk_tiers=THREE_TIERS),
    "cudo": Capabilities(docker=False),
    "do": Capabilities(stop=True, images=True),
    "gcp": Capabilities(
        spot=True,
        stop=True,
        images=True,
        disk_tiers=ALL_TIERS,
        network_best=True,
        accelerator_args=True,
    ),
    "hyperstack": Capabilities(),
    "lambda": Capabilities(),
    "nebius": Capabilities(
        spot=True, stop=True, images=True, disk_tiers=THREE_TIERS, network_best=True
    ),
    "oci": Capabilities(spot=True, stop=True, images=True, disk_tiers=THREE_TIERS),
    "primeintellect": Capabilities(spot=True, multi_node=False, docker=False, ports=False),
    "runpod": Capabilities(spot=True, multi_node=False, images=True),
    "vast": Capabilities(spot=True, stop=True, multi_node=False, images=True),
}
"""By cloud. `network_best` on Nebius holds for its machines with eight H100 or H200 (`features.py` looks at the type)."""


def skypilot_clouds(names: Iterable[str], account: str = "") -> dict[str, EnabledCloud]:
    """These clouds as enabled, able to do what SkyPilot takes them to be able to do; a name it does not know can do the usual.

    Examples
    --------
    >>> skypilot_clouds(["lambda"])["lambda"].capabilities.spot
    False
    """
    return {
        name: EnabledCloud(account, SKYPILOT_FEATURES.get(name, Capabilities())) for name in names
    }
