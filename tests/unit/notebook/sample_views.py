"""Sample plans, runs and clusters for the tests of displays."""

from __future__ import annotations

from dataclasses import replace

from nbprov.model.blocks import block_after
from nbprov.model.clusters import (
    AttemptState,
    AttemptView,
    ClusterState,
    ClusterView,
    Phase,
    RunState,
    RunView,
)
from nbprov.model.failures import Cause, Failure
from nbprov.model.guards import Autostop, Guards
from nbprov.model.launches import Instance, InstanceState
from nbprov.model.money import usd
from nbprov.model.offers import Candidate, Dropped, DropRule, Offer, Plan, RuleKind
from nbprov.model.places import Market
from nbprov.model.resources import Request
from nbprov.model.spec import Spec

NOW = 1_795_248_550.0
"""2026-11-21 07:09:10 UTC."""

_TYPES = (
    ("A100", 1, 80, "a2-ultragpu-1g", 12, 170, "5.07"),
    ("A100", 8, 40, "p4d.24xlarge", 96, 1152, "21.96"),
    ("H100", 8, 80, "p5.48xlarge", 192, 2048, "55.04"),
    ("L4", 1, 24, "g2-standard-8", 8, 32, "0.85"),
    ("T4", 4, 16, "Standard_NC64as_T4_v3", 64, 440, "4.35"),
    ("", 0, None, "n2-standard-4", 4, 16, "0.19"),
    ("RTX4090", 1, 24, "1x_RTX4090_SECURE", 16, 62, "0.69"),
)
_PLACES = (
    ("gcp", "us-central1", "us-central1-a"),
    ("gcp", "northamerica-northeast1", "northamerica-northeast1-b"),
    ("aws", "us-east-1", "use1-az1"),
    ("aws", "ap-southeast-2", "apse2-az3"),
    ("azure", "westeurope", "2"),
    ("runpod", "EU-RO-1", ""),
    ("lambda", "us-south-1", ""),
)
_SOURCES = {
    "gcp": "SKU catalogue",
    "aws": "Price List API",
    "azure": "Retail Prices API",
    "runpod": "GraphQL",
    "lambda": "instance-types",
}


