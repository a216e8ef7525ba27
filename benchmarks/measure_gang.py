"""Measure four machines of one cluster with different boot times against the slowest alone.

The time runs from the launch until they are ready.
"""

from __future__ import annotations

import json

from figures import Figure, Setting, figure
from local_cloud import local_cloud, market

TAKES = 5
DELAYS = (1.0, 2.0, 3.0, 6.0)
"""Seconds that each machine takes to boot.

They are a tenth of what clouds take, so that nbprov's own share weighs ten times as much.
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
    # Each fault holds for one machine; its message tells it from the faults of earlier takes.
    slow = "".join(
        f'[[faults]]\\ndo = "slow_boot"\\nseconds = {d}\\nfirst = 1\\nmessage = "{name} {n}"\\n'
        for n, d in enumerate(delays)
    )
    sold.write_text(plain + slow)
    task = f"resources: {{accelerators: A100, infra: local}}\\nnum_nodes: {len(delays)}"
    run = nbprov.provision(task, name)
    start = time.perf_counter()
    run.launch()
    cluster = run.wait()
    seconds = time.perf_counter() - start
    cluster.down().wait()
    return seconds

ready("warm", [0.0])
pairs = [[ready(f"gang{n}", delays), ready(f"one{n}", [max(delays)])] for n in range(takes)]
print(json.dumps(pairs))
"""


def measure(setting: Setting) -> list[Figure]:
    """Measure the cluster's time as a multiple of its slowest machine's, and both in seconds."""
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
