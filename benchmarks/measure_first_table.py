"""The first table of a kernel, from the request to the display message.

`%prices A100`, and the plan of a spec; cold and warm.
"""

from __future__ import annotations

import sys
from pathlib import Path

from figures import Figure, Setting, figure
from kernels import fresh_kernel
from local_cloud import local_cloud, market

FRESH = 7
REPEATS = 21
TARGET_MS = 250.0
PLACES = 30

PRICES = "%prices A100"
PLAN = "%%nbprov plan\nresources: {accelerators: A100:8}"
LOCAL_PLAN = "%%nbprov plan\nresources: {accelerators: A100:8, infra: local}"


def measure(setting: Setting) -> list[Figure]:
    """Times in milliseconds.

    Cold: a fresh kernel with the extension loaded; the prices' binary cache is there, as after any
    first use.

    The first kernel of all is not counted: it makes that cache, and compiles what no process has
    imported before."""
    home = setting.home
    if setting.catalogs is not None:
        # The kernel of a person has the shipped prices; others are measured by the catalogue's and
        # the plan's own measures.
        print(
            f"first_table: measured with the shipped prices, not with {setting.catalogs}",
            file=sys.stderr,
        )
    with fresh_kernel(home) as kernel:
        kernel.run("%load_ext nbprov")
        for cell in (PRICES, PLAN):
            kernel.shown_after(cell)
    figures = _cold_and_warm(setting, home, PRICES, "first price table, %prices A100")
    figures += _cold_and_warm(setting, home, PLAN, "first plan table, A100:8, no cloud running")
    with local_cloud(home, market(PLACES, refuses=True, count=8)):
        figures += _cold_and_warm(
            setting, home, LOCAL_PLAN, "first plan table, A100:8, on the local cloud"
        )
    return figures


def _cold_and_warm(setting: Setting, home: Path, cell: str, name: str) -> list[Figure]:
    cold, warm = [], []
    fresh = setting.takes(FRESH)
    for number in range(fresh):
        with fresh_kernel(home) as kernel:
            kernel.run("%load_ext nbprov")
            cold.append(kernel.shown_after(cell))
            if number == fresh - 1:
                warm = [kernel.shown_after(cell) for _ in range(setting.takes(REPEATS))]
    return [
        figure(f"{name}: cold", "ms", cold, TARGET_MS),
        figure(f"{name}: warm", "ms", warm, shown=True),
    ]