def offer(i: int) -> Offer:
    """Return one of endlessly many offers, always the same for the same number."""
    gpu, count, gpu_memory, kind, vcpus, memory, price = _TYPES[i % len(_TYPES)]
    cloud, region, zone = _PLACES[(i // len(_TYPES)) % len(_PLACES)]
    spot = i % 3 == 2
    return Offer(
        cloud=cloud,
        region=region,
        zone=zone,
        instance_type=kind,
        accelerator=gpu,
        accelerator_count=float(count),
        vcpus=float(vcpus) if i % 11 else None,
        memory_gib=float(memory),
        market=Market.SPOT if spot else Market.ON_DEMAND,
        hourly=usd(price) // (3 if spot else 1) + i * 10,
        accelerator_memory_gib=None if gpu_memory is None else float(gpu_memory),
        source=_SOURCES[cloud],
        as_of=f"2026-11-{1 + i % 21:02d}",
    )


def offers(count: int) -> list[Offer]:
    """Return this many offers, cheapest first."""
    return sorted((offer(i) for i in range(count)), key=lambda o: o.hourly)


def plan(count: int = 40, nodes: int = 1) -> Plan:
    """Return a plan over several clouds."""
    candidates = [
        Candidate(
            o,
            Request(),
            rank,
            nodes,
            "main",
            0.72 if rank % 4 == 0 else None,
            "cheapest" if rank == 0 else "next in price",
        )
        for rank, o in enumerate(offers(count))
    ]
    spec = Spec(name="train", num_nodes=nodes)
    dropped = (
        Dropped(DropRule(RuleKind.DISABLED, "in clouds without credentials (lambda, oci)"), 1204),
        Dropped(DropRule(RuleKind.PRICE, "dearer than $60.00/h"), 12),
    )
    return Plan(
        spec,
        candidates,
        candidates[-1] if candidates else None,
        dropped,
        ("stock is not known before the create call",),
        NOW,
    )


def local_offer(zone: str, price: str, *, spot: bool = False, count: int = 1) -> Offer:
    """Return an offer of the simulated cloud."""
    market = Market.SPOT if spot else Market.ON_DEMAND
    return Offer(
        "local",
        "local-north",
        zone,
        f"a100x{count}",
        "A100",
        float(count),
        12.0,
        85.0,
        market,
        usd(price),
        "a100",
        40.0,
        "x86_64",
        "simulated",
        "2026-11-21",
    )


def local_plan() -> Plan:
    """Return a plan like the quickstart's: four places of the simulated cloud."""
    sold = [
        local_offer("a", "1.05"),
        local_offer("b", "1.10"),
        local_offer("c", "1.10"),
        local_offer("d", "1.40"),
    ]
    candidates = [
        Candidate(
            o,
            Request(cloud="local"),
            i,
            1,
            "local",
            None,
            "cheapest" if i == 0 else "next in price",
        )
        for i, o in enumerate(sold)
    ]
    guards = Guards(
        autostop=Autostop(600.0, down=True), max_lifetime=7200.0, budget=usd("5"), is_default=False
    )
    return Plan(Spec(name="dev", guards=guards), candidates, candidates[-1], (), (), NOW)


def attempt(
    number: int,
    candidate: Candidate,
    state: AttemptState,
    *,
    ended: float | None = None,
    failure: Failure | None = None,
    cost: int = 0,
) -> AttemptView:
    """Return an attempt that began `number` times 4 s after the run."""
    started = NOW + 4.0 * number
    phases = (Phase(AttemptState.INTENT, started), Phase(state, started + (ended or 0.4)))
    return AttemptView(
        number,
        f"{number:032x}",
        candidate,
        state,
        started,
        None if ended is None else started + ended,
        failure,
        cost,
        phases,
    )


STOCK = Failure(
    Cause.CAPACITY,
    "InsufficientInstanceCapacity: no a100x1 left in local-north/a",
    "ZONE_RESOURCE_POOL_EXHAUSTED",
)
QUOTA = Failure(
    Cause.QUOTA,
    "Quota 'NVIDIA_A100_GPUS' exceeded. Limit: 0.0 in region local-north.\n"
    "Request an increase <here> & wait.",
    "QUOTA_EXCEEDED",
)
SLOW = Failure(Cause.TIMEOUT, "ssh did not answer within 180 s", "ssh.timeout")


def cluster(
    name: str = "dev", state: ClusterState = ClusterState.RUNNING, *, simulated: bool = True
) -> ClusterView:
    """Return a cluster of one node."""
    chosen = local_plan().candidates[3]
    machine = Instance(
        "local",
        "i-0042",
        "f" * 32,
        "owner",
        chosen.offer.place,
        chosen.offer.instance_type,
        InstanceState.RUNNING,
        "127.0.0.1",
        40022,
    )
    live = state in (ClusterState.RUNNING, ClusterState.ENDING, ClusterState.LAUNCHING)
    return ClusterView(
        name,
        f"c-{name}",
        f"r-{name}",
        state,
        chosen,
        (machine,),
        local_plan().spec.guards,
        NOW + 18.0,
        cost=usd("0.0123"),
        hourly_now=chosen.hourly if live else 0,
        confirmed=NOW + 40.0,
        simulated=simulated,
    )


def waiting_run() -> RunView:
    """Return a run whose panel waits for Launch."""
    return RunView(
        "r-1",
        "dev",
        RunState.PLANNED,
        local_plan(),
        "press Launch to try these places in this order",
        needs_launch=True,
        started=NOW,
        now=NOW,
    )


def launching_run() -> RunView:
    """Return a run during its failover."""
    view, tried = waiting_run(), local_plan().candidates
    attempts = (
        attempt(1, tried[0], AttemptState.REFUSED, ended=0.4, failure=STOCK),
        attempt(2, tried[1], AttemptState.REFUSED, ended=1.2, failure=QUOTA),
        attempt(3, tried[2], AttemptState.ENDING, failure=SLOW, cost=usd("0.0031")),
        attempt(4, tried[3], AttemptState.BOOTING, cost=usd("0.0008")),
    )
    learnt = tuple(
        b
        for b in (block_after(tried[0], STOCK, NOW), block_after(tried[1], QUOTA, NOW))
        if b is not None
    )
    return replace(
        view,
        state=RunState.LAUNCHING,
        needs_launch=False,
        message="attempt 4: local/local-north/d is booting",
        attempts=attempts,
        blocks=learnt,
        now=NOW + 30.0,
        cost=usd("0.0039"),
    )


def ready_run() -> RunView:
    """Return a run that succeeded on its fourth attempt."""
    view = launching_run()
    third = replace(view.attempts[2], state=AttemptState.GONE, ended=NOW + 36.0)
    won = replace(view.attempts[3], state=AttemptState.READY)
    return replace(
        view,
        state=RunState.READY,
        message="dev is ready",
        attempts=(*view.attempts[:2], third, won),
        cluster=cluster(),
        now=NOW + 42.0,
        cost=usd("0.0123"),
        log_path="logs/r-1.log",
    )


def failed_run() -> RunView:
    """Return a run that found no machine."""
    view = launching_run()
    third = replace(view.attempts[2], state=AttemptState.GONE, ended=NOW + 36.0)
    fourth = replace(
        view.attempts[3], state=AttemptState.REFUSED, ended=NOW + 38.0, failure=STOCK, cost=0
    )
    error = (
        "no place had a machine: 2 out of stock, 1 over your quota, 1 took too long  "
        "[provision.exhausted]\n  next: allow more places or GPU types"
    )
    return replace(
        view,
        state=RunState.FAILED,
        message="",
        attempts=(*view.attempts[:2], third, fourth),
        now=NOW + 42.0,
        error=error,
    )


def clusters() -> list[ClusterView]:
    """Return clusters in several states."""
    train = plan(14).candidates[-1]
    return [
        cluster(),
        replace(
            cluster("train-llm", simulated=False),
            candidate=train,
            hourly_now=train.hourly,
            cost=usd("128.4"),
            started=NOW - 9000.0,
            guards=Guards(),
        ),
        replace(
            cluster("old", ClusterState.STOPPED, simulated=False),
            started=NOW - 200_000.0,
            reason="idle for 60 min",
        ),
        cluster("gone-soon", ClusterState.ENDING),
    ]
