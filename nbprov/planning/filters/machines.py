"""Demands that some machines of a cloud can honour and others cannot: premium disks, the fast network, a disk inside, an image's regions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from nbprov.model.offers import DropRule, RuleKind
from nbprov.model.spec import Request
from nbprov.planning.lookup.catalog_columns import present

from .features import BEST
from .local_disks import has_local_disk

if TYPE_CHECKING:
    from nbprov.planning.lookup.catalog_columns import Bools, Ints, Table

PREMIUM_TIERS = frozenset({"medium", "high"})
"""Tiers that are premium disks on Azure, which only machines of its s-series take."""
FAST_NETWORK_GPUS = frozenset({"H100", "H200"})
FAST_NETWORK_COUNT = 8
"""Nebius joins only machines with so many of these to its InfiniBand."""

_AZURE_SIZE = re.compile(r"^(?:Standard|Basic)_[A-Z]+\d+(?:-\d+)?([a-z]*)")


@cache
def takes_premium_disk(azure_type: str) -> bool:
    """Whether an Azure machine takes premium disks: an `s` among the small letters after its size.

    Examples
    --------
    >>> takes_premium_disk("Standard_D8s_v5"), takes_premium_disk("Standard_D8_v5"), takes_premium_disk("Standard_NC24ads_A100_v4")
    (True, False, True)
    """
    match = _AZURE_SIZE.match(azure_type)
    return match is not None and "s" in match[1]


def machine_rules(table: Table, rows: Ints, request: Request) -> Iterator[tuple[DropRule, Bools]]:
    """The rules that drop some of these rows, with those they keep."""
    if request.disk_tier in PREMIUM_TIERS:
        words = f"azure: disk_tier {request.disk_tier} is a premium disk, which only machines of the s-series take"
        yield (
            DropRule(RuleKind.PREMIUM_DISK, words, "azure"),
            _not(table, rows, "azure") | by_type(table, rows, takes_premium_disk),
        )
    if request.network_tier == BEST:
        many = table.of("accelerator_count", rows) == FAST_NETWORK_COUNT
        fast = many & _by_name(table, "accelerator", rows, FAST_NETWORK_GPUS.__contains__)
        words = (
            f"nebius: only machines with {FAST_NETWORK_COUNT} H100 or H200 have the faster network"
        )
        yield DropRule(RuleKind.FAST_NETWORK, words, "nebius"), _not(table, rows, "nebius") | fast
    disk = request.local_disk
    if disk is not None:
        yield (
            DropRule(RuleKind.LOCAL_DISK, f"the machine has no disk {disk} inside"),
            by_type(table, rows, lambda kind: has_local_disk(kind, disk)),
        )
    regions = (
        frozenset(region.casefold() for region, _ in request.image.machine)
        if request.image
        else frozenset()
    )
    if regions and "" not in regions:
        yield (
            DropRule(RuleKind.IMAGE_REGION, "image_id has no image for the region"),
            _by_name(table, "region", rows, lambda r: r.casefold() in regions),
        )


def without_premium_disk(table: Table, rows: Ints) -> list[str]:
    """The Azure types among these rows that take no premium disk, sorted: where no tier was asked they get a standard one."""
    code = table.code("cloud", "azure")
    azure = rows[table.of("cloud", rows) == code] if code >= 0 else rows[:0]
    return (
        [kind for kind in table.distinct("instance_type", azure) if not takes_premium_disk(kind)]
        if len(azure)
        else []
    )


def by_type(table: Table, rows: Ints, holds: Callable[[str], bool]) -> Bools:
    """Which rows are of a type that a predicate holds for."""
    return _by_name(table, "instance_type", rows, holds)


def _by_name(table: Table, column: str, rows: Ints, holds: Callable[[str], bool]) -> Bools:
    """The predicate is asked once a name that occurs, not once a row."""
    codes = table.of(column, rows)
    names = table.names(column)
    found = np.zeros(len(names), dtype=bool)
    for code in present(codes):
        found[code] = holds(names[code])
    return np.asarray(found[codes])


def _not(table: Table, rows: Ints, cloud: str) -> Bools:
    return np.asarray(table.of("cloud", rows) != table.code("cloud", cloud))
