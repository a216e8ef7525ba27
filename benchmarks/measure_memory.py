"""Memory of a kernel at its peak: bare, and what loading, the first table and a launch add."""

from __future__ import annotations

import os
from pathlib import Path

from figures import PEAK, Figure, Setting, figure
from kernels import Kernel, fresh_kernel
from local_cloud import local_cloud, market

FRESH = 3

_LAUNCH = """%%provision bench --yes --wait
resources: {accelerators: A100, infra: local}
"""


def measure(setting: Setting) -> list[Figure]:
    """Peaks in MiB."""
    if os.name != "posix":
        return []  # neither the local cloud nor the peak is to be had there
    # The first is not counted: making the prices' binary cache, and compiling, takes memory that no
    # later kernel needs.
    takes = [_stages(setting.home) for _ in range(setting.takes(FRESH) + 1)][1:]
    names = (
        "bare kernel",
        "beyond it: after %load_ext",
        "beyond it: after the first price table",
        "beyond it: after a launch",
    )
    return [
        figure(
            f"peak memory, {name}",
            "MiB",
            [take[i] - (take[0] if i else 0.0) for take in takes],
            shown=i in (0, 2, 3),
        )
        for i, name in enumerate(names)
    ]


def _stages(home: Path) -> list[float]:
    with local_cloud(home, market(1, refuses=False)), fresh_kernel(home) as kernel:
        kernel.run(PEAK)
        peaks = [_peak(kernel)]
        for cell in ("%load_ext nbprov", "%prices A100", _LAUNCH):
            kernel.run(cell)
            peaks.append(_peak(kernel))
        kernel.run("%nbprov down bench")
        return peaks


def _peak(kernel: Kernel) -> float:
    return float(kernel.run("print(peak_mib())").text)
