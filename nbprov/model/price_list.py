"""What a provider's own price list says, before it becomes rows of the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .money import MICROS_PER_USD, Micros

MOST_HOURLY: Micros = 1_000_000 * MICROS_PER_USD
"""What is dearer an hour is no price of a machine but a slip of somebody's list."""


@dataclass(frozen=True, slots=True)
class PriceRow:
    """One machine in one place with its prices an hour.

    Attributes
    ----------
    zone
        Empty where the price holds for the whole region.
    instance_type
        Empty for an accelerator that is sold apart from its host.
    accelerator, count, device_gib, maker
        Name as the catalogue writes it (`A100-80GB`), how many, GiB of one device (None where not said), `NVIDIA`, `AMD`, ….
    vcpus, memory_gib
        None where the provider does not say.
    on_demand, spot
        None where it is not sold so, or its price is not known.
    """

    region: str
    instance_type: str
    zone: str = ""
    accelerator: str = ""
    count: float = 0.0
    device_gib: float | None = None
    maker: str = ""
    vcpus: float | None = None
    memory_gib: float | None = None
    arch: str = ""
    on_demand: Micros | None = None
    spot: Micros | None = None


@dataclass(frozen=True, slots=True)
class PriceList:
    """What one fetch of one cloud brought.

    Attributes
    ----------
    rows
        What is sold, as the provider lists it.
    source, as_of
        Where it comes from, in words a person knows, and its date (`YYYY-MM-DD`).
    spot_source
        Where the spot prices come from, if from elsewhere.
    failed
        Region to the reason why it could not be read: its old rows are kept. A whole cloud that cannot be read raises instead.
    covered
        Regions this list speaks of; the old rows of others are kept. None: all.
    unseen
        Kinds of rows this list does not speak of, whose old rows are kept: `cpu` where only machines with accelerators were
        read, `spot` where no spot price was.
    notes
        What a person should know of this list, one line each.
    """

    rows: tuple[PriceRow, ...]
    source: str
    as_of: str
    spot_source: str = ""
    failed: Mapping[str, str] = field(default_factory=dict)
    covered: frozenset[str] | None = None
    unseen: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
