"""Where a machine can be (cloud, region, zone), and how it is bought."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Market(StrEnum):
    """How a machine is bought: for as long as wanted, or until the cloud takes it back."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A place in a cloud.

    `zone` is empty if the cloud has no zones, or if any zone of the region will do.

    Examples
    --------
    >>> str(Place("aws", "us-east-1", "use1-az1"))
    'aws/us-east-1/use1-az1'
    """

    cloud: str
    region: str
    zone: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in (self.cloud, self.region, self.zone) if part)
