"""Offers and launches of RunPod's for tests."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from nbprov.model.launches import Launch
from nbprov.model.money import usd
from nbprov.model.offers import Candidate, Offer
from nbprov.model.places import Market
from nbprov.model.resources import Request

L40S, L40S_ID = "1x_L40S_SECURE", "NVIDIA L40S"
PRIVATE = "-----BEGIN OPENSSH PRIVATE KEY-----canary-of-the-host-key"


def an_offer(
    instance_type: str = L40S,
    *,
    region: str = "CZ",
    zone: str = "EU-CZ-1",
    market: Market = Market.ON_DEMAND,
) -> Offer:
    """One offer; a GPU's where the type names one."""
    count, _, rest = instance_type.partition("x_")
    gpu = rest.rpartition("_")[0]
    return Offer(
        "runpod",
        region,
        zone,
        instance_type,
        gpu,
        float(count) if gpu else 0,
        12,
        62,
        market,
        usd("0.99"),
    )


def a_launch(offer: Offer | None = None, **changes: Any) -> Launch:
    """One launch of one machine, with a start script that holds a key."""
    bought = offer or an_offer()
    made = Launch(
        token=uuid.uuid4().hex,
        owner="owner-1",
        run_id="run-1",
        name="dev",
        candidate=Candidate(bought, Request(), rank=0),
        count=1,
        disk_gb=20,
        user_data_template="#!/bin/sh\necho @@host_key@@\n",
        template_values={"host_key": PRIVATE},
        public_key="ssh-ed25519 AAAATEST nbprov\n",
    )
    return replace(made, **changes)
