"""Measure warm planning: one accelerator, four in ten regions, and vCPUs alone.

Each is planned without blocks, with 50 blocks, and with live offers beside the price files.
"""

from __future__ import annotations

from figures import Figure, Setting, figure, milliseconds

from nbprov.catalog import Catalog
from nbprov.clouds.base import Capabilities
from nbprov.model.blocks import Block
from nbprov.model.offers import Offer
from nbprov.model.places import Market
from nbprov.model.resources import Accelerator, Compare, Quantity, Request
from nbprov.model.spec import Spec
from nbprov.planning import EnabledCloud, plan

REPEATS = 51
BLOCKS = 50
TARGET_MS = 5.0
ONE_NODE_ONLY = frozenset({"runpod", "vast", "primeintellect"})
NO_SPOT = frozenset({"lambda", "cudo", "do"})
REGIONS = (
    ("aws", "us-east-1"),
    ("aws", "us-east-2"),
    ("aws", "us-west-2"),
    ("aws", "eu-west-1"),
    ("gcp", "us-central1"),
    ("gcp", "europe-west4"),
    ("azure", "eastus"),
    ("azure", "westus2"),
    ("lambda", "us-east-1"),
    ("runpod", "US"),
)
ACCELERATORS = ("L4", "A100", "H100", "L40S")


def measure(setting: Setting) -> list[Figure]:
    """Measure the plan times in milliseconds."""
    catalog = Catalog.open(
        None if setting.catalogs is None else [setting.catalogs], cache=setting.home / "cache"
    )
    enabled = {
        name: EnabledCloud(
            "me",
            Capabilities(spot=name not in NO_SPOT, multi_node=name not in ONE_NODE_ONLY, stop=True),
        )
        for name in catalog.clouds()
    }
    specs = {
        "accelerators: A100:8": Spec(requests=(Request(accelerator=Accelerator("A100", 8)),)),
        "four GPUs in ten regions": _forty(catalog),
        "cpus: 4+": Spec(requests=(Request(cpus=Quantity(Compare.AT_LEAST, 4)),)),
    }
    figures = []
    repeats = setting.takes(REPEATS)
    for name, spec in specs.items():
        made = plan(spec, catalog, enabled)
        found = f"{len(made.candidates)} candidates"
        figures.append(_timed(f"plan {name} ({found})", spec, catalog, enabled, (), repeats))
        blocks = tuple(block_of(c.offer) for c in made.candidates[:BLOCKS])
        figures.append(
            _timed(f"plan {name}, {len(blocks)} blocks", spec, catalog, enabled, blocks, repeats)
        )
    live = tuple(
        Offer(
            "sim",
            "north",
            f"north-{i}",
            "sim-1",
            "A100",
            8.0,
            8.0,
            64.0,
            Market.ON_DEMAND,
            1_000_000 * i,
        )
        for i in range(1, 31)
    )
    beside = {**enabled, "sim": EnabledCloud("me")}
    spec = specs["accelerators: A100:8"]
    takes = milliseconds(lambda: plan(spec, catalog.with_offers(live), beside), repeats)
    figures.append(
        figure("plan accelerators: A100:8, 30 fresh live offers", "ms", takes, TARGET_MS)
    )
    return figures


def _forty(catalog: Catalog) -> Spec:
    places = [(cloud, region) for cloud, region in REGIONS if region in catalog.regions(cloud)]
    wanted = [(name, *place) for name in ACCELERATORS for place in places]
    requests = (
        Request(index=i, accelerator=Accelerator(name), cloud=cloud, region=region)
        for i, (name, cloud, region) in enumerate(wanted)
    )
    return Spec(requests=tuple(requests))


def block_of(offer: Offer) -> Block:
    """Return the block that failover would store after a refusal for lack of capacity."""
    return Block(
        cloud=offer.cloud,
        account="me",
        region=offer.region,
        zone=offer.zone,
        instance_type=offer.instance_type,
        market=offer.market.value,
        min_count=1,
        expires=1.0,
    )


def _timed(
    name: str,
    spec: Spec,
    catalog: Catalog,
    enabled: dict[str, EnabledCloud],
    blocks: tuple[Block, ...],
    repeats: int,
) -> Figure:
    return figure(
        name,
        "ms",
        milliseconds(lambda: plan(spec, catalog, enabled, blocks=blocks), repeats),
        TARGET_MS,
    )
