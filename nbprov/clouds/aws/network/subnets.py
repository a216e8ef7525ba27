"""The subnet that a machine is put into: of the default network, or of one that nbprov makes.

nbprov's own network is for accounts without a default one. It is a VPC tagged `nbprov-network` with
an internet gateway and one public subnet for each zone. It is created when first needed, shared by
everything nbprov starts in that region, and free; `remove` deletes it once it is empty.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from nbprov.clouds.aws.account.clients import AwsAccount
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure

NETWORK_TAG = "nbprov-network"
OWN_RANGE = "10.213.0.0/16"
"""A range that companies' networks seldom use, so that the network can be connected to one."""
HOLDS: Seconds = 600.0
"""How long the subnets of a region are remembered. They seldom change, and a launch into a deleted
one is refused and looks again."""


@dataclass(frozen=True, slots=True)
class Subnet:
    """A subnet, its zone, and whether its machines get a public address by default.

    Attributes
    ----------
    any_will_do
        Any other subnet of the default network would also do, so the zone may be left to EC2, which
        knows where the type is sold and in stock.
    """

    id: str
    vpc: str
    zone_id: str
    zone_name: str
    gives_address: bool
    any_will_do: bool = False


class Networks:
    """The zones and subnets of all regions, as the current account sees them."""

    def __init__(self, session: AwsAccount) -> None:
        self._session = session

    def zone_ids(self, region: str) -> dict[str, str]:
        """Return the ids of a region's zones by this account's names for them (`us-east-1a`).

        The ids mean the same to every account; the names do not.
        """
        known: dict[str, str] | None = self._session.fact(("zones", region))
        if known is None:
            answer = self._session.call(region, "DescribeAvailabilityZones")
            known = {
                z["ZoneName"]: z["ZoneId"]
                for z in answer["AvailabilityZones"]
                # Local Zones and Wavelength Zones are left out: they sell other types and must be
                # enabled first.
                if z.get("ZoneId") and z.get("ZoneType", "availability-zone") == "availability-zone"
            }
            self._session.keep(("zones", region), known)
        return known

    def zone_name(self, region: str, zone: str) -> str:
        """Return this account's name for a zone given by id or name.

        Empty if the region has no such zone.
        """
        names = self.zone_ids(region)
        return (
            zone
            if zone in names
            else next((name for name, known in names.items() if known == zone), "")
        )

    def place(self, region: str, zone: str) -> Subnet:
        """Return the subnet for a zone.

        For any zone it is always the same one, as a repeat of a create needs.

        Raises
        ------
        CloudError
            `not_offered` if the region has no such zone.
        """
        subnets, ours = self._subnets(region)
        if not subnets:
            return self._own(region, zone)
        fitting = [s for s in subnets if zone in ("", s.zone_id, s.zone_name)]
        if fitting:
            return replace(
                fitting[0],
                any_will_do=not zone and not ours and all(s.gives_address for s in fitting),
            )
        if not self.zone_name(region, zone):
            raise CloudError(Failure(Cause.NOT_OFFERED, f"{region} has no zone {zone}", "no-zone"))
        if ours:
            return self._own(region, zone)
        words = (
            f"the default network of {region} has no subnet in {zone}: `aws ec2 "
            "create-default-subnet` creates one"
        )
        raise CloudError(Failure(Cause.NOT_OFFERED, words, "no-subnet"))

    def forget(self, region: str) -> None:
        """Forget the subnets of a region, because one of them is gone."""
        self._session.keep(("subnets", region), None)

    def _subnets(self, region: str) -> tuple[tuple[Subnet, ...], bool]:
        """Return the subnets to choose from, and whether they belong to nbprov's own network."""
        known: tuple[tuple[Subnet, ...], bool] | None = self._session.fact(
            ("subnets", region), HOLDS
        )
        if known is not None:
            return known
        found, ours = self._read(region, [{"Name": "default-for-az", "Values": ["true"]}]), False
        if not found:
            found, ours = (
                self._read(region, [{"Name": f"tag:{NETWORK_TAG}", "Values": ["1"]}]),
                True,
            )
        if found:
            self._session.keep(("subnets", region), (found, ours))
        return found, ours

    def _read(self, region: str, filters: list[dict[str, Any]]) -> tuple[Subnet, ...]:
        pages = self._session.pages(region, "DescribeSubnets", Filters=filters)
        rows = [
            s
            for page in pages
            for s in page["Subnets"]
            if s.get("State", "available") == "available"
        ]
        found = [
            Subnet(
                s["SubnetId"],
                s["VpcId"],
                s.get("AvailabilityZoneId", ""),
                s["AvailabilityZone"],
                bool(s.get("MapPublicIpOnLaunch")),
            )
            for s in rows
        ]
        return tuple(sorted(found, key=lambda s: (s.zone_id, s.id)))

    # ------------------------------------------------------------ nbprov's own network

    def own_vpcs(self, region: str) -> tuple[str, ...]:
        """Return nbprov's networks in a region.

        Two exist only if two kernels made the first at once.
        """
        answer = self._session.call(
            region, "DescribeVpcs", Filters=[{"Name": f"tag:{NETWORK_TAG}", "Values": ["1"]}]
        )
        return tuple(sorted(v["VpcId"] for v in answer["Vpcs"]))

    def _own(self, region: str, zone: str) -> Subnet:
        zones = sorted(self.zone_ids(region).items(), key=lambda pair: pair[1])
        if not zones:
            raise CloudError(
                Failure(Cause.NOT_OFFERED, f"{region} shows no zone to this account", "no-zone")
            )
        wanted = next(((name, known) for name, known in zones if zone in ("", name, known)), None)
        if wanted is None:
            raise CloudError(Failure(Cause.NOT_OFFERED, f"{region} has no zone {zone}", "no-zone"))
        vpcs = self.own_vpcs(region)
        vpc = vpcs[0] if vpcs else self._make_vpc(region)
        self._open_up(region, vpc)
        here = [
            s
            for s in self._read(region, [{"Name": "vpc-id", "Values": [vpc]}])
            if s.zone_name == wanted[0]
        ]
        if not here:
            third = zones.index(wanted) * 16
            # If another kernel's identical request came first, the subnet exists now.
            with contextlib.suppress(CloudError):
                self._session.call(
                    region,
                    "CreateSubnet",
                    VpcId=vpc,
                    AvailabilityZone=wanted[0],
                    CidrBlock=f"10.213.{third}.0/20",
                    TagSpecifications=[_tags("subnet")],
                )
            here = [
                s
                for s in self._read(region, [{"Name": "vpc-id", "Values": [vpc]}])
                if s.zone_name == wanted[0]
            ]
        self.forget(region)
        if not here:
            raise CloudError(
                Failure(
                    Cause.TRANSIENT, f"the subnet in {wanted[0]} is not listed yet", "not-listed"
                )
            )
        return here[0]

    def _make_vpc(self, region: str) -> str:
        call = self._session.call
        return str(
            call(region, "CreateVpc", CidrBlock=OWN_RANGE, TagSpecifications=[_tags("vpc")])["Vpc"][
                "VpcId"
            ]
        )

    def _open_up(self, region: str, vpc: str) -> None:
        """Complete the internet access of nbprov's network.

        An earlier attempt may have ended after any of these steps.
        """
        call = self._session.call
        attached = [{"Name": "attachment.vpc-id", "Values": [vpc]}]
        gateways = call(region, "DescribeInternetGateways", Filters=attached)["InternetGateways"]
        gateway = str(gateways[0]["InternetGatewayId"]) if gateways else self._gateway(region)
        if not gateways:
            call(region, "AttachInternetGateway", InternetGatewayId=gateway, VpcId=vpc)
        of_vpc = [
            {"Name": "vpc-id", "Values": [vpc]},
            {"Name": "association.main", "Values": ["true"]},
        ]
        table = call(region, "DescribeRouteTables", Filters=of_vpc)["RouteTables"][0]
        if not any(
            r.get("DestinationCidrBlock") == "0.0.0.0/0" and r.get("State") != "blackhole"
            for r in table.get("Routes", [])
        ):
            call(
                region,
                "CreateRoute",
                RouteTableId=table["RouteTableId"],
                DestinationCidrBlock="0.0.0.0/0",
                GatewayId=gateway,
            )

    def _gateway(self, region: str) -> str:
        """Return an unattached gateway of ours, or make one. An account may have only a few."""
        ours = self._session.call(
            region,
            "DescribeInternetGateways",
            Filters=[{"Name": f"tag:{NETWORK_TAG}", "Values": ["1"]}],
        )
        free = sorted(
            str(g["InternetGatewayId"])
            for g in ours["InternetGateways"]
            if not g.get("Attachments")
        )
        if free:
            return free[0]
        made = self._session.call(
            region, "CreateInternetGateway", TagSpecifications=[_tags("internet-gateway")]
        )
        return str(made["InternetGateway"]["InternetGatewayId"])

    def take_down(self, region: str, vpc: str) -> None:
        """Delete nbprov's network; raises while anything is in it."""
        call, of_vpc = self._session.call, [{"Name": "vpc-id", "Values": [vpc]}]
        self.forget(region)
        for subnet in self._read(region, of_vpc):
            call(region, "DeleteSubnet", SubnetId=subnet.id)
        attached = [{"Name": "attachment.vpc-id", "Values": [vpc]}]
        for gateway in call(region, "DescribeInternetGateways", Filters=attached)[
            "InternetGateways"
        ]:
            call(
                region,
                "DetachInternetGateway",
                InternetGatewayId=gateway["InternetGatewayId"],
                VpcId=vpc,
            )
            call(region, "DeleteInternetGateway", InternetGatewayId=gateway["InternetGatewayId"])
        call(region, "DeleteVpc", VpcId=vpc)


def _tags(kind: str) -> dict[str, Any]:
    tags: Sequence[tuple[str, str]] = ((NETWORK_TAG, "1"), ("Name", "nbprov"))
    return {"ResourceType": kind, "Tags": [{"Key": key, "Value": value} for key, value in tags]}
