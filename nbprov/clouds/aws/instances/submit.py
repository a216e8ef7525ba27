"""Creating the machines of a launch: preparation, the one create, and its outcome."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from nbprov.clouds.aws import errors, images
from nbprov.clouds.aws.account.clients import CREATE, REGIONS_VARIABLE, AwsAccount, narrowed
from nbprov.clouds.aws.instances import launch_index, run_instances
from nbprov.clouds.aws.instances.listing import InstanceListing
from nbprov.clouds.aws.instances.states import CLOUD, ssh_port
from nbprov.clouds.aws.network.security_groups import SecurityGroups, covered, without
from nbprov.clouds.aws.network.subnets import Networks, Subnet
from nbprov.clouds.base import SSH_PORT_LABEL
from nbprov.clouds.launch_checks import refuse_late
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure, Scope
from nbprov.model.launches import (
    Accepted,
    CreateOperation,
    InstanceState,
    Launch,
    Pending,
    PollResult,
    Refused,
)
from nbprov.model.places import Market

PREPARE_SECONDS: Seconds = 10.0
"""How long image, subnet and security group may take together. The last of their calls may take 17
s, and the create 18 s, of a call's 30."""
ASKING_SECONDS: Seconds = 3.0
"""When a poll begins no second call: one may take 17 s of a listing's 20."""
SETTLING: Seconds = 10.0
"""How long `pending` machines count as undecided: in that time EC2 ends those that it has no room
for."""
NOTHING_MADE = frozenset(
    {Cause.CAPACITY, Cause.SPOT, Cause.QUOTA, Cause.NOT_OFFERED, Cause.BAD_REQUEST}
)
"""Causes of a refused first create after which surely no machine of it exists."""
USED_TOKEN = frozenset({"IdempotentParameterMismatch", "IdempotentInstanceTerminated"})


