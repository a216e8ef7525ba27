"""The query: the conditions that wanted catalogue rows meet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from nbprov.model.money import Micros
from nbprov.model.places import Market
from nbprov.model.resources import Quantity

from .errors import QueryError

Names = str | tuple[str, ...]
"""One name or several; empty means any.

In a region or zone, `*` stands for any text and `?` for any one letter.
"""


@dataclass(frozen=True, slots=True)
class Query:
    """The conditions that rows must meet.

    An empty field means any value; several values in a field mean any of these.

    Attributes
    ----------
    accelerator
        Names as the catalogue has them (`Catalog.resolve_accelerator` makes them so); case is
        ignored. `*` and `?` as in a region; `/A100.*/` is a regular expression, looked for anywhere
        in the name.
    count
        Number of accelerators in a machine, within 0.01; with `count_at_least`, that many or more.
    cpus, memory
        Demands on vCPUs and on GiB of memory. A row without the figure does not satisfy a demand,
        but memory beside an accelerator counts as met on clouds whose figure is only typical
        (`MEMORY_IS_TYPICAL`).
    cloud, region, zone, instance_type
        Case is ignored. A region may be a word for a country or a part of the world (`eu`, `de`,
        `germany`, `north america`): in a cloud that has a region of exactly this name it means that
        region, elsewhere all regions that lie there. An AWS zone may be written as an account calls
        it (`us-east-1a`) if its names are known (`nbprov.catalog.sources.aws_zone_ids`). If
        accelerators are asked for, a GCP machine with attached accelerators is also found by its
        host's name.
    market
        None means both.
    min_hourly, max_hourly
        The least and the most that a machine may cost an hour, both inclusive.
    country, continent
        Where the region lies: country by ISO code or English name; continent as `na sa eu as me oc
        af` or by name.
    as_of, fresh_days
        Only prices of this date (`YYYY-MM-DD`) or later; only prices not older than so many days.
    families
        Type families such as `m6i` or `n2-standard`; `default` (`DEFAULT_FAMILIES`) stands for each
        cloud's own general-purpose families, and for all rows of a cloud that has no such choice.
    device_gib, device_at_least
        Memory of one device as its maker names it, exactly or at the least: an L4 "of 24 GB"
        answers 24, whether its cloud reports 24 GiB or 22.4.
    maker
        `nvidia`, `amd`, …; case is ignored.
    has_accelerator
        True: only machines with accelerators; False: only those without.
    unusual
        Include combinations of a GCP accelerator and a host that are otherwise offered only to
        queries that name vCPUs, memory or the type.
    """

    accelerator: Names = ()
    count: float | tuple[float, ...] | None = None
    cpus: Quantity | None = None
    memory: Quantity | None = None
    cloud: Names = ()
    region: Names = ()
    zone: Names = ()
    instance_type: Names = ()
    market: Market | None = None
    max_hourly: Micros | None = None
    families: Names = ()
    device_gib: float | None = None
    device_at_least: bool = False
    maker: Names = ()
    has_accelerator: bool | None = None
    unusual: bool = False
    count_at_least: bool = False
    min_hourly: Micros | None = None
    country: Names = ()
    continent: Names = ()
    as_of: str = ""
    fresh_days: float | None = None

    @property
    def names_hardware(self) -> bool:
        """Whether it says what machine is meant: a GPU, a type, or how large it is."""
        return self.has_accelerator is not None or bool(
            self.accelerator
            or self.cpus
            or self.memory
            or self.instance_type
            or self.families
            or self.device_gib
            or self.maker
        )

    @property
    def wants_accelerator(self) -> bool:
        """Whether the query asks for machines with accelerators."""
        return (
            bool(self.accelerator)
            or self.count is not None
            or self.device_gib is not None
            or bool(self.maker)
            or self.has_accelerator is True
        )

    @property
    def oldest(self) -> str:
        """The oldest date that a price may have; empty if any date will do.

        It is the later one of the dates that `as_of` and `fresh_days` give.

        Raises
        ------
        QueryError
            If `as_of` is no date, or `fresh_days` no number of days.
        """
        dates = []
        if self.as_of:
            try:
                dates.append(date.fromisoformat(self.as_of).isoformat())
            except ValueError:
                raise QueryError(
                    f"{self.as_of!r} is not a date", hint="write it as 2026-08-22"
                ) from None
        if self.fresh_days is not None:
            try:
                dates.append(
                    (datetime.now(UTC).date() - timedelta(days=self.fresh_days)).isoformat()
                )
            except (ValueError, OverflowError, TypeError):
                raise QueryError(
                    f"{self.fresh_days!r} is not a number of days",
                    hint="write 30 for the prices of the last 30 days",
                ) from None
        return max(dates, default="")


def names(value: Names) -> tuple[str, ...]:
    """Return the values of a field as a tuple; empty means any."""
    if isinstance(value, str):
        return (value,) if value else ()
    return tuple(value)


def numbers(value: float | Iterable[float] | None) -> tuple[float, ...]:
    """Return the numbers of a field as a tuple; empty means any."""
    if value is None:
        return ()
    return (float(value),) if isinstance(value, int | float) else tuple(float(v) for v in value)
