"""The adapter of AWS: EC2 machines through boto3."""

from __future__ import annotations

import builtins
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from nbprov.clouds.aws import check as account_check
from nbprov.clouds.aws import errors, on_demand_quote
from nbprov.clouds.aws.account.clients import QUICK, AwsAccount
from nbprov.clouds.aws.account.parallel_calls import call_each
from nbprov.clouds.aws.instances.actions import AwsInstanceActions
from nbprov.clouds.aws.instances.listing import InstanceListing
from nbprov.clouds.aws.instances.side_objects import AwsSideObjects
from nbprov.clouds.aws.instances.states import CLOUD, LOGIN
from nbprov.clouds.aws.instances.submit import Submitter
from nbprov.clouds.aws.network.security_groups import SecurityGroups
from nbprov.clouds.aws.network.subnets import Networks
from nbprov.clouds.base import CALL_SECONDS, CHECK_SECONDS, LIST_SECONDS, Capabilities, Cloud
from nbprov.clouds.launch_checks import refuse_container, without_secrets_of
from nbprov.clouds.pricing.region_fetch import price
from nbprov.model.failures import Failure
from nbprov.model.launches import (
    CheckResult,
    CreateOperation,
    Instance,
    Launch,
    PollResult,
    Quote,
    SideObject,
)
from nbprov.model.offers import Candidate, Offer
from nbprov.model.places import Market
from nbprov.model.stock import Stock

PRODUCT = "Linux/UNIX"
MOST_CONSOLE = 64 * 1024
FAMILIES = ("c6i", "c6id", "c7i", "m6i", "m6id", "m7i", "r6i", "r6id", "r7i")

CAPABILITIES = Capabilities(
    poweroff_ends_bill=True,
    spot=True,
    stop=True,
    multi_node=True,
    ports=True,
    images=True,
    disk_sizes=True,
    login=LOGIN,
    disk_tiers=frozenset({"low", "medium", "high", "ultra"}),
    network_best=True,
    local_disk=True,
    replayable=True,
    replaces_nodes=True,
    # AWS advises to allow minutes for eventual consistency; fresh machines were seen within a
    # second.
    settle=120.0,
    zones=True,
    stock_probe=True,
    submit_seconds=CALL_SECONDS,
    default_families=FAMILIES,
    notes={
        "login": f"{LOGIN} on the images that nbprov chooses; the label nbprov-login names another",
        "ports": (
            "port 22 is open to this computer's address only; reach other ports through a "
            "tunnel, or name them in the spec to open them"
        ),
        "stop": "a stopped machine still costs its disk; spot machines cannot be stopped",
        "poweroff": (
            "what a poweroff does is fixed at launch: terminate, or stop if the disk is to be kept"
        ),
    },
)


class AwsCloud(Cloud):
    """EC2, for the account that boto3's chain of credentials finds.

    Nothing is imported or requested before the first call.
    """

    name = CLOUD
    capabilities = CAPABILITIES

    def __init__(self) -> None:
        self._session = AwsAccount()
        self._networks = Networks(self._session)
        self._security_groups = SecurityGroups(self._session)
        self._listing = InstanceListing(self._session, self._networks)
        self._submitter = Submitter(
            self._session, self._networks, self._security_groups, self._listing
        )
        self._actions = AwsInstanceActions(self._session, self._security_groups, self._listing)
        self._side_objects = AwsSideObjects(self._session, self._networks, self._security_groups)

    def check(self) -> CheckResult:
        return account_check.check(self._session, self._networks, self.name)

    def stock(self, offers: Sequence[Offer], count: int) -> Sequence[Stock]:
        from nbprov.clouds.aws.stock import look

        return look(self._session, offers, count)

    def quote(self, candidate: Candidate) -> Quote | None:
        """Return the current price.

        For spot that of the zone, or the highest of the region's zones; on demand that of AWS's
        price list, where the login may read it (`pricing:GetProducts`), else None.
        """
        offer = candidate.offer

        def ask(_: str) -> Quote | None:
            if offer.market is Market.SPOT:
                return self._spot_price(offer)
            return on_demand_quote.quote(self._session, offer)

        good, bad = call_each(["quote"], ask, CHECK_SECONDS - 0.2)
        if bad:
            raise bad["quote"]
        return good["quote"]

    def _spot_price(self, offer: Offer) -> Quote | None:
        named = (
            {"AvailabilityZone": self._networks.zone_name(offer.region, offer.zone)}
            if offer.zone
            else {}
        )
        answer = self._session.call(
            offer.region,
            "DescribeSpotPriceHistory",
            QUICK,
            InstanceTypes=[offer.instance_type],
            ProductDescriptions=[PRODUCT],
            # From now on: EC2 also returns the price that holds at this moment, with the time it
            # began.
            StartTime=datetime.now(UTC),
            **named,
        )
        newest: dict[str, tuple[datetime, int]] = {}
        for row in answer["SpotPriceHistory"]:
            amount, zone, since = (
                price(row.get("SpotPrice")),
                str(row.get("AvailabilityZone", "")),
                row["Timestamp"],
            )
            if amount is not None and (zone not in newest or since > newest[zone][0]):
                newest[zone] = (since, amount)
        if not newest:
            return None
        return Quote(
            max(amount for _, amount in newest.values()), "EC2 spot price history", time.time()
        )

    def submit(self, launch: Launch) -> CreateOperation:
        """See `Cloud.submit`. Prepare the security group, then send one `RunInstances`.

        The launch's token is its `ClientToken`. If the token was used before with other parameters
        and its machines are not listed yet, the cause is `unknown_outcome`.
        """
        refuse_container(launch, "AWS")
        with without_secrets_of(launch):
            return self._submitter.submit(launch)

    def poll(self, operation: CreateOperation) -> PollResult:
        return self._submitter.poll(operation)

    def list(self, owner: str) -> builtins.list[Instance]:
        return self._listing.of_owner(owner, LIST_SECONDS - 1.0)

    def terminate(self, ids: Sequence[str]) -> None:
        """See `Cloud.terminate`.

        Raises
        ------
        CloudError
            `transient` if EC2 does not know an id that it issued less than five minutes ago, since
            that does not mean that the machine is gone.
        """
        self._actions.terminate(ids)

    def start(self, ids: Sequence[str]) -> None:
        self._actions.start(ids)

    def stop(self, ids: Sequence[str]) -> None:
        self._actions.stop(ids)

    def open_ports(self, ids: Sequence[str], ports: Sequence[tuple[int, int]]) -> None:
        self._actions.open_ports(ids, ports)

    def close_ports(self, ids: Sequence[str], ports: Sequence[tuple[int, int]]) -> None:
        self._actions.close_ports(ids, ports)

    def admit(self, ids: Sequence[str]) -> bool:
        return self._actions.admit(ids)

    def side_objects(self, owner: str) -> builtins.list[SideObject]:
        return self._side_objects.find(owner)

    def remove(self, objects: Sequence[SideObject]) -> builtins.list[SideObject]:
        return self._side_objects.remove(objects)

    def console(self, instance_id: str) -> str:
        return self._actions.console(instance_id)[-MOST_CONSOLE:]

    def classify(self, error: BaseException) -> Failure:
        return errors.failure_of_exception(error) or super().classify(error)
