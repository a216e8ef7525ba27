"""Measure the catalogue: building it, opening it in a fresh process, queries, and memory."""

from __future__ import annotations

import shutil
import sys

from figures import PEAK, Figure, Setting, figure, milliseconds

from nbprov.catalog import Catalog, Query

FRESH = 5
REPEATS = 101

_ASK = """
import json, sys, time
start = time.perf_counter()
from nbprov.catalog import Catalog, Query
catalog = Catalog.open([sys.argv[1]] if sys.argv[1] else None)
offers = catalog.offers(Query(accelerator="A100"), limit=50)
assert offers
print(json.dumps((time.perf_counter() - start) * 1000))
"""

_PLAN = (
    PEAK
    + """
import json, sys
from nbprov.catalog import Catalog
from nbprov.model.resources import Compare, Quantity, Request
from nbprov.model.spec import Spec
from nbprov.planning import EnabledCloud, plan
catalog = Catalog.open([sys.argv[1]] if sys.argv[1] else None)
spec = Spec(requests=(Request(cpus=Quantity(Compare.AT_LEAST, 4)),))
made = plan(spec, catalog, {name: EnabledCloud() for name in catalog.clouds()})
assert made.candidates
print(json.dumps(peak_mib()))
"""
)


def measure(setting: Setting) -> list[Figure]:
    """Measure times in milliseconds and memory in MiB."""
    folder = str(setting.catalogs or "")
    cache = setting.home / "cache"
    setting.child(_ASK, folder)  # compiles what no process has imported before
    made = []
    for _ in range(2):
        shutil.rmtree(cache, ignore_errors=True)
        made.append(float(setting.child(_ASK, folder)))
    opened = [float(setting.child(_ASK, folder)) for _ in range(setting.takes(FRESH))]
    catalog = Catalog.open(None if setting.catalogs is None else [setting.catalogs], cache=cache)
    query = Query(accelerator="A100", count=8)
    catalog.select(query)
    figures = [
        figure("first prices, fresh process, no cache", "ms", made),
        figure("first prices, fresh process, cache present", "ms", opened),
        figure(
            f"prices of A100:8 of {len(catalog)} rows, warm",
            "ms",
            milliseconds(lambda: catalog.offers(query, limit=50), setting.takes(REPEATS)),
        ),
    ]
    if sys.platform != "win32":
        peaks = [float(setting.child(_PLAN, folder)) for _ in range(setting.takes(FRESH))]
        figures.append(figure("peak memory of a process that plans cpus: 4+", "MiB", peaks))
    return figures
