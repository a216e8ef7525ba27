"""Four machines of one cluster that boot at different speeds, against the slowest of them alone.

From the launch until they are ready.
"""

from __future__ import annotations

import json

from figures import Figure, Setting, figure
from local_cloud import local_cloud, market

TAKES = 5
DELAYS = (1.0, 2.0, 3.0, 6.0)
"""Seconds for which each machine boots.

A tenth of what clouds take, so that what is ours weighs ten times as much.
"""
TARGET = 1.2

_CODE = """
import json, os, sys, time
from pathlib import Path

import nbprov

takes, delays = int(sys.argv[1]), json.loads(sys.argv[2])
sold = Path(os.environ["NBPROV_HOME"]) / "local" / "market.toml"
plain = sold.read_text()

def ready(name, delays):
    # Each entry strikes one machine; its message makes it another one than that of the last time.
    slow = ''.join(f'[[faults]]\\ndo = "slow_boot"\\nseconds = {d}\\nfirst = 1\\nmessage = "{name} {n}"\\n' for n, d in enumerate(delays))
    sold.write_text(plain + slow)
    run = nbprov.provision(f"resources: {{accelerators: A100, infra: local}}\\nnum_nodes: {len(delays)}", name)
    start = time.perf_counter()
    run.launch()
    cluster = run.wait()
    seconds = time.perf_counter() - start
    cluster.down().wait()
    return seconds

ready("warm", [0.0])
print(json.dumps([[ready(f"gang{n}", delays), ready(f"one{n}", [max(delays)])] for n in range(takes)]))
"""


def measure(setting: Setting) -> list[Figure]:
    """The gang's time as a multiple of the slowest machine's own, take by take; and both in
    seconds.
    """
    with local_cloud(setting.home, market(1, refuses=False)):
        found: list[tuple[float, float]] = setting.child(
            _CODE, str(setting.takes(TAKES)), json.dumps(DELAYS)
        )
    what = f"{len(DELAYS)} machines that boot in {', '.join(f'{delay:g}' for delay in DELAYS)} s"
    return [
        figure(
            f"{what}: ready, against the slowest of them alone",
            "times",
            [gang / one for gang, one in found],
            TARGET,
            shown=True,
        ),
        figure(f"{what}: ready", "ms", [gang * 1000 for gang, _ in found]),
        figure("the slowest of them alone: ready", "ms", [one * 1000 for _, one in found]),
    ]
