"""A test's account at the double: an owner of its own, and what was sent in its name."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from typing import Any

from aws_double import AwsDouble

from nbprov.clouds.aws.provisioner import AwsCloud
from nbprov.model.launches import Instance, InstanceState, Launch, PollResult
from nbprov.model.money import usd
from nbprov.model.offers import Candidate, Offer
from nbprov.model.places import Market
from nbprov.model.resources import Request

CPU, GPU = "m6i.large", "g5.xlarge"
REGION, ZONE = "us-east-1", "use1-az6"
KEPT = {
    "hide": 0.0,
    "end": 0.0,
    "boot": 0.0,
    "price": 0.5,
    "on_demand": {},
    "quotas": {},
    "scores": {},
    "answer": 0.0,
}


def offer(
    kind: str = CPU,
    *,
    zone: str = ZONE,
    region: str = REGION,
    market: Market = Market.ON_DEMAND,
    gpu: str = "",
    vcpus: float = 2,
    arch: str = "",
) -> Offer:
    """An offer of AWS's."""
    return Offer(
        "aws",
        region,
        zone,
        kind,
        gpu,
        1 if gpu else 0,
        vcpus,
        8,
        market,
        usd("0.5"),
        source="test",
        as_of="2026-11-22",
        arch=arch,
    )


@dataclass
class Account:
    """The account of one test: an adapter, an owner of its own, and the double."""

    double: AwsDouble
    cloud: AwsCloud = field(default_factory=AwsCloud)
    owner: str = field(default_factory=lambda: uuid.uuid4().hex)

    def launch(self, what: Offer | None = None, **changes: Any) -> Launch:
        """Make a launch of one machine, unless `changes` say otherwise."""
        count = changes.get("count", 1)
        made = Launch(
            token=uuid.uuid4().hex,
            owner=self.owner,
            run_id="run-1",
            name="dev",
            candidate=Candidate(what or offer(), Request(), rank=0, count=count),
            count=count,
            disk_gb=10,
            user_data_template="#!/bin/sh\n: @@secret@@\n",
            template_values={"secret": "canary"},
        )
        return replace(made, **changes)

    def up(self, what: Offer | None = None, **changes: Any) -> list[Instance]:
        """Launch machines and wait until they run."""
        launch = self.launch(what, **changes)
        self.cloud.submit(launch)
        made = [i for i in self.cloud.list(self.owner) if i.token == launch.token]
        assert [i.state for i in made] == [InstanceState.RUNNING] * launch.count
        return made

    def shown(self, instance_id: str) -> Instance:
        """Return a machine as the listing shows it now."""
        return next(i for i in self.cloud.list(self.owner) if i.id == instance_id)

    def poll(self, launch: Launch) -> PollResult:
        """Submit a launch and poll once."""
        return self.cloud.poll(self.cloud.submit(launch))

    def sent(self, call: str = "RunInstances") -> list[dict[str, str]]:
        """Return the parameters of this test's calls of this name, as they were sent."""
        asked = self.double.asked(call)[self.before.get(call, 0) :]
        return [one["parameters"] for one in asked if one["parameters"].get("DryRun") != "true"]

    before: dict[str, int] = field(default_factory=dict)

    def mark(self) -> None:
        """Count calls from here on."""
        self.before = {}
        for one in self.double.told("calls"):
            self.before[one["call"]] = self.before.get(one["call"], 0) + 1
