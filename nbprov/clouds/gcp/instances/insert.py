"""Creates.

Sent once, followed by their operation, or by label if Google has forgotten the operation.

One machine is created by `instances.insert`, several by the zone's `bulkInsert` (all or none). If
an offer names no zone, because prices hold for the whole region, the region's `bulkInsert` lets
Google choose a zone that has all of them. A repeat has the same `requestId` and the same machine
names. In a region, names do not help, because a repeat might land in another zone; so existing
machines are looked for first.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nbprov.clouds.base import CALL_SECONDS, LIST_SECONDS
from nbprov.clouds.gcp import errors, labels
from nbprov.clouds.gcp.account import projects
from nbprov.clouds.gcp.account.clients import Compute, Deadline
from nbprov.clouds.gcp.images import ComputeImage, Images
from nbprov.clouds.gcp.instances import insert_bodies
from nbprov.clouds.gcp.instances.label_search import rows
from nbprov.clouds.gcp.network.firewall import Firewall, is_gone
from nbprov.clouds.launch_checks import refuse_late
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import Accepted, CreateOperation, Launch, Pending, PollResult, Refused
from nbprov.model.places import Market

EXISTS = ("alreadyExists", "RESOURCE_ALREADY_EXISTS")


@dataclass(frozen=True, slots=True)
class _Create:
    """One create, ready to be sent."""

    call: str
    service: str
    method: str
    body: tuple[str, str, dict[str, Any]]
    fingerprint: str
    place: dict[str, str]


class Inserter:
    """Sends creates and reports their outcome."""

    def __init__(self) -> None:
        self._images = Images()
        self.firewall = Firewall()

    def submit(self, compute: Compute, launch: Launch) -> CreateOperation:
        """See `Cloud.submit`."""
        refuse_late(launch)
        deadline = Deadline(CALL_SECONDS)
        offer = launch.candidate.offer
        shape = insert_bodies.shape_of(offer.instance_type)
        image = self._images.of(
            compute,
            deadline,
            own=launch.image,
            machine_family=shape.family,
            has_gpu=shape.has_gpu,
            device=shape.device,
        )
        self.firewall.ensure(compute, deadline, launch.owner, insert_bodies.ssh_port(launch))
        if launch.ports:
            self.firewall.open_ports(compute, deadline, launch.owner, launch.token, launch.ports)
        create = _create(launch, image, compute.project)
        data = {
            "project": compute.project,
            **create.place,
            "names": " ".join(labels.names(launch)),
            "print": create.fingerprint,
            "call": create.call,
            "market": offer.market.value,
            "at": f"{time.time():.3f}",
            "part": str(launch.part),
        }
        try:
            projects.note(launch.owner, compute.project)
        except OSError as error:
            words = (
                "the create was not sent, because its project could not be recorded in "
                f"{projects.folder()} ({error.strerror})"
            )
            raise CloudError(Failure(Cause.TRANSIENT, words, "not-noted")) from error
        if "region" in create.place and any(rows(compute, deadline, labels.TOKEN, launch.token)):
            return self._repeated(compute, deadline, launch, data)
        refuse_late(launch)
        try:
            answer = compute.call(
                create.service,
                create.method,
                deadline,
                body=create.body,
                creates=create.call,
                spot=offer.market is Market.SPOT,
                request_id=labels.request_id(launch.key, create.fingerprint),
                **create.place,
            )
        except CloudError as error:
            if error.failure.code not in EXISTS:
                raise
            return self._repeated(compute, deadline, launch, data)
        return CreateOperation("gcp", launch.token, str(answer.get("name") or ""), data)

    def poll(self, compute: Compute, operation: CreateOperation) -> PollResult:
        """See `Cloud.poll`."""
        deadline, data = Deadline(LIST_SECONDS), operation.data
        compute = compute.within(data.get("project") or compute.project)
        place = {key: data[key] for key in ("zone", "region") if data.get(key)}
        if not operation.id or not place:
            return _from_listing(compute, deadline, operation.token, data)
        service = "ZoneOperations" if "zone" in place else "RegionOperations"
        fields: dict[str, Any] = {**place, "operation": operation.id}
        try:
            told = compute.call(service, "get", deadline, **fields)
        except CloudError as error:
            if not is_gone(error):
                raise
            found = _from_listing(compute, deadline, operation.token, data)
            is_young = abs(time.time() - float(data.get("at") or 0)) < YOUNG_SECONDS
            return Pending() if is_young and _is_forgotten(found) else found
        if told.get("status") != "DONE":
            return Pending()
        said = errors.said_of_operation(told)
        if errors.exists(said):
            return _from_listing(compute, deadline, operation.token, data)
        if said:
            return Refused(
                errors.worst_of(said, call=data["call"], spot=data["market"] == Market.SPOT.value)
            )
        if "zone" in place:
            return Accepted(
                tuple(labels.instance_id(place["zone"], name) for name in data["names"].split())
            )
        found = _from_listing(compute, deadline, operation.token, data)
        # Google has only just created them, so a list without them says nothing.
        return Pending() if _is_forgotten(found) else found

    def _repeated(
        self, compute: Compute, deadline: Deadline, launch: Launch, data: dict[str, str]
    ) -> CreateOperation:
        """Return the operation of a create whose machines exist already.

        Google no longer remembers that create, or it asked for something else and this one is
        refused.
        """
        result = _from_listing(compute, deadline, launch.token, data)
        if isinstance(result, Refused):
            failure = result.failure
            if failure.code == _FORGOTTEN:
                failure = Failure(
                    Cause.UNKNOWN_OUTCOME,
                    "machines of this name exist, but are not listed yet",
                    failure.code,
                )
            raise CloudError(failure)
        return CreateOperation("gcp", launch.token, "", data)


_FORGOTTEN = "operation-forgotten"
YOUNG_SECONDS: Seconds = 60.0
"""How long after a create an unknown operation may still appear, and its machines with it."""


def _is_forgotten(result: PollResult) -> bool:
    """Whether there is neither an operation nor a machine."""
    return isinstance(result, Refused) and result.failure.code == _FORGOTTEN


def _create(launch: Launch, image: ComputeImage, project: str) -> _Create:
    offer = launch.candidate.offer
    resource = ("bulk_insert_instance_resource_resource", "BulkInsertInstanceResource")
    if not offer.zone:
        body, fingerprint = insert_bodies.many(launch, image)
        body["locationPolicy"] = {"targetShape": "ANY_SINGLE_ZONE"}
        place = {"region": offer.region}
        return _Create(
            "bulkInsert",
            "RegionInstances",
            "bulk_insert_unary",
            (*resource, body),
            fingerprint,
            place,
        )
    place = {"zone": offer.zone}
    if launch.count == 1:
        body, fingerprint = insert_bodies.one(launch, image, project)
        return _Create(
            "insert",
            "Instances",
            "insert_unary",
            ("instance_resource", "Instance", body),
            fingerprint,
            place,
        )
    body, fingerprint = insert_bodies.many(launch, image)
    return _Create(
        "bulkInsert", "Instances", "bulk_insert_unary", (*resource, body), fingerprint, place
    )


def _from_listing(
    compute: Compute, deadline: Deadline, token: str, data: Mapping[str, str]
) -> PollResult:
    """Return the outcome of a create whose operation no longer exists, from the listing."""
    found = list(rows(compute, deadline, labels.TOKEN, token))
    if data.get("part", "0") != "0":  # the cluster's other machines have the same token
        found = [row for row in found if str(row["name"]) in data["names"].split()]
    if not found:
        return Refused(
            Failure(
                Cause.UNKNOWN,
                "Google knows no such create and lists no machine of it",
                _FORGOTTEN,
            )
        )
    wanted = data.get("print", "")
    if wanted and any((row.get("labels") or {}).get(labels.PRINT) != wanted for row in found):
        return Refused(
            Failure(
                Cause.BAD_REQUEST,
                ("this token was used before for another type of machine"),
                "token-reused",
            )
        )
    if set(data.get("names", "").split()) - {str(row["name"]) for row in found}:
        return Pending()  # Google creates the rest, or deletes all of them again
    ids = sorted(
        (
            labels.node_of(str(row["name"])),
            labels.instance_id(labels.last(row["zone"]), str(row["name"])),
        )
        for row in found
    )
    return Accepted(tuple(one for _, one in ids))
