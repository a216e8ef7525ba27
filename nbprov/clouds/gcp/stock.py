"""What Google tells about stock before a launch.

Quotas of a region, and the chances of spot machines.

`regions.get` tells the limit and the usage of each quota; a metric that is missing is unknown, not
zero (there is none for on-demand H100). `advice.capacity` (v1) tells an `obtainability` from 0 to 1
and is documented for spot only: 0.7 and more is high, 0.3 and less low (page "View VM
availability"). Neither reserves anything.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from nbprov.clouds.gcp.account.clients import ComputeRest, Deadline
from nbprov.clouds.gcp.instances.insert_bodies import device_need, shape_of
from nbprov.model.clock import Seconds
from nbprov.model.failures import CloudError
from nbprov.model.offers import Offer
from nbprov.model.places import Market
from nbprov.model.stock import Pool, Stock, StockLevel

HIGH, LOW = 0.7, 0.3
MOST_QUESTIONS = 24
"""The most questions asked, those of the first offers first; all are sent at once."""
METRICS: Mapping[str, str] = {
    "nvidia-tesla-k80": "NVIDIA_K80_GPUS",
    "nvidia-tesla-p4": "NVIDIA_P4_GPUS",
    "nvidia-tesla-p100": "NVIDIA_P100_GPUS",
    "nvidia-tesla-t4": "NVIDIA_T4_GPUS",
    "nvidia-tesla-v100": "NVIDIA_V100_GPUS",
    "nvidia-tesla-a100": "NVIDIA_A100_GPUS",
    "nvidia-a100-80gb": "NVIDIA_A100_80GB_GPUS",
    "nvidia-h100-80gb": "NVIDIA_H100_GPUS",
    "nvidia-l4": "NVIDIA_L4_GPUS",
}
"""Quota metrics by accelerator (Discovery document, `Quota.metric`).

