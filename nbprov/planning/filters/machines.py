"""Needs that some machines of a cloud meet and others do not.

These are premium disks, the fast network, a disk inside, and the regions of an image.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from nbprov.model.offers import DropRule, RuleKind
from nbprov.model.resources import Request
from nbprov.planning.lookup.catalog_columns import present

from .features import BEST
from .local_disks import has_local_disk

if TYPE_CHECKING:
    from nbprov.planning.lookup.catalog_columns import Bools, CatalogColumns, Ints

PREMIUM_TIERS = frozenset({"medium", "high"})
"""Tiers that are premium disks on Azure, which only machines of its s-series take."""
FAST_NETWORK_GPUS = frozenset({"H100", "H200"})
FAST_NETWORK_COUNT = 8
"""Nebius joins only machines with this many of these GPUs to its InfiniBand."""

_AZURE_SIZE = re.compile(r"^(?:Standard|Basic)_[A-Z]+\d+(?:-\d+)?([a-z]*)")


@cache
def takes_premium_disk(azure_type: str) -> bool:
    """Whether an Azure machine takes premium disks: an `s` follows its size.

    Examples
    --------
    >>> takes_premium_disk("Standard_D8s_v5"), takes_premium_disk("Standard_D8_v5")
    (True, False)
    >>> takes_premium_disk("Standard_NC24ads_A100_v4")
    True
    """
    match = _AZURE_SIZE.match(azure_type)
    return match is not None and "s" in match[1]


def machine_rules(
    table: CatalogColumns, rows: Ints, request: Request
) -> Iterator[tuple[DropRule, Bools]]:
    """The rules that drop some of these rows, each with the rows that it keeps."""
    if request.disk_tier in PREMIUM_TIERS:
        words = (
            f"azure: disk_tier {request.disk_tier} is a premium disk, "
            "which only machines of the s-series take"
        )
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


def without_premium_disk(table: CatalogColumns, rows: Ints) -> list[str]:
    """The Azure types among these rows that take no premium disk, sorted.

    If no tier is requested they get a standard disk.
    """
    code = table.code("cloud", "azure")
    azure = rows[table.of("cloud", rows) == code] if code >= 0 else rows[:0]
    return (
        [kind for kind in table.distinct("instance_type", azure) if not takes_premium_disk(kind)]
        if len(azure)
        else []
    )


def by_type(table: CatalogColumns, rows: Ints, holds: Callable[[str], bool]) -> Bools:
    """Which rows are of a type that satisfies a predicate."""
    return _by_name(table, "instance_type", rows, holds)


def _by_name(table: CatalogColumns, column: str, rows: Ints, holds: Callable[[str], bool]) -> Bools:
    """Which rows have a name that satisfies a predicate, which is called once per name."""
    codes = table.of(column, rows)
    names = table.names(column)
    found = np.zeros(len(names), dtype=bool)
    for code in present(codes):
        found[code] = holds(names[code])
    return np.asarray(found[codes])


def _not(table: CatalogColumns, rows: Ints, cloud: str) -> Bools:
    return np.asarray(table.of("cloud", rows) != table.code("cloud", cloud))
