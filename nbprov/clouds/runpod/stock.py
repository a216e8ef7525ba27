"""What RunPod's catalogue tells about stock, for a type and size in a data centre.

According to RunPod, `availability` is a way "to order your candidates, not a reservation"
(openapi.json 2.0.0, createPod). `dataCenters` lists only those that offer the type in the requested
size, and is missing if none does. Public reports of 2026 (GraphQL and v2) tell of creates that were
refused although the catalogue said HIGH, and accepted although it said LOW. So LOW lowers the rank
of a place, and no place is left out. Read in 2026-11.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nbprov.model.clock import Seconds
from nbprov.model.failures import CloudError
from nbprov.model.offers import Offer
from nbprov.model.places import Market
from nbprov.model.stock import Pool, Stock, StockLevel

from .api import Api, DeadlineEvent
from .merged_catalog import Centre
from .type_ids import CPUS, GPUS, CpuType, GpuType, TypeCatalog, name_of, read_type

MOST_QUESTIONS = 6
"""The most requests of one stock probe, one for each size of machine. RunPod allows 60 a minute,
and a plan asks every few seconds at most."""
_LEVELS = {
    "NONE": StockLevel.NONE,
    "LOW": StockLevel.LOW,
    "MEDIUM": StockLevel.MEDIUM,
    "HIGH": StockLevel.HIGH,
}
_BEST_FIRST = (StockLevel.HIGH, StockLevel.MEDIUM, StockLevel.LOW, StockLevel.NONE)

Question = tuple[str, str, int]
"""`gpu` or `cpu`, which cloud, and the GPUs or vCPUs of a machine."""


def look(api: Api, kinds: TypeCatalog, offers: Sequence[Offer], *, seconds: Seconds) -> list[Stock]:
    """Ask for the sizes of these offers, all at once.

    Raises
    ------
    CloudError
        If no request was answered: the first failure.
    """
    wanted = [
        (offer, kind)
        for offer in offers
        if offer.market is Market.ON_DEMAND and (kind := _type_of(offer)) is not None
    ]
    questions = Counter(_question(kind) for _, kind in wanted)
    asked = [question for question, _ in questions.most_common(MOST_QUESTIONS)]
    answers, failures = _ask_all(
        {question: _asking(api, question, seconds) for question in asked}, seconds
    )
    if failures and not answers:
        raise failures[0]
    at = time.time()
    entries = {question: _by_name(question, listed) for question, listed in answers.items()}
    for question, listed in answers.items():
        if question[0] == "gpu":
            kinds.learn(listed)
    found: dict[Pool, Stock] = {}
    for offer, wants in wanted:
        entry = entries.get(_question(wants), {}).get(
            wants.name if isinstance(wants, GpuType) else wants.id
        )
        level = _level(entry, offer) if entry is not None else None
        if level is not None:
            found[offer.pool] = Stock(at, offer.pool, level)
    return list(found.values())


def _type_of(offer: Offer) -> GpuType | CpuType | None:
    try:
        return read_type(offer.instance_type)
    except CloudError:
        return None


def _question(kind: GpuType | CpuType) -> Question:
    return (
        ("gpu", kind.cloud, kind.count)
        if isinstance(kind, GpuType)
        else ("cpu", "SECURE", kind.vcpus)
    )


def _asking(api: Api, question: Question, seconds: Seconds) -> Callable[[], list[dict[str, Any]]]:
    kind, cloud, size = question
    wanted: dict[str, Any] = {"include": "AVAILABILITY", "product": "POD"}
    if kind == "gpu":
        return lambda: api.listed(
            GPUS, "gpus", {**wanted, "count": size, "cloud": cloud}, seconds=seconds
        )
    return lambda: api.listed(CPUS, "cpus", {**wanted, "vcpuCount": size}, seconds=seconds)


def _ask_all(
    calls: Mapping[Question, Callable[[], list[dict[str, Any]]]], seconds: Seconds
) -> tuple[dict[Question, list[dict[str, Any]]], list[CloudError]]:
    """Return the answers that arrive in time, and the errors of the calls that failed."""
    answers: dict[Question, list[dict[str, Any]]] = {}
    failures: list[CloudError] = []

    def run(question: Question, call: Callable[[], list[dict[str, Any]]]) -> None:
        try:
            answers[question] = call()
        except CloudError as error:
            failures.append(error)

    deadline = DeadlineEvent(seconds)
    threads = [
        threading.Thread(target=run, args=each, name="nbprov-stock", daemon=True)
        for each in calls.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(deadline.left())
    return dict(answers), list(failures)


def _by_name(question: Question, listed: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    if question[0] == "cpu":
        return {str(one.get("id")): one for one in listed}
    named: dict[str, dict[str, Any]] = {}
    for one in listed:
        named.setdefault(name_of(one), one)
    return named


def _level(entry: Mapping[str, Any], offer: Offer) -> StockLevel | None:
    """Return the level at an offer's place; None if the catalogue does not tell."""
    overall = _LEVELS.get(str(entry.get("availability")))
    listed = entry.get("dataCenters")
    if not isinstance(listed, list):
        return StockLevel.NONE if overall is StockLevel.NONE else None
    levels = {
        str(one.get("id")): level
        for one in listed
        if isinstance(one, Mapping)
        and (level := _LEVELS.get(str(one.get("availability")))) is not None
    }
    unread = len(listed) - len(levels)
    if offer.zone:
        return levels.get(offer.zone, None if unread else StockLevel.NONE)
    here = [
        level
        for name, level in levels.items()
        if not offer.region or Centre(name).region == offer.region
    ]
    return min(here, key=_BEST_FIRST.index) if here else (None if unread else StockLevel.NONE)
