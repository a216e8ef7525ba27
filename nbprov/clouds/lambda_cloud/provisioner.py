"""The adapter of Lambda: one machine for each launch, tagged from the start, no stop.

Lambda has no idempotency token. The launch's token is a tag of the machine instead: before a token
that this process has sent is sent again, it is looked for in Lambda's list, and after a lost answer
the engine looks for it there as well (`Capabilities.replayable` is False).
"""

from __future__ import annotations

import builtins
import time
from collections.abc import Sequence

from nbprov.clouds.api_keys import KeyAccess
from nbprov.clouds.base import (
    CALL_SECONDS,
    CHECK_SECONDS,
    LIST_SECONDS,
    LOGIN_LABEL,
    SSH_PORT_LABEL,
    STOCK_SECONDS,
    Capabilities,
    Cloud,
)
from nbprov.clouds.launch_checks import refuse_late
from nbprov.model.clock import Seconds
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
    SideObject,
)
from nbprov.model.offers import Candidate, Offer
from nbprov.model.places import Market
from nbprov.model.stock import Stock

from . import errors, images, instances, ssh_keys
from . import stock as type_list
from .account import find_access
from .api import call
from .rate_limit import LaunchPace, Sent, answer_of, sent_of

NAME = "lambda"
SOURCE = "Lambda Cloud API, instance-types"
FIREWALL = (
    "Lambda's inbound rules apply to the whole account (there are none in us-south-1): "
    "nbprov reads them and never changes them"
)

STEP_SECONDS: Seconds = CALL_SECONDS / 6
"""How long each step before the create may take: waiting for the same create, looking for the
token, two for the key. A third of the call's time is left for the create."""

CAPABILITIES = Capabilities(
    spot=False,
    stop=False,
    multi_node=False,
    ports=False,
    images=True,
    login=images.LOGIN,
    replayable=False,
    settle=120.0,
    zones=False,
    stock_probe=True,
    poweroff_ends_bill=False,
    accept_deadline=60.0,
    # four minutes for one GPU, 25 for eight H100 (github.com/dstackai/dstack/issues/2342)
    boot_deadline=1800.0,
    ssh_deadline=300.0,
    poll_every=10.0,
    default_families=("cpu_",),
    notes={
        "ports": FIREWALL,
        "disk": "every type has a disk of fixed size, deleted with the machine",
        "nodes": (
            "Lambda creates one machine for each launch and allows one launch in 12 s, so "
            "several cannot be had all or none"
        ),
        "bill": "a machine that powers itself off is billed until it is terminated",
    },
)


