"""The disk type of each tier, by machine family.

Source: Google's pages "About Persistent Disk" and "About Google Cloud Hyperdisk", with their tables
of machine series (as of 2026-07); newer series take only Hyperdisk. The tiers `low` to `ultra` are
SkyPilot's: pd-standard, pd-balanced, pd-ssd, pd-extreme.
"""

from __future__ import annotations

from nbprov.model.failures import Cause, CloudError, Failure

TIERS = ("low", "medium", "high", "ultra")
USUAL = "medium"
HYPERDISK_ONLY = frozenset(
    {"a4", "a4x", "c4", "c4a", "c4d", "g4", "h4d", "m4", "n4", "n4a", "n4d", "x4"}
)
HYPERDISK_SERIES = ("a3-ultragpu", "a3-edgegpu")
NO_STANDARD = frozenset({"a3", "c3", "c3d", "g2", "h3", "m3", "z3"})
EXTREME_VCPUS = 64
"""pd-extreme is for machines of at least this many vCPUs, of the families named here."""
EXTREME = frozenset({"n2", "m1", "m2", "m3"})


def disk_type(instance_type: str, tier: str, vcpus: float | None = None) -> str:
    """Return the type of a boot disk.

    Raises
    ------
    CloudError
        `not_offered` if this machine takes no disk of that tier.

    Examples
    --------
    >>> disk_type("n1-standard-4", ""), disk_type("g2-standard-4", "low")
    ('pd-balanced', 'pd-balanced')
    >>> disk_type("a4-highgpu-8g", "high")
    'hyperdisk-balanced'
    """
    family = instance_type.partition("-")[0]
    extreme = family in EXTREME and (vcpus or 0) >= EXTREME_VCPUS
    if family in HYPERDISK_ONLY or instance_type.startswith(HYPERDISK_SERIES):
        if tier == "ultra":
            raise _none(instance_type)
        return "hyperdisk-balanced"
    wanted = tier or USUAL
    if wanted == "best":
        wanted = "ultra" if extreme else "high"
    if wanted == "ultra" and not extreme:
        raise _none(instance_type)
    if wanted == "low" and family in NO_STANDARD:
        wanted = "medium"
    return {"low": "pd-standard", "medium": "pd-balanced", "high": "pd-ssd", "ultra": "pd-extreme"}[
        wanted
    ]


def _none(instance_type: str) -> CloudError:
    words = (
        f"{instance_type} takes no disk of the tier ultra: Google has pd-extreme for N2 "
        f"and M machines with {EXTREME_VCPUS} vCPUs or more"
    )
    return CloudError(Failure(Cause.NOT_OFFERED, words, "disk-tier"))
