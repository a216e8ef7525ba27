"""`%load_ext nbprov` in fresh kernels, beyond IPython.

With an empty home, and with a ledger in which nothing is live.
"""

from __future__ import annotations

from pathlib import Path

from figures import Figure, Setting, figure
from kernels import fresh_kernel

FRESH = 7
TARGET_MS = 20.0

# The clock runs in the kernel: what a front end would see besides is IPython's own way of running a
# cell.
_LOAD = """
import time as _time
_start = _time.perf_counter()
get_ipython().run_line_magic("load_ext", "nbprov")
print((_time.perf_counter() - _start) * 1000)
"""


def measure(setting: Setting) -> list[Figure]:
    """Times in milliseconds.

    The first kernel is not counted: it may have to compile what no process has imported before.
    """
    new = [_load(setting.home / "new") for _ in range(setting.takes(FRESH) + 1)][1:]
    used = setting.home / "used"
    _leave_a_ledger(used)
    again = [_load(used) for _ in range(setting.takes(FRESH))]
    return [
        figure("%load_ext nbprov, beyond IPython", "ms", new, TARGET_MS),
        figure("%load_ext nbprov, with a ledger in which nothing is live", "ms", again, TARGET_MS),
    ]


def _load(home: Path) -> float:
    with fresh_kernel(home) as kernel:
        return float(kernel.run(_LOAD).text)


def _leave_a_ledger(home: Path) -> None:
    from nbprov.provisioning.engine import LEDGER_FILE
    from nbprov.provisioning.ledger import Ledger
    from nbprov.runtime.clocks import SystemClock

    Ledger(home / LEDGER_FILE, SystemClock(), "benchmark").close()
