"""The accelerators of EC2's instance families.

Transcribed from AWS's page "Specifications for Amazon EC2 accelerated computing instances"
(docs.aws.amazon.com/ec2/latest/instancetypes/ac.html). EC2's own data has errors here: it calls the
H200 of p5en `NVIDIA` and counts the fractions of g6f as whole GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FamilyAccelerator:
    """The accelerator of a type; `count` is None if the price list has to tell it."""

    name: str
    device_gib: float
    maker: str = "NVIDIA"
    count: float | None = None


_L4 = FamilyAccelerator("L4", 22.352)
FAMILIES: dict[str, FamilyAccelerator] = {
    "p2": FamilyAccelerator("K80", 12),
    "p3": FamilyAccelerator("V100", 16),
    "p3dn": FamilyAccelerator("V100-32GB", 32),
    "p4d": FamilyAccelerator("A100", 40),
    "p4de": FamilyAccelerator("A100-80GB", 80),
    "p5": FamilyAccelerator("H100", 80),
    "p5e": FamilyAccelerator("H200", 141),
    "p5en": FamilyAccelerator("H200", 141),
    "p6-b200": FamilyAccelerator("B200", 179.062),
    "p6-b300": FamilyAccelerator("B300", 268.594),
    "g3": FamilyAccelerator("M60", 8),
    "g3s": FamilyAccelerator("M60", 8),
    "g4dn": FamilyAccelerator("T4", 16),
    "g4ad": FamilyAccelerator("V520", 8, "AMD"),
    "g5": FamilyAccelerator("A10G", 22.352),
    "g5g": FamilyAccelerator("T4g", 16),
    "g6": _L4,
    "gr6": _L4,
    "g6f": _L4,
    "gr6f": _L4,
    "g6e": FamilyAccelerator("L40S", 44.703),
    "g7": FamilyAccelerator("RTXPRO4500", 32),
    "g7e": FamilyAccelerator("RTXPRO6000", 96),
    "trn1": FamilyAccelerator("Trainium", 32, "AWS"),
    "trn1n": FamilyAccelerator("Trainium", 32, "AWS"),
    "trn2": FamilyAccelerator("Trainium2", 96, "AWS"),
    "trn2u": FamilyAccelerator("Trainium2", 96, "AWS"),
    "inf1": FamilyAccelerator("Inferentia", 8, "AWS"),
    "inf2": FamilyAccelerator("Inferentia2", 32, "AWS"),
    "dl1": FamilyAccelerator("Gaudi-HL-205", 32, "Habana"),
}
# Types for which the price list's column GPU is empty, or counts a fraction of a GPU as a whole.
COUNTS: dict[str, float] = {
    "g6f.large": 0.125,
    "g6f.xlarge": 0.125,
    "g6f.2xlarge": 0.25,
    "g6f.4xlarge": 0.5,
    "gr6f.4xlarge": 0.5,
    "trn1.2xlarge": 1,
    "trn1.32xlarge": 16,
    "trn1n.32xlarge": 16,
    "trn2.3xlarge": 1,
    "trn2.48xlarge": 16,
    "trn2u.48xlarge": 16,
    "inf1.xlarge": 1,
    "inf1.2xlarge": 1,
    "inf1.6xlarge": 4,
    "inf1.24xlarge": 16,
    "inf2.xlarge": 1,
    "inf2.8xlarge": 1,
    "inf2.24xlarge": 6,
    "inf2.48xlarge": 12,
    "dl1.24xlarge": 8,
}
# Families whose device is neither a GPU nor a training chip. They are not offered as machines with
# an accelerator.
OTHERS = frozenset({"f1", "f2", "vt1"})


def family_of(instance_type: str) -> str:
    """Return the family of a type: `p4d` for `p4d.24xlarge`."""
    return instance_type.partition(".")[0]


def accelerator_of(instance_type: str, listed: float | None) -> FamilyAccelerator | None:
    """Return the accelerator of a type, or None if its family is not in the table.

    Parameters
    ----------
    listed
        How many GPUs the type has according to the price list or EC2.
    """
    known = FAMILIES.get(family_of(instance_type))
    if known is None:
        return None
    return FamilyAccelerator(
        known.name, known.device_gib, known.maker, COUNTS.get(instance_type, listed)
    )
