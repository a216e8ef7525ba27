"""The shipped market of the `local` cloud serves small specs, as those of all clouds do."""

from __future__ import annotations

import pytest

from nbprov.catalog import Catalog
from nbprov.clouds.local import make
from nbprov.clouds.local.daemon.market import parse as parse_market
from nbprov.clouds.local.daemon.market_file import shipped
from nbprov.clouds.local.market_offers import offer
from nbprov.planning import EnabledCloud, plan
from nbprov.spec import parse


@pytest.mark.parametrize(
    ("resources", "instance_type"),
    [
        ("{infra: local}", "sim-cpu-8"),
        ("{infra: local, cpus: 2+}", "sim-cpu-2"),
        ("{infra: local, cpus: 4+, memory: 16+}", "sim-cpu-4"),
        ("{infra: local, accelerators: A100}", "sim-a100-1"),
    ],
)
def test_a_small_wish_finds_its_cheapest_machine(resources: str, instance_type: str) -> None:
    offers = [offer(row, "local") for row in parse_market(shipped(), "2026-01-01").table()]
    chosen = plan(
        parse(f"resources: {resources}"),
        Catalog.open([], offers),
        {"local": EnabledCloud("me", make().capabilities)},
    ).chosen
    assert chosen is not None
    assert chosen.offer.instance_type == instance_type
