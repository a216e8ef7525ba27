"""The adapter of the `local` cloud: each call is one request to the daemon."""

from __future__ import annotations

import builtins
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nbprov.clouds.base import CALL_SECONDS, CHECK_SECONDS, LIST_SECONDS, Capabilities, Cloud
from nbprov.clouds.launch_checks import refuse_unsupported
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure
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
from nbprov.model.offers import SIMULATED, Candidate, Offer
from nbprov.model.places import Place

from . import errors, market_offers, rpc
from .client import DaemonClient
from .daemon import platform_calls

NAME = "local"

CAPABILITIES = Capabilities(
    spot=True,
    stop=True,
    multi_node=True,
    ports=True,
    replayable=True,
    fills=True,
    replaces_nodes=True,
    settle=1.0,
    own_timer=True,
    zones=True,
    poweroff_ends_bill=True,
    poweroff="nbprov-poweroff {mode} {reason}",
    simulated=True,
    named_only=True,
    accept_deadline=20.0,
    boot_deadline=30.0,
    ssh_deadline=20.0,
    poll_every=0.05,
    default_families=("sim-cpu",),
    notes={
        "login": "the account that runs the notebook",
        "ports": "every port of a machine is reachable from this computer and from nowhere else",
        "prices": "simulated: you pay $0",
    },
)


class LocalCloud(Cloud):
    """The cloud on this computer.

    Parameters
    ----------
    folder
        Its state directory. The default is `NBPROV_LOCAL_DIR`, or `local` in nbprov's home, looked
        up at every call.
    """

    name = NAME
    capabilities = CAPABILITIES

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    @property
    def folder(self) -> Path:
        """The state directory, with the market file, the daemon's log and the machines."""
        return self._folder if self._folder is not None else rpc.state_dir()

    def check(self) -> CheckResult:
        if platform_calls.IS_WINDOWS:
            problem = Failure(Cause.NOT_OFFERED, "the local cloud needs Linux, macOS or WSL")
            return CheckResult(self.name, enabled=False, problem=problem)
        try:
            told = self._call("describe", {}, CHECK_SECONDS)
        except CloudError as error:
            return CheckResult(self.name, enabled=False, problem=error.failure)
        problem_words = told["problem"]
        failure = None
        if not told["server"]:
            failure = Failure(
                Cause.PERMISSION, "there is no ssh server on this computer: install openssh-server"
            )
        elif problem_words:
            failure = Failure(Cause.BAD_REQUEST, problem_words, "InvalidMarket")
        details = (
            "prices are simulated: you pay $0; GPUs are simulated",
            f"isolation: {told['isolation']}",
            told["server"],
            f"the user of machines is {told['login']}",
            f"market: {told['market']}",
        )
        return CheckResult(
            self.name,
            failure is None,
            told["account"],
            "none needed",
            failure,
            tuple(d for d in details if d),
        )

    def offers(self) -> Sequence[Offer]:
        return [
            market_offers.offer(row, self.name) for row in self._call("offers", {}, CHECK_SECONDS)
        ]

    def quote(self, candidate: Candidate) -> Quote | None:
        hourly = self._call("quote", _row(candidate), CHECK_SECONDS)
        return None if hourly is None else Quote(int(hourly), SIMULATED, time.time())

    def submit(self, launch: Launch) -> CreateOperation:
        refuse_unsupported(launch, CAPABILITIES, "the local cloud")
        arguments: dict[str, Any] = {
            **_row(launch.candidate),
            "token": launch.token,
            "key": launch.key,
            "nodes": [*launch.numbers],
            "owner": launch.owner,
            "name": launch.name,
            "count": launch.count,
            "disk_gb": launch.disk_gb,
            "tags": dict(launch.tags),
            "user_data": launch.user_data(),
            "public_key": launch.public_key,
            "ports": [list(pair) for pair in launch.ports],
            "on_shutdown": launch.on_shutdown.value,
            "terminate_after": launch.terminate_after,
            "answer_by": launch.answer_by,
        }
        answer = self._call("submit", arguments, CALL_SECONDS, creates=True)
        return CreateOperation(self.name, launch.token, answer["id"], {"key": launch.key})

    def poll(self, operation: CreateOperation) -> PollResult:
        answer = self._call(
            "poll", {"token": operation.data.get("key", operation.token)}, LIST_SECONDS
        )
        if answer["state"] == "accepted":
            return Accepted(tuple(answer["ids"]))
        if answer["state"] == "refused":
            return Refused(
                errors.failure_of(rpc.Refusal(answer["code"], answer["message"], answer["details"]))
            )
        return Pending()

    def list(self, owner: str) -> builtins.list[Instance]:
        return [self._instance(row) for row in self._call("list", {"owner": owner}, LIST_SECONDS)]

    def terminate(self, ids: Sequence[str]) -> None:
        self._call("terminate", {"ids": [*ids]}, CALL_SECONDS)

    def start(self, ids: Sequence[str]) -> None:
        self._call("start", {"ids": [*ids]}, CALL_SECONDS)

    def stop(self, ids: Sequence[str]) -> None:
        self._call("stop", {"ids": [*ids]}, CALL_SECONDS)

    def open_ports(self, ids: Sequence[str], ports: Sequence[tuple[int, int]]) -> None:
        """Do nothing.

        Every port of a machine is reachable from this computer, and from nowhere else.
        """

    def close_ports(self, ids: Sequence[str], ports: Sequence[tuple[int, int]]) -> None:
        """Do nothing, like `open_ports`."""

    def console(self, instance_id: str) -> str:
        return str(self._call("console", {"id": instance_id}, LIST_SECONDS))

    def classify(self, error: BaseException) -> Failure:
        return errors.failure_of_exception(error) or super().classify(error)

    def _call(
        self, name: str, arguments: Mapping[str, Any], timeout: Seconds, *, creates: bool = False
    ) -> Any:
        try:
            return DaemonClient(self.folder).call(name, arguments, timeout=timeout)
        except (rpc.Refusal, rpc.Unreachable, rpc.AnswerLost) as error:
            failure = errors.failure_of_exception(error, creates=creates)
            raise CloudError(failure or super().classify(error)) from error

    def _instance(self, row: Mapping[str, Any]) -> Instance:
        state = InstanceState(row["state"])
        return Instance(
            cloud=self.name,
            id=row["id"],
            token=row["token"],
            owner=row["owner"],
            place=Place(self.name, row["region"], row["zone"]),
            instance_type=row["type"],
            state=state,
            host=row["host"],
            port=row["port"],
            private_host=row["host"],
            node=row["node"],
            name=row["name"],
            spot=row["market"] == "spot",
            launched_at=row["launched_at"],
            stopped_at=0.0 if state.is_billed else row["changed_at"],
            reason=row["reason"],
            hourly=row["hourly"],
            by_itself=row["by_itself"],
        )


def _row(candidate: Candidate) -> dict[str, str]:
    offer = candidate.offer
    return {
        "region": offer.region,
        "zone": offer.zone,
        "type": offer.instance_type,
        "market": offer.market.value,
    }
