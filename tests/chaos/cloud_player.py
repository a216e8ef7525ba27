"""Plays one launch on a cloud's double with a real engine, until the trap kills it.

Run as `python cloud_player.py ORDER.json`.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from trap import Trap

from nbprov.catalog import Query, default_catalog
from nbprov.clouds import registry
from nbprov.clouds.base import Cloud
from nbprov.clouds.lambda_cloud.provisioner import LambdaCloud
from nbprov.clouds.lambda_cloud.rate_limit import LaunchPace
from nbprov.model.clock import Clock, Instant, Seconds
from nbprov.model.offers import Candidate, Plan
from nbprov.provisioning.engine import Engine
from nbprov.runtime.clocks import SystemClock
from nbprov.spec import parse

NAME = "dev"
LEASE_SECONDS = 0.8
PLAY_SECONDS = 60.0
SPECS = {
    "aws": "resources: {infra: aws/us-east-1, accelerators: L4}",
    "gcp": "resources: {infra: gcp/us-central1, accelerators: L4}",
    # The double knows RunPod's data centres in Iceland, and not all of the others.
    "runpod": "resources: {infra: runpod/IS, accelerators: L4}",
    "lambda": "resources: {infra: lambda, accelerators: A10}",
}
TRAPPED = ("submit", "poll", "list", "terminate")

SUBMIT_SECONDS = 4.0
"""How long a create may take.

The doubles answer in a fraction of one, and where the kernel died a fresh engine waits this long
for the answer.
"""
DAY = 86_400.0
SETTLE_SECONDS = 1.0
"""How long what was made may be missing from a list: the doubles show it at once.

After an unclear create this is waited as well.
"""


def quickened(name: str, trap: Trap | None) -> Cloud:
    """The adapter of a cloud with short waits, and with a trap at every call that matters; the
    doubles take launches as they come.
    """
    adapter = LambdaCloud(LaunchPace(0.1)) if name == "lambda" else registry.get(name)
    adapter.capabilities = replace(
        adapter.capabilities,
        settle=SETTLE_SECONDS,
        submit_seconds=SUBMIT_SECONDS,
        boot_deadline=12.0,
        ssh_deadline=20.0,
        poll_every=0.1,
    )
    if trap is not None:
        for call in TRAPPED:
            setattr(adapter, call, _trapped(call, getattr(adapter, call), trap))
    return adapter


def _trapped(name: str, call: Callable[..., Any], trap: Trap) -> Callable[..., Any]:
    def trapped(*arguments: Any, **options: Any) -> Any:
        trap.pass_by(f"cloud.{name}", "before")
        try:
            return call(*arguments, **options)
        finally:
            trap.pass_by(f"cloud.{name}", "after")

    return trapped


class Tomorrow(SystemClock):
    """The clocks of the next day."""

    def now(self) -> Instant:
        return super().now() + DAY

    def elapsed(self) -> Seconds:
        return super().elapsed() + DAY


def make_engine(order: dict[str, Any], trap: Trap | None, clock: Clock | None = None) -> Engine:
    """The engine of one process of this run."""
    made: dict[str, Cloud] = {}

    def find(name: str) -> Cloud:
        if name not in made:
            made[name] = quickened(name, trap)
        return made[name]

    wrap = trap.ledger if trap else lambda ledger: ledger
    return Engine(
        Path(order["home"]), clouds=find, clock=clock, lease_seconds=LEASE_SECONDS, wrap_ledger=wrap
    )


def play(order: dict[str, Any]) -> None:
    """Launch; returns only where it was not cut."""
    trap = Trap(order["transition"], order["when"], 1, Path(order["mark"]))
    engine = make_engine(order, trap)
    spec = parse(SPECS[order["cloud"]])
    request = spec.requests[0]
    assert request.accelerator is not None
    catalog = default_catalog()
    offers = catalog.offers(
        Query(
            cloud=(request.cloud,),
            region=(request.region,) if request.region else (),
            accelerator=(request.accelerator.name,),
            count=1,
        )
    )
    on_demand = [offer for offer in offers if offer.market.value == "on-demand"]
    account = registry.get(order["cloud"]).check().account
    candidates = [
        Candidate(offer, request, rank, 1, account) for rank, offer in enumerate(on_demand)
    ]
    driver = engine.prepare_run(NAME, spec, Plan(spec, candidates, dearest=candidates[-1]))
    engine.thread.call(engine.launch(driver, folder="")).result(PLAY_SECONDS)
    concurrent.futures.wait([driver.finished], PLAY_SECONDS)


if __name__ == "__main__":
    play(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    os._exit(0)  # not cut: it ends without any tidying up all the same