class Submitter:
    """Sends the creates of one account."""

    def __init__(
        self,
        session: AwsAccount,
        networks: Networks,
        security_groups: SecurityGroups,
        listing: InstanceListing,
    ) -> None:
        self._session = session
        self._networks = networks
        self._security_groups = security_groups
        self._listing = listing

    def submit(self, launch: Launch) -> CreateOperation:
        """Send one create for all machines of a launch."""
        refuse_late(launch)
        region = launch.candidate.offer.region
        if narrowed() and region not in narrowed():
            # No listing would show a machine there.
            words = f"{region} is not among the regions that {REGIONS_VARIABLE} names"
            raise CloudError(Failure(Cause.NOT_OFFERED, words, "narrowed", Scope.REGION))
        try:
            with self._session.within(PREPARE_SECONDS):
                subnet = self._networks.place(region, launch.candidate.offer.zone)
                image = images.find(self._session, region, launch.candidate.offer, launch.image)
                groups = self._groups(launch, subnet)
                efa = launch.network_best and self._has_efa(
                    region, launch.candidate.offer.instance_type
                )
                if efa:
                    self._security_groups.join_out(region, groups[0])
            before = launch_index.read(launch.token)
            note = self._noted(launch, before)
        except CloudError as error:
            raise CloudError(self._explained(region, error.failure)) from None
        refuse_late(launch)
        return self._create(launch, note, image, subnet, groups, efa=efa, is_first=before is None)

    def poll(self, operation: CreateOperation) -> PollResult:
        """Return the outcome of a create.

        EC2 answers a create with the ids of its machines. What remains to be seen is whether it
        ends them again: they go from pending to terminated, with a reason.
        """
        told = tuple(i for i in operation.data.get("ids", "").split(",") if i)
        region = operation.data.get("region", "")
        if region:
            self._listing.note(region, told)
        with self._session.within(ASKING_SECONDS):
            shown = self._listing.of_token(operation.token, region, operation.data.get("key", ""))
        if not shown:
            # Fresh machines are often not listed yet, which is no refusal.
            return (
                Accepted(told)
                if told
                else Refused(
                    Failure(
                        Cause.UNKNOWN, "EC2 knows no machine of this create", "OperationForgotten"
                    )
                )
            )
        undecided = all(i.state is InstanceState.PENDING for i in shown) or all(
            i.state is InstanceState.ENDING for i in shown
        )
        if all(i.state is InstanceState.GONE and i.failure for i in shown):
            # EC2 ended all of them again.
            return Refused(next(i.failure for i in shown if i.failure))
        if undecided and 0 <= time.time() - float(operation.data.get("at") or 0) < SETTLING:
            return Pending()
        return Accepted(told or tuple(i.id for i in sorted(shown, key=lambda i: (i.node, i.id))))

    # ------------------------------------------------------------ before the create

    def _groups(self, launch: Launch, subnet: Subnet) -> list[str]:
        region = launch.candidate.offer.region
        group = self._security_groups.shared(
            region, subnet.vpc, launch.owner, ssh_port(launch.tags.get(SSH_PORT_LABEL, ""))
        )
        ports = without(covered(launch.ports), ssh_port(launch.tags.get(SSH_PORT_LABEL, "")))
        return [
            group,
            *(
                [
                    self._security_groups.for_ports(
                        region, subnet.vpc, launch.owner, launch.token, ports
                    )
                ]
                if ports
                else []
            ),
        ]

    def _has_efa(self, region: str, instance_type: str) -> bool:
        """Whether a type supports an Elastic Fabric Adapter.

        If not, `network_tier: best` means the network that the type has.
        """
        answer = self._session.call(region, "DescribeInstanceTypes", InstanceTypes=[instance_type])
        return any(
            bool(t.get("NetworkInfo", {}).get("EfaSupported")) for t in answer["InstanceTypes"]
        )

    # ------------------------------------------------------------ the create

    def _noted(
        self, launch: Launch, before: launch_index.IndexedLaunch | None
    ) -> launch_index.IndexedLaunch:
        """Record the launch before its create is sent.

        Raises
        ------
        CloudError
            `unknown_outcome` if this create was sent before with credentials of another account,
            because it may have made machines there.
        """
        offer = launch.candidate.offer
        try:
            account = self._session.account()
        except CloudError:
            # Anyone who may launch may ask this as well. Without an answer, the create's answer
            # names the account.
            account = ""
        if before is not None and before.account and account != before.account:
            words = (
                "this create was sent before with credentials of the AWS account "
                f"{before.account}, and the current ones are of another account"
            )
            raise CloudError(Failure(Cause.UNKNOWN_OUTCOME, words, "OtherAccount"))
        if before is None:
            spot = offer.market is Market.SPOT
            before = launch_index.IndexedLaunch(
                launch.token,
                launch.owner,
                offer.region,
                "",
                offer.instance_type,
                launch.name,
                spot,
                launch.count,
            )
        note = replace(before, account=before.account or account, at=time.time())
        launch_index.write(note)
        return note

    def _create(
        self,
        launch: Launch,
        note: launch_index.IndexedLaunch,
        image: images.MachineImage,
        subnet: Subnet,
        groups: list[str],
        *,
        efa: bool,
        is_first: bool,
    ) -> CreateOperation:
        region = note.region
        try:
            answer = self._sent(launch, region, image, subnet, groups, efa=efa)
        except CloudError as error:
            failure = error.failure
            if is_first and failure.cause in NOTHING_MADE and failure.code not in USED_TOKEN:
                launch_index.drop(note)
            if failure.code in USED_TOKEN:
                return self._made_before(launch, note, failure)
            if failure.code in (
                "InvalidSubnetID.NotFound",
                "InvalidSubnet",
                "InvalidGroup.NotFound",
            ):
                # A remembered object is gone, or a new one is not visible everywhere yet.
                self._networks.forget(region)
                failure = replace(failure, cause=Cause.TRANSIENT)
            elif (
                failure.code.startswith("InvalidAMIID.")
                and not launch.image
                and images.forget(region, launch.candidate.offer)
            ):
                # The cached image was withdrawn; the next attempt looks up its successor.
                failure = replace(failure, cause=Cause.TRANSIENT)
            raise CloudError(self._explained(region, failure)) from None
        rows: Sequence[dict[str, Any]] = sorted(
            answer["Instances"], key=lambda i: int(i.get("AmiLaunchIndex") or 0)
        )
        ids = tuple(str(i["InstanceId"]) for i in rows)
        with contextlib.suppress(CloudError):
            # The existing record suffices to find the machines again.
            others = note.ids if launch.part else ()
            launch_index.write(
                replace(
                    note,
                    ids=(*(i for i in others if i not in ids), *ids),
                    account=str(answer.get("OwnerId") or note.account),
                )
            )
        return self._operation(launch, region, str(answer.get("ReservationId", "")), ids)

    def _sent(
        self,
        launch: Launch,
        region: str,
        image: images.MachineImage,
        subnet: Subnet,
        groups: list[str],
        *,
        efa: bool,
    ) -> Any:
        whole = run_instances.request(launch, image, subnet, groups, efa=efa)
        try:
            return self._session.call(region, errors.CREATE, CREATE, **whole)
        except CloudError as refused:
            if not run_instances.wants_no_volume_tags(refused.failure):
                raise
            less = run_instances.request(launch, image, subnet, groups, efa=efa, tag_volumes=False)
            try:
                return self._session.call(region, errors.CREATE, CREATE, **less)
            except CloudError as error:
                # The refusal of the full request names the missing permission; that of the smaller
                # one may not.
                raise (refused if error.failure.code == refused.failure.code else error) from None

    def _made_before(
        self, launch: Launch, note: launch_index.IndexedLaunch, failure: Failure
    ) -> CreateOperation:
        """Return the operation of an earlier create with this token.

        This is needed if a repeat differs from the first request, for example because the default
        image changed.
        """
        region = note.region
        key = launch.key if launch.part else ""
        shown = [
            i for i in self._listing.of_token(launch.token, region, key) if i.owner == launch.owner
        ]
        if not shown and failure.code == "IdempotentInstanceTerminated":
            raise CloudError(failure)
        if not shown:
            words = (
                f"this token was used before and its machines are not listed yet: {failure.message}"
            )
            raise CloudError(Failure(Cause.UNKNOWN_OUTCOME, words, failure.code))
        if not launch.part and len(shown) < note.count == launch.count:
            words = (
                f"this token was used before, and only {len(shown)} of its {note.count} "
                f"machines are listed so far: {failure.message}"
            )
            raise CloudError(Failure(Cause.UNKNOWN_OUTCOME, words, failure.code))
        if len(shown) != launch.count or {i.instance_type for i in shown} != {
            launch.candidate.offer.instance_type
        }:
            raise CloudError(failure)
        return self._operation(
            launch, region, "", [i.id for i in sorted(shown, key=lambda i: (i.node, i.id))]
        )

    def _operation(
        self, launch: Launch, region: str, reservation: str, ids: Sequence[str]
    ) -> CreateOperation:
        self._listing.note(region, ids)
        return CreateOperation(
            CLOUD,
            launch.token,
            reservation,
            {"region": region, "ids": ",".join(ids), "at": f"{time.time():.3f}"}
            | ({"key": launch.key} if launch.part else {}),
        )

    # ------------------------------------------------------------ causes

    def _explained(self, region: str, failure: Failure) -> Failure:
        """Correct one misleading refusal.

        In a region that is not enabled, EC2 refuses valid credentials as invalid.
        """
        if failure.cause is not Cause.CREDENTIALS or failure.code not in (
            "AuthFailure",
            "UnrecognizedClientException",
            "InvalidClientTokenId",
        ):
            return failure
        try:
            enabled = self._session.enabled()
        except CloudError:
            return failure
        if region in enabled:
            return failure
        words = f"the region {region} is not enabled for this account: {failure.message}"
        return Failure(Cause.PERMISSION, words, failure.code, Scope.REGION)
