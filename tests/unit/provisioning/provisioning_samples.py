"""Candidates, launches and machines made of model values."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from nbprov.model.clusters import AttemptState
from nbprov.model.launches import Instance, InstanceState, Launch
from nbprov.model.money import Micros, usd
from nbprov.model.offers import Candidate, Offer
from nbprov.model.places import Market, Place
from nbprov.model.resources import Request
from nbprov.provisioning.ledger import LaunchRow
from nbprov.provisioning.run.attempt import Deadlines

TWO_DOLLARS = usd(2)
DEADLINES = Deadlines(accepted=20.0, booting=60.0, ssh=30.0, agent=30.0)


def candidate(
    rank: int = 0,
    *,
    cloud: str = "aws",
    account: str = "me",
    region: str = "east",
    zone: str = "east-a",
    kind: str = "gpu-1",
    market: Market = Market.ON_DEMAND,
    count: int = 1,
    tier: int = 0,
    family: str = "gpu",
    hourly: Micros = TWO_DOLLARS,
    max_hourly: Micros | None = None,
) -> Candidate:
    """One candidate; what is not named is ordinary."""
    offer = Offer(
        cloud,
        region,
        zone,
        kind,
        "A100",
        1.0,
        12.0,
        85.0,
        market,
        hourly,
        quota_family=family,
        source="test",
        as_of="2026-11-01",
    )
    return Candidate(
        offer, Request(tier=tier, market=market, max_hourly=max_hourly), rank, count, account
    )


def zones(*names: str) -> list[Candidate]:
    """The same type in several zones of one region, in this order."""
    return [candidate(i, zone=name) for i, name in enumerate(names)]


def tokens() -> Callable[[], str]:
    """Makes tokens 1, 2, 3, … in the form a cloud sees."""
    numbers = itertools.count(1)
    return lambda: f"{next(numbers):032x}"


def launch(
    token: str,
    wanted: Candidate,
    run_id: str = "run-1",
    owner: str = "owner",
    answer_by: float = 1_800_000_030.0,
) -> Launch:
    """A launch whose fills hold a key, as those that are sent do."""
    return Launch(
        token=token,
        owner=owner,
        run_id=run_id,
        name="dev",
        candidate=wanted,
        count=wanted.count,
        disk_gb=256,
        tags={"nbprov-token": token},
        user_data_template="#!/bin/sh\ncat > key <<E\n@@host_key@@\nE\n",
        template_values={"host_key": "-----BEGIN OPENSSH PRIVATE KEY-----\nCANARY-4711\n"},
        public_key="ssh-ed25519 AAAA nbprov",
        answer_by=answer_by,
    )


def launch_row(
    token: str,
    wanted: Candidate,
    number: int = 1,
    run_id: str = "run-1",
    now: float = 1_800_000_000.0,
) -> LaunchRow:
    """A row as it is when its intent is committed."""
    return LaunchRow(
        token=token,
        run_id=run_id,
        number=number,
        slot=0,
        cloud=wanted.offer.cloud,
        state=AttemptState.INTENT,
        candidate=wanted,
        launch=launch(token, wanted, run_id),
        keys="SHA256:fingerprint",
        operation=None,
        ids=(),
        failure=None,
        deadline=now + 30.0,
        created=now,
        ended=None,
    )


def instance(
    token: str,
    id: str = "i-1",
    state: InstanceState = InstanceState.RUNNING,
    *,
    node: int = 0,
    cloud: str = "aws",
) -> Instance:
    """A machine as its cloud lists it."""
    return Instance(
        cloud,
        id,
        token,
        "owner",
        Place(cloud, "east", "east-a"),
        "gpu-1",
        state,
        "127.0.0.1",
        22,
        node=node,
    )
