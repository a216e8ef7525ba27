"""Measure a catalogue with ten times the rows: selective queries, memory and rows read."""

from __future__ import annotations

import csv
import sys
from functools import partial
from pathlib import Path
from statistics import median

from figures import PEAK, Figure, Setting, figure, milliseconds

from nbprov.catalog import Catalog, Query, shipped_folder
from nbprov.model.resources import Accelerator, Request
from nbprov.model.spec import Spec
from nbprov.planning import EnabledCloud, plan

COPIES = 10
ROUNDS = 7
REPEATS = 41
MOST_TIMES = 2.0
MOST_MIB = 60.0

_PEAK_OF = (
    PEAK
    + """
import json, sys
import numpy
before = peak_mib()
from nbprov.catalog import Catalog, Query
catalog = Catalog.open([sys.argv[1]])
assert catalog.offers(Query(accelerator="A100"), limit=50) and len(catalog)
print(json.dumps(peak_mib() - before))
"""
)


def measure(setting: Setting) -> list[Figure]:
    """Measure ratios of times, numbers of rows, and memory in MiB."""
    one = setting.catalogs or shipped_folder()
    ten = setting.home / "ten"
    multiply(one, ten)
    small, large = (Catalog.open([folder], cache=setting.home / "cache") for folder in (one, ten))
    spec = Spec(
        requests=(Request(accelerator=Accelerator("A100", 8), cloud="aws", region="us-east-1"),)
    )
    enabled = {name: EnabledCloud() for name in small.clouds()}
    assert (
        len(plan(spec, small, enabled).candidates) == len(plan(spec, large, enabled).candidates) > 0
    )
    ratios = []
    for _ in range(setting.takes(ROUNDS)):
        # Taken in turns, so that other work on the machine makes both longer.
        times = [
            milliseconds(partial(plan, spec, catalog, enabled), setting.takes(REPEATS))
            for catalog in (small, large)
        ]
        ratios.append(median(times[1]) / median(times[0]))
    rows = f"{len(small):,} and {len(large):,} rows"
    figures = [
        figure(
            f"a plan in one region with ten times the rows ({rows})", "times", ratios, MOST_TIMES
        )
    ]
    figures += _touched(small)
    if sys.platform != "win32":
        setting.child(_PEAK_OF, str(one))  # makes the binary cache
        peaks = [float(setting.child(_PEAK_OF, str(one))) for _ in range(setting.takes(ROUNDS))]
        figures.append(
            figure(
                f"memory of {len(small):,} rows, beyond a process with numpy",
                "MiB",
                peaks,
                MOST_MIB,
            )
        )
    return figures


def _touched(catalog: Catalog) -> list[Figure]:
    """Return how many rows a selective query reads beyond those of its answer.

    The answer's rows are the least that any index could read.
    """
    looked_at = len(catalog.select(Query(accelerator="A100", unusual=True)))
    answer = len(catalog.select(Query(accelerator="A100", count=8)))
    return [
        figure("rows looked at for A100:8", "rows", [looked_at]),
        figure("rows in the answer to A100:8", "rows", [answer]),
    ]


def multiply(source: Path, target: Path) -> None:
    """Write the price folders with every region ten times, under different names."""
    for path in sorted(source.glob("*/*.csv")):
        copy = target / path.parent.name / path.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        with path.open(encoding="utf-8-sig", newline="") as file:
            header, *lines = csv.reader(file)
        at = next((header.index(name) for name in ("Region", "region") if name in header), -1)
        with copy.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(header)
            for number in range(COPIES if at >= 0 else 1):
                for line in lines:
                    writer.writerow(
                        [
                            f"{cell}-copy{number}" if i == at and number else cell
                            for i, cell in enumerate(line)
                        ]
                    )
