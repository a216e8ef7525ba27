"""The process that measures nbprov's warm plans for `peer_skypilot.py`.

It plans the three requests and prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time

from measure_plan import ACCELERATORS, BLOCKS, REGIONS, block_of

from nbprov.catalog import Catalog
from nbprov.clouds.base import Capabilities
from nbprov.model.resources import Accelerator, Compare, Quantity, Request
from nbprov.model.spec import Spec
from nbprov.planning import EnabledCloud, plan

CLOUDS = ("aws", "azure", "runpod", "lambda")


def main(catalogs: str, takes: int) -> None:
    """Print the seconds of each take by request, the chosen hourly price, and what was blocked."""
    catalog = Catalog.open([catalogs])
    enabled = {
        name: EnabledCloud(
            "me", Capabilities(spot=name != "lambda", multi_node=name != "runpod", stop=True)
        )
        for name in CLOUDS
    }
    places = [(cloud, region) for cloud, region in REGIONS if cloud in CLOUDS]
    forty = tuple(
        Request(index=i, accelerator=Accelerator(name), cloud=cloud, region=region)
        for i, (name, cloud, region) in enumerate(
            (name, *place) for name in ACCELERATORS for place in places
        )
    )
    specs = {
        "accelerators: A100:8": Spec(requests=(Request(accelerator=Accelerator("A100", 8)),)),
        "four GPUs in ten regions": Spec(requests=forty),
        "cpus: 4+": Spec(requests=(Request(cpus=Quantity(Compare.AT_LEAST, 4)),)),
    }
    found = {}
    for name, spec in specs.items():
        made = plan(spec, catalog, enabled)
        blocks = tuple(block_of(c.offer) for c in made.candidates[:BLOCKS])
        chosen = made.chosen
        seconds: dict[str, list[float]] = {"plan": [], "plan, 50 blocks": []}
        for _ in range(takes):
            for kind, some in (("plan", ()), ("plan, 50 blocks", blocks)):
                started = time.perf_counter()
                plan(spec, catalog, enabled, blocks=some)
                seconds[kind].append(time.perf_counter() - started)
        blocked = [[b.cloud, b.region, b.instance_type] for b in blocks]
        found[name] = {
            **seconds,
            "hourly": chosen.hourly / 1e6 if chosen else None,
            "blocks": blocked,
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
