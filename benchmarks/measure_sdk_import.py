"""What the first use of a cloud costs a kernel.

How long its SDK takes to import in a worker, and the longest that another thread waits meanwhile.
"""

from __future__ import annotations

import json
import subprocess
import sys

from figures import Figure, Setting, figure

FRESH = 5
MOST_STALL_MS = 200.0

_IMPORT = """
import json, threading, time
{prepare}
gaps, done = [], threading.Event()
def tick():
    last = time.perf_counter()
    while not done.is_set():
        time.sleep(0.002)
        now = time.perf_counter()
        gaps.append(now - last)
        last = now
ticking = threading.Thread(target=tick)
ticking.start()
took = []
def load():
    begun = time.perf_counter()
    {load}
    took.append(time.perf_counter() - begun)
worker = threading.Thread(target=load)
worker.start()
worker.join()
done.set()
ticking.join()
print(json.dumps([took[0] * 1000, max(gaps) * 1000]))
"""
_SDKS = {
    "google-cloud-compute": (
        "from nbprov.clouds.gcp.account.sdk import compute_library",
        "compute_library()",
    ),
    "boto3's EC2 client": (
        "import nbprov.clouds.aws",
        "import boto3; boto3.client('ec2', region_name='us-east-1')",
    ),
}


def measure(setting: Setting) -> list[Figure]:
    """Milliseconds, each in a fresh interpreter; the first is not counted, it may have to compile."""
    figures = []
    for name, (prepare, load) in _SDKS.items():
        code = _IMPORT.format(prepare=prepare, load=load)
        takes = [
            json.loads(
                subprocess.run(
                    [sys.executable, "-c", code], check=True, capture_output=True, text=True
                ).stdout
            )
            for _ in range(setting.takes(FRESH) + 1)
        ][1:]
        figures += [
            figure(f"{name}: import in a worker", "ms", [took for took, _ in takes]),
            figure(
                f"{name}: longest stall of the kernel meanwhile",
                "ms",
                [stall for _, stall in takes],
                MOST_STALL_MS,
            ),
        ]
    return figures