class LambdaCloud(Cloud):
    """Lambda's on-demand machines.

    Parameters
    ----------
    pace
        The interval between launches, and how long the list of types is valid; tests against a
        double without limits give a faster one.
    """

    name = NAME
    capabilities = CAPABILITIES

    def __init__(self, pace: LaunchPace | None = None) -> None:
        self._pace = pace or LaunchPace()

    def check(self) -> CheckResult:
        try:
            access = find_access()
            machines = call(access, "GET", "/instances", seconds=CHECK_SECONDS / 2)
        except CloudError as error:
            return CheckResult(self.name, enabled=False, problem=error.failure)
        count = len(machines) if isinstance(machines, list) else 0
        details = (f"machines in the account: {count}", *self._firewall(access))
        return CheckResult(self.name, True, access.account, access.masked, None, details)

    def stock(self, offers: Sequence[Offer], count: int) -> Sequence[Stock]:
        if count != 1:
            return ()
        types, at = self._types(STOCK_SECONDS)
        return type_list.levels(types, offers, at)

    def quote(self, candidate: Candidate) -> Quote | None:
        types, at = self._types(CHECK_SECONDS)
        hourly = type_list.hourly(types, candidate.offer.instance_type)
        return None if hourly is None else Quote(hourly, SOURCE, at)

    def submit(self, launch: Launch) -> CreateOperation:
        _refuse_what_cannot_be(launch)
        body = _request(launch)
        access = find_access()
        sent, by = sent_of(access.base, launch.token), time.monotonic() + CALL_SECONDS
        # One create for each token at a time: a repeat waits for the first one's answer and then
        # finds its machine.
        if not sent.lock.acquire(timeout=STEP_SECONDS):
            raise CloudError(
                Failure(Cause.UNKNOWN_OUTCOME, "the same create is being sent already", "in-flight")
            )
        try:
            found = sent.ids or (
                self._tagged(access, launch.token, STEP_SECONDS) if sent.unclear else ()
            )
            ids = found or self._create(access, launch, body, sent, by)
            return CreateOperation(self.name, launch.token, ids[0], {"ids": ",".join(ids)})
        finally:
            sent.lock.release()

    def poll(self, operation: CreateOperation) -> PollResult:
        if operation.data.get("ids"):
            return Accepted(tuple(operation.data["ids"].split(",")))
        found = self._tagged(find_access(), operation.token)
        return (
            Accepted(found)
            if found
            else Refused(
                Failure(Cause.UNKNOWN, "Lambda lists no machine of this launch", "not-listed")
            )
        )

    def list(self, owner: str) -> builtins.list[Instance]:
        return [machine for machine in self._all(find_access()) if machine.owner == owner]

    def terminate(self, ids: Sequence[str]) -> None:
        access, waiting = find_access(), [*ids]
        if not waiting:
            return
        try:
            self._terminate(access, waiting)
        except CloudError as error:
            # One unknown id refuses the whole batch, and so may one that is ending. The list shows
            # which are left.
            if (
                error.failure.cause is not Cause.NOT_OFFERED
                and error.failure.code != "global/conflict"
            ):
                raise
            ending = (InstanceState.ENDING, InstanceState.GONE)
            alive = [
                machine.id
                for machine in self._all(access, CALL_SECONDS / 3)
                if machine.id in waiting and machine.state not in ending
            ]
            if alive:
                self._terminate(access, alive)

    def side_objects(self, owner: str) -> builtins.list[SideObject]:
        return [
            SideObject(self.name, "", ssh_keys.KIND, key.id, shared=True)
            for key in ssh_keys.of_owner(find_access(), owner)
        ]

    def remove(self, objects: Sequence[SideObject]) -> builtins.list[SideObject]:
        access = find_access()
        return [
            one
            for one in objects
            if one.kind == ssh_keys.KIND
            and not ssh_keys.removed(access, one.id, CALL_SECONDS / max(1, len(objects)))
        ]

    def classify(self, error: BaseException) -> Failure:
        return errors.failure_of_exception(error) or super().classify(error)

    def _create(
        self, access: KeyAccess, launch: Launch, body: dict[str, object], sent: Sent, by: float
    ) -> tuple[str, ...]:
        """Send the one request that may create a machine.

        Wait for its answer until `by` (monotonic).
        """
        self._pace.wait_is_over(access.base)
        body["ssh_key_names"] = [ssh_keys.ensured(access, launch.owner, STEP_SECONDS)]
        refuse_late(launch)
        self._pace.launched(access.base)
        sent.unclear = True
        try:
            data = call(
                access,
                "POST",
                errors.LAUNCH_PATH,
                body,
                seconds=max(STEP_SECONDS, by - time.monotonic()),
                creates=True,
                secrets=launch.template_values.values(),
            )
        except CloudError as error:
            sent.unclear = error.failure.cause is Cause.UNKNOWN_OUTCOME
            if error.failure.cause is Cause.TRANSIENT:
                ssh_keys.forget(access, launch.owner)
            raise
        found = data.get("instance_ids") if isinstance(data, dict) else None
        if (
            not isinstance(found, builtins.list)
            or not found
            or not all(isinstance(i, str) and i for i in found)
        ):
            raise CloudError(
                Failure(
                    Cause.UNKNOWN_OUTCOME,
                    "Lambda accepted the launch but named no machine",
                    "odd-answer",
                )
            )
        sent.ids, sent.unclear = tuple(found), False
        return sent.ids

    def _tagged(
        self, access: KeyAccess, token: str, seconds: Seconds = LIST_SECONDS
    ) -> tuple[str, ...]:
        return tuple(machine.id for machine in self._all(access, seconds) if machine.token == token)

    def _all(self, access: KeyAccess, seconds: Seconds = LIST_SECONDS) -> builtins.list[Instance]:
        return instances.read(self.name, call(access, "GET", "/instances", seconds=seconds))

    def _terminate(self, access: KeyAccess, ids: Sequence[str]) -> None:
        call(
            access,
            "POST",
            "/instance-operations/terminate",
            {"instance_ids": [*ids]},
            seconds=CALL_SECONDS / 3,
        )

    def _types(self, seconds: Seconds) -> tuple[type_list.Types, float]:
        access = find_access()
        return answer_of(
            (access.base, access.account, "types"),
            self._pace.types_kept,
            lambda: type_list.read(call(access, "GET", "/instance-types", seconds=seconds)),
        )

    def _firewall(self, access: KeyAccess) -> tuple[str, ...]:
        """Say what the account's rules allow on port 22; empty if they cannot be read in time."""
        try:
            rules = call(access, "GET", "/firewall-rules", seconds=CHECK_SECONDS / 2)
        except CloudError:
            return ()
        return (instances.ssh_rule(rules), FIREWALL)


def _refuse_what_cannot_be(launch: Launch) -> None:
    if launch.candidate.offer.market is Market.SPOT:
        raise CloudError(Failure(Cause.SPOT, "Lambda sells no spot machines", "no-spot"))
    if launch.count != 1:
        message = (
            f"Lambda creates one machine for each launch, not {launch.count}: all or none is "
            "not possible"
        )
        raise CloudError(Failure(Cause.BAD_REQUEST, message, "count"))
    if launch.ports:
        raise CloudError(Failure(Cause.BAD_REQUEST, f"no port can be opened: {FIREWALL}", "ports"))
    refuse_late(launch)


def _request(launch: Launch) -> dict[str, object]:
    """Build the launch request, without the ssh key.

    Raises
    ------
    CloudError
        `bad_request` if the image cannot be Lambda's, or a label that nbprov itself reads does not
        fit into a tag.
    """
    offer = launch.candidate.offer
    own = {"nbprov-owner": launch.owner, "nbprov-token": launch.token}
    body: dict[str, object] = {
        "region_name": offer.region,
        "instance_type_name": offer.instance_type,
        "name": instances.clean_name(launch.name),
        "tags": instances.tags({**launch.tags, **own}, exact=(*own, LOGIN_LABEL, SSH_PORT_LABEL)),
    }
    if script := launch.user_data():
        body["user_data"] = script
    if image := images.specification(launch.image):
        body["image"] = image
    return body
