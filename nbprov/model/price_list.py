"""The price list of a provider, before it becomes rows of the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .money import MICROS_PER_USD, Micros

MOST_HOURLY: Micros = 1_000_000 * MICROS_PER_USD
"""A higher price per hour is a mistake in somebody's list."""


@dataclass(frozen=True, slots=True)
class PriceRow:
    """One machine in one place with its prices per hour.

    Attributes
    ----------
    zone
        Empty if the price holds for the whole region.
    instance_type
        Empty for an accelerator that is sold separately from its host.
    accelerator, count, device_gib, maker
        The catalogue's name (`A100-80GB`), how many, GiB of one device (None if not known), and
        `NVIDIA`, `AMD` or another maker.
    vcpus, memory_gib
        None if the provider does not say.
    on_demand, spot
        None if it is not sold in this market, or its price is not known.
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
    """The result of one fetch from one cloud.

    Attributes
    ----------
    rows
        What is sold, as the provider lists it.
    source, as_of
        Where it comes from, in words that a person knows, and its date (`YYYY-MM-DD`).
    spot_source
        Where the spot prices come from, if from elsewhere.
    failed
        The reason why a region could not be read, by region; its old rows are kept. If a whole
        cloud cannot be read, the fetch raises instead.
    covered
        The regions of this list; the old rows of others are kept. None means all regions.
    unseen
        Kinds of rows that this list leaves out, whose old rows are kept: `cpu` if only machines
        with accelerators were read, `spot` if no spot price was.
    notes
        What a person should know about this list, one line each.
    """

    rows: tuple[PriceRow, ...]
    source: str
    as_of: str
    spot_source: str = ""
    failed: Mapping[str, str] = field(default_factory=dict)
    covered: frozenset[str] | None = None
    unseen: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
