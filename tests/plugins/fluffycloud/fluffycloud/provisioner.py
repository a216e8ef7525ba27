"""The adapter of FluffyCloud: blocking calls, each bounded in time, no loops and no sleeping.

Waiting is nbprov's.
"""

from __future__ import annotations

import builtins
import time
from collections.abc import Mapping, Sequence
from typing import Any

from nbprov.clouds.base import (
    CALL_SECONDS,
    CHECK_SECONDS,
    LIST_SECONDS,
    LOGIN_LABEL,
    STOCK_SECONDS,
    Capabilities,
    Cloud,
)
from nbprov.clouds.launch_checks import refuse_unsupported
from nbprov.clouds.pricing.shipped import shipped_offers
from nbprov.model.failures import CloudError
from nbprov.model.launches import (
    Accepted,
    CheckResult,
    CreateOperation,
    Instance,
    InstanceState,
    Launch,
    Pending,
    PollResult,
    Quote,
    Refused,
)
from nbprov.model.money import usd
from nbprov.model.offers import Candidate, Offer
from nbprov.model.places import Place
from nbprov.model.stock import Stock

from . import errors, images, prices
from . import stock as counting
from .api import KEY, api

NAME = "fluffycloud"

CAPABILITIES = Capabilities(
    stop=True,
    multi_node=True,
    login=images.LOGIN,
    replayable=True,
    replaces_nodes=True,
    settle=5.0,
    own_timer=True,
    poweroff_ends_bill=True,
    zones=False,
    stock_probe=True,
    accept_deadline=60.0,
    boot_deadline=120.0,
    poll_every=0.2,
    notes={"ports": "FluffyCloud has no firewall of its own: reach services over nbprov's tunnels"},
)

STATES = {
    "baking": InstanceState.PENDING,
    "hopping": InstanceState.RUNNING,
    "shedding": InstanceState.RUNNING,
    "carrot-wait": InstanceState.PENDING,
    "dozing-off": InstanceState.STOPPING,
    "dozing": InstanceState.STOPPED,
    "vanishing": InstanceState.ENDING,
    "vanished": InstanceState.GONE,
}


class FluffyCloud(Cloud):
    """FluffyCloud's machines. Cheap to make; holds no connection."""

    name = NAME
    capabilities = CAPABILITIES

    def check(self) -> CheckResult:
        try:
            told = api().call("GET", "/account", seconds=CHECK_SECONDS)
        except CloudError as error:
            return CheckResult(self.name, enabled=False, problem=error.failure)
        left = (f"carrots left: {told['carrots']}",)
        return CheckResult(self.name, True, told["name"], KEY.find().masked, None, left)

    def offers(self) -> Sequence[Offer] | None:
        return shipped_offers(NAME, "fluffycloud", prices.SHIPPED_AS_OF)

    def stock(self, offers: Sequence[Offer], count: int) -> Sequence[Stock]:
        sizes = api().call("GET", "/sizes", seconds=STOCK_SECONDS)
        return counting.levels(sizes, offers, count, time.time())

    def quote(self, candidate: Candidate) -> Quote | None:
        place = (candidate.offer.region, candidate.offer.instance_type)
        sizes = {
            (size["burrow"], size["size"]): size
            for size in api().call("GET", "/sizes", seconds=CHECK_SECONDS)
        }
        return (
            Quote(usd(sizes[place]["usd_per_hour"]), "FluffyCloud API, sizes", time.time())
            if place in sizes
            else None
        )

    def submit(self, launch: Launch) -> CreateOperation:
        refuse_unsupported(launch, CAPABILITIES, "FluffyCloud")
        offer = launch.candidate.offer
        order = {
            "token": launch.token,
            "order": launch.key,
            "nodes": [*launch.numbers],
            "owner": launch.owner,
            "name": launch.name,
            "burrow": offer.region,
            "size": offer.instance_type,
            "count": launch.count,
            "tags": dict(launch.tags),
            "disk_gb": launch.disk_gb,
            "script": launch.user_data(),
            "key": launch.public_key,
            "when_off": launch.on_shutdown.value,
            "end_after": launch.terminate_after,
            "answer_by": launch.answer_by,
        }
        answer = api().call(
            "POST",
            "/machines",
            order,
            seconds=CALL_SECONDS,
            creates=True,
            secrets=launch.template_values.values(),
        )
        return CreateOperation(self.name, launch.token, str(answer["order"]), {"order": launch.key})

    def poll(self, operation: CreateOperation) -> PollResult:
        order = operation.data.get("order", operation.token)
        answer = api().call("GET", f"/orders/{order}", seconds=LIST_SECONDS)
        if answer["state"] == "done":
            return Accepted(tuple(answer["ids"]))
        if answer["state"] == "denied":
            body = answer.get("body") or ""
            return Refused(errors.failure_of(answer["status"], body, answer["pause"]))
        return Pending()

    def list(self, owner: str) -> builtins.list[Instance]:
        rows = api().pages(
            "/machines",
            lambda page: page["machines"],
            lambda page: page["after"] and {"after": page["after"]},
            params={"owner": owner},
            seconds=LIST_SECONDS,
        )
        return [self._instance(row) for row in rows]

    def terminate(self, ids: Sequence[str]) -> None:
        if ids:
            api().call("POST", "/machines/end", {"ids": [*ids]}, seconds=CALL_SECONDS)

    def start(self, ids: Sequence[str]) -> None:
        api().call("POST", "/machines/wake", {"ids": [*ids]}, seconds=CALL_SECONDS)

    def stop(self, ids: Sequence[str]) -> None:
        api().call("POST", "/machines/doze", {"ids": [*ids]}, seconds=CALL_SECONDS)

    def console(self, instance_id: str) -> str:
        told = api().call("GET", f"/machines/{instance_id}/console", seconds=LIST_SECONDS)
        return str(told["text"])

    def _instance(self, row: Mapping[str, Any]) -> Instance:
        return Instance(
            cloud=self.name,
            id=row["id"],
            token=row["token"],
            owner=row["owner"],
            place=Place(self.name, row["burrow"]),
            instance_type=row["size"],
            state=STATES.get(row["mood"], InstanceState.UNKNOWN),
            host=row["host"],
            port=row["port"],
            private_host=row["host"],
            user=row["tags"].get(LOGIN_LABEL) or images.LOGIN,
            node=row["node"],
            name=row["name"],
            launched_at=row["since"],
            reason=row["why"],
            by_itself=row["by_itself"],
            hourly=usd(row["usd_per_hour"]),
        )
