"""Which machines are big enough for a request that names neither accelerator nor type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from nbprov.model.resources import Compare, Quantity, Request
from nbprov.planning.lookup.enabled_clouds import EnabledCloud

from .default_sizes import default_size

if TYPE_CHECKING:
    from nbprov.planning.lookup.catalog_columns import Bools, CatalogColumns, Ints

TOLERANCE = 1e-6
"""The catalogue stores single precision: figures that differ by a smaller share are equal."""


def is_big_enough(
    table: CatalogColumns, rows: Ints, request: Request, enabled: Mapping[str, EnabledCloud]
) -> Bools:
    """Which rows meet the vCPUs and memory of a request, or else their cloud's default size.

    Clouds with general-purpose families offer only these.
    """
    clouds = table.names("cloud")
    families = {c: e.capabilities.default_families for c, e in enabled.items()}
    sizes = [default_size(c, families.get(c, ())) for c in clouds]
    cloud, vcpus, memory = (
        table.of("cloud", rows),
        table.of("vcpus", rows),
        table.of("memory_gib", rows),
    )
    if request.cpus is not None:
        fits = enough(vcpus, request.cpus, vcpus)
    elif request.memory is None:
        floor = np.array([s.vcpus if s else -1.0 for s in sizes])[cloud]
        fits = (floor < 0) | (vcpus >= floor * (1 - TOLERANCE))
    else:
        fits = np.ones(len(rows), dtype=bool)
    if request.memory is not None:
        fits &= enough(memory, request.memory, vcpus)
    else:
        ratio = np.array([s.gib_per_vcpu if s else -1.0 for s in sizes])[cloud]
        fits &= (ratio < 0) | (memory >= ratio * vcpus * (1 - TOLERANCE))
    for name, own in families.items():
        if own and name in clouds:
            fits &= (cloud != table.code("cloud", name)) | table.is_of_family(rows, own)
    return fits


def enough(actual: Ints, asked: Quantity, vcpus: Ints) -> Bools:
    """Which figures satisfy a quantity; a figure that is not known does not."""
    if asked.compare is Compare.EXACTLY:
        return np.asarray(np.abs(actual - asked.value) <= asked.value * TOLERANCE)
    floor = asked.value * vcpus if asked.compare is Compare.PER_VCPU else asked.value
    return np.asarray(actual >= floor * (1 - TOLERANCE))
