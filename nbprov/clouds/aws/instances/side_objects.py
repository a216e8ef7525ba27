"""What launches leave beside their machines.

Disks that outlived them, security groups with open ports, spot requests, and nbprov's own networks.

Key pairs and fixed addresses are never created: the login key and the host key travel in the start
script, and addresses are EC2's own. A network interface is deleted with its machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbprov.clouds.aws.account.clients import AwsAccount
from nbprov.clouds.aws.account.parallel_calls import in_every_region
from nbprov.clouds.aws.instances.states import CLOUD, tags_of
from nbprov.clouds.aws.network.security_groups import SecurityGroups
from nbprov.clouds.aws.network.subnets import Networks
from nbprov.clouds.base import CALL_SECONDS, LIST_SECONDS
from nbprov.model.clock import Seconds
from nbprov.model.failures import CloudError
from nbprov.model.launches import SideObject

VOLUME, GROUP, SPOT_REQUEST, NETWORK = "volume", "security-group", "spot-request", "network"
LAST_CALL: Seconds = 16.5
"""How long one request may take at worst: two attempts with a pause. No request begins later than
that before the end of a removal."""


class AwsSideObjects:
    """Finds and removes side objects."""

    def __init__(
        self, session: AwsAccount, networks: Networks, security_groups: SecurityGroups
    ) -> None:
        self._session = session
        self._networks = networks
        self._security_groups = security_groups

    def find(self, owner: str) -> list[SideObject]:
        """Return all side objects of an owner, in every region.

        Raise if a region could not be asked.
        """
        found = in_every_region(
            self._session, lambda region: self._in_region(region, owner), LIST_SECONDS - 1.0
        )
        return [thing for things in found.values() for thing in things]

    def remove(self, objects: Sequence[SideObject]) -> list[SideObject]:
        """Remove side objects; return those that are still in use or were not reached in time."""
        # Networks go last, because the other objects may be in them.
        order = sorted(objects, key=lambda o: (o.kind == NETWORK, o.kind == GROUP))
        left = []
        with self._session.within(CALL_SECONDS - LAST_CALL):
            for thing in order:
                try:
                    self._remove(thing)
                except CloudError as error:
                    if not error.failure.code.endswith((".NotFound", ".Malformed")):
                        left.append(thing)
        return left

    def _remove(self, thing: SideObject) -> None:
        region = thing.region
        if thing.kind == VOLUME:
            self._session.call(region, "DeleteVolume", VolumeId=thing.id)
        elif thing.kind == GROUP:
            self._security_groups.delete(region, thing.id)
        elif thing.kind == SPOT_REQUEST:
            self._session.call(
                region, "CancelSpotInstanceRequests", SpotInstanceRequestIds=[thing.id]
            )
        elif thing.kind == NETWORK:
            self._networks.take_down(region, thing.id)

    def _in_region(self, region: str, owner: str) -> list[SideObject]:
        return [
            *self._groups(region, owner),
            *self._volumes(region, owner),
            *self._spot_requests(region, owner),
            *self._own_network(region),
        ]

    def _groups(self, region: str, owner: str) -> list[SideObject]:
        found = []
        for group in self._security_groups.find(region, owner):
            token = tags_of(group).get("nbprov-token", "")
            found.append(
                SideObject(CLOUD, region, GROUP, str(group["GroupId"]), token, shared=not token)
            )
        return found

    def _volumes(self, region: str, owner: str) -> list[SideObject]:
        """Return disks that no machine has any more.

        EC2 deletes our disks with their machines; those that are left were detached by hand or by a
        fault.
        """
        filters = [
            {"Name": "tag:nbprov-owner", "Values": [owner]},
            {"Name": "status", "Values": ["available", "error"]},
        ]
        return self._tokened(region, "DescribeVolumes", "Volumes", VOLUME, "VolumeId", filters)

    def _spot_requests(self, region: str, owner: str) -> list[SideObject]:
        """Return spot requests that still wait for a machine.

        One that has its machine ends with it.
        """
        filters = [
            {"Name": "tag:nbprov-owner", "Values": [owner]},
            {"Name": "state", "Values": ["open"]},
        ]
        return self._tokened(
            region,
            "DescribeSpotInstanceRequests",
            "SpotInstanceRequests",
            SPOT_REQUEST,
            "SpotInstanceRequestId",
            filters,
        )

    def _tokened(
        self, region: str, call: str, rows: str, kind: str, key: str, filters: list[dict[str, Any]]
    ) -> list[SideObject]:
        pages = self._session.pages(region, call, Filters=filters)
        return [
            SideObject(CLOUD, region, kind, str(r[key]), tags_of(r).get("nbprov-token", ""))
            for page in pages
            for r in page[rows]
        ]

    def _own_network(self, region: str) -> list[SideObject]:
        return [
            SideObject(CLOUD, region, NETWORK, vpc, shared=True)
            for vpc in self._networks.own_vpcs(region)
        ]
