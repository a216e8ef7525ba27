"""The measuring process of SkyPilot for `peer_skypilot.py`, run by the interpreter that has it.

Prints one line of JSON.

Only what would ask an account is replaced: the list of enabled clouds.
"""

from __future__ import annotations

import json
import sys
import time

import sky
from sky import check, clouds, optimizer
from sky import exceptions as sky_exceptions

ENABLED = [clouds.AWS(), clouds.Azure(), clouds.RunPod(), clouds.Lambda()]
REGIONS = (
    ("aws", "us-east-1"),
    ("aws", "us-east-2"),
    ("aws", "us-west-2"),
    ("aws", "eu-west-1"),
    ("azure", "eastus"),
    ("azure", "westus2"),
    ("lambda", "us-east-1"),
    ("runpod", "US"),
)
ACCELERATORS = ("L4", "A100", "H100", "L40S")


def resources(name: str) -> set[sky.Resources] | sky.Resources:
    """One of the three requests."""
    if name == "accelerators: A100:8":
        return sky.Resources(accelerators="A100:8")
    if name == "cpus: 4+":
        return sky.Resources(cpus="4+")
    return {
        sky.Resources(infra=f"{cloud}/{region}", accelerators=gpu)
        for gpu in ACCELERATORS
        for cloud, region in REGIONS
    }


def once(name: str, blocked: list[sky.Resources]) -> sky.Resources | None:
    """One optimisation; None where nothing is left."""
    with sky.Dag() as dag:
        task = sky.Task()
        task.set_resources(resources(name))
    try:
        optimizer.Optimizer.optimize(dag, blocked_resources=blocked, quiet=True)
    except sky_exceptions.ResourcesUnavailableError:
        return None
    return task.best_resources


def main(takes: int, blocks: dict[str, list[list[str]]]) -> None:
    """Seconds of each take by request, without and with blocks, and the chosen price an hour in
    dollars.
    """
    check.get_cached_enabled_clouds_or_refresh = lambda *_, **__: list(ENABLED)
    found = {}
    for name in ("accelerators: A100:8", "four GPUs in ten regions", "cpus: 4+"):
        best = once(name, [])
        blocked = [
            sky.Resources(infra=f"{cloud}/{region}", instance_type=kind)
            for cloud, region, kind in blocks[name]
        ]
        seconds: dict[str, list[float]] = {"plan": [], "plan, 50 blocks": []}
        for _ in range(takes):
            for kind, some in (("plan", []), ("plan, 50 blocks", blocked)):
                started = time.perf_counter()
                once(name, some)
                seconds[kind].append(time.perf_counter() - started)
        found[name] = {**seconds, "hourly": best.get_cost(3600) if best else None}
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), json.loads(sys.argv[2]))
