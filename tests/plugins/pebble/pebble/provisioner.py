"""The adapter of Pebble: blocking calls, each bounded in time, without loops or sleeping.

nbprov does the waiting.
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
    SSH_PORT_LABEL,
    Capabilities,
    Cloud,
)
from nbprov.clouds.launch_checks import refuse_unsupported
from nbprov.clouds.pricing.shipped import shipped_offers
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import (
    Accepted,
    CheckResult,
    CreateOperation,
    Instance,
    InstanceState,
    Launch,
    PollResult,
    Quote,
    Refused,
)
from nbprov.model.money import usd
from nbprov.model.offers import Candidate, Offer
from nbprov.model.places import Place
from nbprov.model.stock import Stock

from . import images, prices
from . import stock as pre_flight
from .api import KEY, api

NAME = "pebble"
CAPABILITIES = Capabilities(
    stop=True,
    multi_node=False,
    ports=False,
    images=True,
    login=images.LOGIN,
    zones=False,
    stock_probe=True,
    poweroff_ends_bill=False,
    settle=10.0,
)
STATES = {
    "booting": InstanceState.PENDING,
    "up": InstanceState.RUNNING,
    "halting": InstanceState.STOPPING,
    "halted": InstanceState.STOPPED,
    "ending": InstanceState.ENDING,
}


class Pebble(Cloud):
    """Pebble's machines. Cheap to make; holds no connection."""

    name = NAME
    capabilities = CAPABILITIES

    def check(self) -> CheckResult:
        try:
            told = api().call("GET", "/account", seconds=CHECK_SECONDS)
            return CheckResult(self.name, True, told["email"], KEY.find().masked)
        except CloudError as error:
            return CheckResult(self.name, enabled=False, problem=error.failure)

    def offers(self) -> Sequence[Offer] | None:
        return shipped_offers(NAME, "pebble", prices.SHIPPED_AS_OF)

    def stock(self, offers: Sequence[Offer], count: int) -> Sequence[Stock]:
        return pre_flight.levels(offers, count)

    def quote(self, candidate: Candidate) -> Quote | None:
        for kind in api().call("GET", "/types", seconds=CHECK_SECONDS):
            if kind["name"] == candidate.offer.instance_type:
                return Quote(usd(kind["cents_per_hour"] / 100), "Pebble API", time.time())
        return None

    def submit(self, launch: Launch) -> CreateOperation:
        refuse_unsupported(launch, CAPABILITIES, "Pebble")
        if found := self._of_token(launch.token, LIST_SECONDS / 2):
            return CreateOperation(self.name, launch.token, found[0], {"id": found[0]})
        offer = launch.candidate.offer
        order = {
            "name": launch.name,
            "type": offer.instance_type,
            "region": offer.region,
            "image": images.chosen(launch.image, offer.region, offer.instance_type),
            "disk_gb": launch.disk_gb,
            "labels": {**launch.tags, "nbprov-owner": launch.owner, "nbprov-token": launch.token},
            "user_data": launch.user_data(),
        }
        told = api().call(
            "POST",
            "/boxes",
            order,
            seconds=CALL_SECONDS / 2,
            creates=True,
            secrets=launch.template_values.values(),
        )
        return CreateOperation(self.name, launch.token, told["id"], {"id": told["id"]})

    def poll(self, operation: CreateOperation) -> PollResult:
        known = operation.data.get("id")
        ids = (known,) if known else self._of_token(operation.token, LIST_SECONDS)
        if ids:
            return Accepted(ids)
        words = "Pebble lists no machine of this launch"
        return Refused(Failure(Cause.UNKNOWN, words, "not-listed"))

    def list(self, owner: str) -> builtins.list[Instance]:
        return [one for one in self._all(LIST_SECONDS) if one.owner == owner]

    def terminate(self, ids: Sequence[str]) -> None:
        self._each("DELETE", ids, "")

    def start(self, ids: Sequence[str]) -> None:
        self._each("POST", ids, "/resume", gone_is_error=True)

    def stop(self, ids: Sequence[str]) -> None:
        self._each("POST", ids, "/halt")

    def _each(
        self, method: str, ids: Sequence[str], verb: str, *, gone_is_error: bool = False
    ) -> None:
        for one in ids:
            try:
                api().call(method, f"/boxes/{one}{verb}", seconds=CALL_SECONDS / len(ids))
            except CloudError as error:
                if gone_is_error or error.failure.code != "gone":
                    raise

    def _of_token(self, token: str, seconds: float) -> tuple[str, ...]:
        return tuple(one.id for one in self._all(seconds) if one.token == token)

    def _all(self, seconds: float) -> builtins.list[Instance]:
        rows = api().pages(
            "/boxes",
            lambda page: page["boxes"],
            lambda page: page["next"] and {"cursor": page["next"]},
            seconds=seconds,
        )
        return [self._instance(row) for row in rows]

    def _instance(self, row: Mapping[str, Any]) -> Instance:
        labels = row["labels"]
        return Instance(
            cloud=self.name,
            id=row["id"],
            token=labels.get("nbprov-token", ""),
            owner=labels.get("nbprov-owner", ""),
            place=Place(self.name, row["region"]),
            instance_type=row["type"],
            state=STATES.get(row["state"], InstanceState.UNKNOWN),
            host=row["ip"] or "",
            port=int(labels.get(SSH_PORT_LABEL) or 22) if row["ip"] else 0,
            user=labels.get(LOGIN_LABEL) or images.LOGIN,
            name=row["name"],
            launched_at=row["created_ms"] / 1000,
            hourly=usd(row["cents_per_hour"] / 100),
        )