Spot has its own, with PREEMPTIBLE_ in front. Other accelerators have no regional metric.
"""
CPU_METRICS = {
    f: f"{f.upper()}_CPUS"
    for f in ("a2", "c2", "c2d", "c3", "e2", "m1", "m2", "m3", "n2", "n2d", "t2a", "t2d")
} | {"n1": "CPUS"}

Question = Callable[[], list[Stock]]


def look(rest: ComputeRest, offers: Sequence[Offer], count: int, seconds: Seconds) -> list[Stock]:
    """Ask everything at once and return the answers that arrive within `seconds`."""
    deadline = Deadline(seconds)
    end = time.monotonic() + seconds - 0.1
    questions = [*_questions(rest, deadline, offers, count)][:MOST_QUESTIONS]
    answers: queue.SimpleQueue[list[Stock]] = queue.SimpleQueue()

    def ask(question: Question) -> None:
        try:
            answers.put(question())
        except (CloudError, KeyError, TypeError, ValueError):
            answers.put([])  # unknown

    for question in questions:
        threading.Thread(target=ask, args=(question,), name="nbprov-gcp-stock", daemon=True).start()
    found: list[Stock] = []
    for _ in questions:
        try:
            found += answers.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            break
    return worst(found)


def worst(said: Sequence[Stock]) -> list[Stock]:
    """Keep the lowest level of each pool: without quota, the chances of spot do not matter."""
    order = [*StockLevel]
    found: dict[Pool, Stock] = {}
    for one in said:
        if one.pool not in found or order.index(one.level) < order.index(found[one.pool].level):
            found[one.pool] = one
    return [*found.values()]


def _questions(
    rest: ComputeRest, deadline: Deadline, offers: Sequence[Offer], count: int
) -> Iterator[Question]:
    if any(offer.accelerator for offer in offers):
        yield lambda: project_quota(rest.ask("", deadline), offers, count)
    asked: set[tuple[str, ...]] = set()
    for offer in offers:
        if (offer.region,) not in asked:
            asked.add((offer.region,))
            here = [o for o in offers if o.region == offer.region]
            yield lambda here=here: region_quota(
                rest.ask(f"/regions/{here[0].region}", deadline), here, count
            )  # type: ignore[misc]
        key = (offer.region, offer.zone, offer.instance_type)
        if offer.market is Market.SPOT and key not in asked:
            asked.add(key)
            yield lambda offer=offer: advice(rest, deadline, offer, count)  # type: ignore[misc]


def advice(rest: ComputeRest, deadline: Deadline, offer: Offer, count: int) -> list[Stock]:
    """Ask `advice.capacity` about spot machines of one type in one zone, or in the region if the
    offer names no zone.
    """
    shape = shape_of(offer.instance_type)
    selection: dict[str, Any] = {"machineTypes": [shape.machine_type]}
    if shape.device:
        selection["guestAccelerators"] = [
            {"acceleratorType": shape.device, "acceleratorCount": shape.count}
        ]
    body: dict[str, Any] = {
        "size": count,
        "instanceProperties": {"scheduling": {"provisioningModel": "SPOT"}},
        "instanceFlexibilityPolicy": {"instanceSelections": {"wanted": selection}},
        "distributionPolicy": {"targetShape": "ANY_SINGLE_ZONE"},
    }
    if offer.zone:
        body["distributionPolicy"]["zones"] = [{"zone": f"zones/{offer.zone}"}]
    told = rest.ask(f"/regions/{offer.region}/advice/capacity", deadline, body=body)
    scores = [
        r["scores"]["obtainability"]
        for r in told.get("recommendations") or ()
        if (r.get("scores") or {}).get("obtainability") is not None
    ]
    if not scores:
        return []
    return [Stock(time.time(), offer.pool, level_of(max(map(float, scores))))]


def level_of(obtainability: float) -> StockLevel:
    """Translate a probability into a level.

    Examples
    --------
    >>> [level_of(x).value for x in (0.9, 0.5, 0.3, 0.0)]
    ['high', 'medium', 'low', 'none']
    """
    if obtainability <= 0:
        return StockLevel.NONE
    return (
        StockLevel.HIGH
        if obtainability >= HIGH
        else StockLevel.LOW
        if obtainability <= LOW
        else StockLevel.MEDIUM
    )


def region_quota(region: Mapping[str, Any], offers: Sequence[Offer], count: int) -> list[Stock]:
    """Report no stock for the offers of a region that exceed its quotas."""
    room = _room(region)
    found = []
    for offer in offers:
        device, devices = device_need(offer)
        spot = offer.market is Market.SPOT
        need = {}
        if device in METRICS:
            need[f"PREEMPTIBLE_{METRICS[device]}" if spot else METRICS[device]] = devices * count
        family = shape_of(offer.instance_type).family
        if offer.vcpus and family in CPU_METRICS and not spot:
            need[CPU_METRICS[family]] = offer.vcpus * count
        if any(metric in room and room[metric] < wanted for metric, wanted in need.items()):
            found.append(Stock(time.time(), offer.pool, StockLevel.NONE))
    return found


def project_quota(project: Mapping[str, Any], offers: Sequence[Offer], count: int) -> list[Stock]:
    """Report no stock for the GPU offers that exceed GPUS_ALL_REGIONS, a limit of the whole
    project.
    """
    room = _room(project).get("GPUS_ALL_REGIONS")
    if room is None:
        return []
    return [
        Stock(time.time(), o.pool, StockLevel.NONE)
        for o in offers
        if device_need(o)[1] * count > room
    ]


def _room(answer: Mapping[str, Any]) -> dict[str, float]:
    """Return what is left of each quota; nothing if Google says that it cannot tell now."""
    if answer.get("quotaStatusWarning"):
        return {}
    return {
        str(q["metric"]): float(q["limit"]) - float(q.get("usage") or 0)
        for q in answer.get("quotas") or ()
        if "limit" in q and "metric" in q
    }
