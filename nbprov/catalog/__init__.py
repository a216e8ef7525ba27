"""The price catalogue: every cloud's offers in a column store, and queries over them.

`import nbprov.catalog` imports neither numpy nor pandas; the first query does. The package may
import `nbprov.clouds`, `nbprov.runtime` and `nbprov.model`. Start reading at `catalog.py` and
`query.py`.
"""

from __future__ import annotations

from .catalog import Catalog, default_catalog, shipped_folder
from .errors import AmbiguousName, CatalogError, QueryError, UnknownName
from .query import Query
from .store.summary import AcceleratorInfo, CatalogProblem, CloudInfo
from .vocabulary.instance_families import DEFAULT_FAMILIES, GENERAL_PURPOSE, MEMORY_IS_TYPICAL

__all__ = [
    "DEFAULT_FAMILIES",
    "GENERAL_PURPOSE",
    "MEMORY_IS_TYPICAL",
    "AcceleratorInfo",
    "AmbiguousName",
    "Catalog",
    "CatalogError",
    "CatalogProblem",
    "CloudInfo",
    "Query",
    "QueryError",
    "UnknownName",
    "default_catalog",
    "shipped_folder",
]
