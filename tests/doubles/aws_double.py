"""EC2, SSM, STS and Service Quotas as a server process on loopback, based on moto.

    python tests/doubles/aws_double.py --port 0 [--machines DIR]

prints `READY http://127.0.0.1:PORT`. Machines are simulated, or real with `--machines`. Every
request and every answer is checked against botocore's models. Beyond moto it has real `ClientToken`
semantics, refusals in EC2's words, lost answers, stock, state transitions, hidden young machines
and groups in use. It is controlled under `/_double/`: faults, stock, settings, state, preempt,
open_spot_request, clear (POST), calls, problems, instances (GET).
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, cast

sys.path.insert(0, str(Path(__file__).parent))

from aws_double_answers import REFUSALS, Answer, as_json, as_xml, refused
from aws_double_model import asked, wrong_answer, wrong_request
from aws_double_world import DATA_DISKS, IMAGES, PARAMETERS, World, prepare_moto, zone_id
from aws_models_once import read_models_once
from double_faults import Fault, Faults
from double_main import options_of, serve
from double_process import DoubleProcess
from machines import Machines

from nbprov.clouds.contract.double_server import (
    DoubleAnswer,
    DoubleRequest,
    DoubleServer,
    HangUp,
)

ACCOUNT = "123456789012"
KEY_ID, OTHER_KEY_ID = "AKIAIOSFODNN7EXAMPLE", "AKIAI44QH8DHBEXAMPLE"
ACCOUNTS = {KEY_ID: ACCOUNT, OTHER_KEY_ID: "210987654321"}
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
"""The keys of AWS's own documentation, of two accounts; they give no access."""
REGIONS = ("us-east-1", "eu-west-1")
EMPTY_PAGE = (
    b'<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">'
    b"<requestId>double</requestId><reservationSet/><nextToken>empty-%d</nextToken>"
    b"</DescribeInstancesResponse>"
)
CREATE = "RunInstances"
SIGNED_AS = {"servicequotas": "service-quotas"}
BLOT = frozenset({"UserData"})

MAKES = frozenset({"half_made", "late_failure", "hide"})
"""Faults that let the create succeed and show in its machines."""


class Api:
    """Handles the requests of the server."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.faults = Faults(CREATE, {"submit": (CREATE,)})
        self.calls: list[dict[str, Any]] = []
        self.problems: list[str] = []
        self.account = ACCOUNT
        self.tokens: dict[tuple[str, str], tuple[dict[str, Any], bytes]] = {}

    def answer(self, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        """Answer a signed request."""
        began = time.monotonic()
        while time.monotonic() - began < self.world.settings["answer"]:
            time.sleep(0.02)
        scope = re.search(
            r"Credential=([^/]+)/\d+/([^/]+)/([^/]+)/", headers.get("authorization", "")
        )
        if scope is None:
            return refused(
                "MissingAuthenticationToken", "Request is missing Authentication Token", 403
            )
        key, region, service = scope.groups()
        service = SIGNED_AS.get(service, service)
        call, parameters = asked(service, body, headers)
        with self.world.lock:
            self.calls.append(
                {
                    "call": call,
                    "region": region,
                    "at": time.time(),
                    "parameters": _blotted(parameters),
                }
            )
            wrong = wrong_request(service, call, parameters)
            self.problems += wrong
            where, dry = self.where(region, parameters), parameters.get("DryRun") == "true"
            fault = self.faults.take(call, where.get, dry=dry)
            if fault:
                self.calls[-1]["fault"] = fault.do
        if key not in ACCOUNTS:
            return refused("AuthFailure", REFUSALS["credentials"][2], 401, service=service)
        if fault and fault.do == "slow":
            time.sleep(fault.seconds)
        if fault and (scripted := self._scripted(fault, region, parameters, service)):
            return scripted
        with self.world.lock:
            self.world.next_fault = fault.do if fault and fault.do in MAKES else ""
            self.world.next_seconds = fault.seconds if fault else 0.0
            self.account = ACCOUNTS[key]
            status, sent, answered = self._carried_out(
                service, region, call, parameters, path, body, headers
            )
            self.world.next_fault = ""
            if status < 300:
                odd = [b.odd for b in self.world.bodies.values() if b.odd]
                wrong = wrong_answer(service, call, answered)
                self.problems += [
                    f"answer of {p}"
                    for p in wrong
                    if not any(f" is {name!r}, " in p for name in odd)
                ]
        if fault and fault.do == "lose_answer":
            raise HangUp
        return status, sent, answered

    # ------------------------------------------------------------ faults

    def _scripted(
        self, fault: Fault, region: str, parameters: dict[str, Any], service: str
    ) -> Answer | None:
        do = fault.do
        if do == "html":
            return (
                502,
                {"Content-Type": "text/html"},
                b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>",
            )
        if do == "error":
            return refused(fault.code, fault.message, fault.status, service=service)
        if do not in REFUSALS or (do == "volume_tags" and "volume" not in str(parameters)):
            return None
        status, code, words = REFUSALS[do]
        told = self.where(region, parameters)
        more = {"Retry-After": f"{fault.seconds:g}"} if fault.seconds else {}
        return refused(code, words.format(**told), status, service=service, headers=more)

    def where(self, region: str, parameters: dict[str, Any]) -> dict[str, str]:
        """Return the place that a create requests."""
        from moto.ec2.models import ec2_backends

        subnet = parameters.get("SubnetId") or parameters.get("NetworkInterface.1.SubnetId") or ""
        zone = ""
        if subnet:
            found = ec2_backends[ACCOUNT][region].subnets
            zone = next(
                (
                    s.availability_zone
                    for zones in found.values()
                    for i, s in zones.items()
                    if i == subnet
                ),
                "",
            )
        market = (
            "spot" if parameters.get("InstanceMarketOptions.MarketType") == "spot" else "on-demand"
        )
        return {
            "region": region,
            "zone": zone_id(region, zone),
            "type": str(parameters.get("InstanceType", "")),
            "market": market,
        }

    # ------------------------------------------------------------ calls

    def _carried_out(
        self,
        service: str,
        region: str,
        call: str,
        parameters: dict[str, Any],
        path: str,
        body: bytes,
        headers: dict[str, str],
    ) -> Answer:
        if call == CREATE:
            body += _sizes_of_the_image(parameters)
        if call == "DescribeInstances" and (size := self.world.settings["page"]):
            said = str(parameters.get("NextToken", "empty-0"))
            number = int(said.removeprefix("empty-")) if said.startswith("empty-") else None
            if number is not None and number < self.world.settings["empty_pages"]:
                return 200, {"Content-Type": "text/xml"}, EMPTY_PAGE % (number + 1)
            body = re.sub(rb"&NextToken=empty-[0-9]+", b"", body) + b"&MaxResults=%d" % size
        own = getattr(self, f"_{re.sub(r'(?<!^)(?=[A-Z])', '_', call).lower()}", None)
        if own is not None:
            answered = own(region, parameters, lambda: self._passed_on(path, body, headers))
            if answered is not None:
                return cast(Answer, answered)
        return self._passed_on(path, body, headers)

    def _passed_on(self, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        from werkzeug.test import EnvironBuilder, run_wsgi_app

        headers = {**headers, "x-moto-account-id": self.account}
        environ = EnvironBuilder(
            path=path, method="POST", headers=headers, input_stream=io.BytesIO(body)
        ).get_environ()
        environ["CONTENT_LENGTH"] = str(len(body))
        pieces, status, sent = run_wsgi_app(moto_app(), environ)
        return (
            int(status.split()[0]),
            {"Content-Type": sent.get("Content-Type", "text/xml")},
            b"".join(pieces),
        )

    def _start_instances(self, region: str, parameters: dict[str, Any], _: Any) -> Any:
        """Check the stock for a start; None passes it on."""
        ids = [str(value) for name, value in parameters.items() if name.startswith("InstanceId.")]
        place = self.world.place_without_stock(ids)
        return None if place is None else _no_stock(place)

    def _run_instances(self, region: str, parameters: dict[str, Any], passed_on: Any) -> Any:
        """Carry out a create with real token semantics, then check the stock."""
        if parameters.get("DryRun") == "true":
            return refused(
                "DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412
            )
        token = (f"{self.account} {region}", str(parameters.get("ClientToken", "")))
        mine = {k: v for k, v in parameters.items() if k != "ClientToken"}
        if token in self.tokens:
            before, answered = self.tokens[token]
            if before != mine:
                words = (
                    "Arguments on this idempotent request are inconsistent with arguments "
                    "used in previous request(s)."
                )
                return refused("IdempotentParameterMismatch", words, 400)
            self.world.refresh_all()
            if all(
                self.world.bodies[i].instance.state == "terminated"
                for i in re.findall(r"<instanceId>(i-\w+)<", answered.decode())
            ):
                words = (
                    "The client token you have provided is associated with a terminated "
                    "instance. Please use a different client token."
                )
                return refused("IdempotentInstanceTerminated", words, 400)
            return 200, {"Content-Type": "text/xml"}, answered
        told = self.where(region, parameters)
        if self.world.short(told, int(parameters["MinCount"])):
            return _no_stock(told)
        size = next(
            (gb for one, (_, _, gb) in IMAGES.items() if one == parameters.get("ImageId")), 0
        )
        if int(parameters.get("BlockDeviceMapping.1.Ebs.VolumeSize", size)) < size:
            words = (
                f"Volume of size {parameters['BlockDeviceMapping.1.Ebs.VolumeSize']}GB is "
                f"smaller than snapshot 'snap-0', expect size >= {size}GB"
            )
            return refused("InvalidBlockDeviceMapping", words, 400)
        status, sent, answered = passed_on()
        if status == 200 and token[1]:
            self.tokens[token] = (mine, answered)
        return status, sent, answered

    def _get_parameters(self, region: str, parameters: dict[str, Any], passed_on: Any) -> Any:
        names = parameters["Names"]
        found = [
            {
                "Name": n,
                "Type": "String",
                "Value": PARAMETERS[n],
                "Version": 1,
                "DataType": "aws:ec2:image",
            }
            for n in names
            if n in PARAMETERS
        ]
        return as_json(
            {"Parameters": found, "InvalidParameters": [n for n in names if n not in PARAMETERS]}
        )

    def _get_products(self, region: str, parameters: dict[str, Any], passed_on: Any) -> Any:
        """The price list: one product for each price that the test set, `{type: [dollars]}`."""
        wanted = {f["Field"]: f["Value"] for f in parameters["Filters"]}
        found = [
            json.dumps(
                {
                    "product": {"productFamily": "Compute Instance", "attributes": wanted},
                    "serviceCode": parameters["ServiceCode"],
                    "terms": {
                        "OnDemand": {
                            f"SKU{n}.JRTCKXETXF": {
                                "priceDimensions": {
                                    f"SKU{n}.JRTCKXETXF.6YS6EN2CT7": {
                                        "unit": "Hrs",
                                        "pricePerUnit": {"USD": f"{dollars:.10f}"},
                                    }
                                }
                            }
                        }
                    },
                }
            )
            for n, dollars in enumerate(
                self.world.settings["on_demand"].get(wanted["instanceType"], [])
            )
        ]
        return as_json({"FormatVersion": "aws_v1", "PriceList": found})

    def _get_service_quota(self, region: str, parameters: dict[str, Any], passed_on: Any) -> Any:
        code = parameters["QuotaCode"]
        value = self.world.settings["quotas"].get(code, 512.0)
        return as_json(
            {
                "Quota": {
                    "ServiceCode": "ec2",
                    "QuotaCode": code,
                    "Value": float(value),
                    "Unit": "None",
                    "Adjustable": True,
                }
            }
        )

    def _get_spot_placement_scores(
        self, region: str, parameters: dict[str, Any], passed_on: Any
    ) -> Any:
        kinds = [k for k in parameters if k.startswith("InstanceType.")]
        regions = [v for k, v in parameters.items() if k.startswith("RegionName.")]
        rows = ""
        for one in regions:
            for zone in _zones(one):
                score = self.world.settings["scores"].get(zone, 5) if len(kinds) >= 3 else 1
                rows += (
                    f"<item><region>{one}</region><availabilityZoneId>{zone}</availabilityZoneId>"
                    f"<score>{score}</score></item>"
                )
        return as_xml(
            "GetSpotPlacementScores", f"<spotPlacementScoreSet>{rows}</spotPlacementScoreSet>"
        )

    def _describe_spot_price_history(
        self, region: str, parameters: dict[str, Any], passed_on: Any
    ) -> Any:
        kinds = [v for k, v in parameters.items() if k.startswith("InstanceType.")]
        wanted, now = (
            parameters.get("AvailabilityZone"),
            time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()),
        )
        rows = "".join(
            f"<item><instanceType>{kind}</instanceType><productDescription>Linux/UNIX</productDescription><spotPrice>"
            f"{self.world.settings['price']:.6f}</spotPrice><timestamp>{now}</timestamp><availabilityZone>{name}</availabilityZone>"
            f"<availabilityZoneId>{zone}</availabilityZoneId></item>"
            for kind in kinds
            for zone, name in _zones(region).items()
            if wanted in (None, name)
        )
        return as_xml(
            "DescribeSpotPriceHistory",
            f"<spotPriceHistorySet>{rows}</spotPriceHistorySet><nextToken></nextToken>",
        )

    # ------------------------------------------------------------ control

    def served(self, asked: DoubleRequest) -> DoubleAnswer:
        """Answer a request as it came over HTTP."""
        status, headers, body = self.answer(asked.path, asked.raw, dict(asked.headers))
        return DoubleAnswer(status, body, headers)

    def failed(self, words: str) -> None:
        """Note what went wrong in the double itself."""
        self.problems.append(words)

    def control(self, _: str, what: str, body: Any) -> Any:
        """Handle a control route."""
        world = self.world
        with world.lock:
            if what == "faults":
                self.faults.add(body)
            elif what == "stock":
                world.stock.append(body)
            elif what == "settings":
                world.settings |= body
            elif what == "open_spot_request":
                world.open_spot_request(ACCOUNT, body["region"], body["id"])
            elif what == "clear":
                world.stock.clear()
                self.faults.add({"clear": True})
            elif what == "preempt":
                for body_ in (
                    [world.bodies[body["id"]]] if "id" in body else list(world.bodies.values())
                ):
                    if body_.instance.lifecycle == "spot" or "id" in body:
                        code = "Server.SpotInstanceTermination"
                        world.end(body_.instance, code, f"{code}: Spot instance termination")
            elif what == "show":
                world.bodies[body["id"]].hidden = 0.0
            elif what == "state":
                world.bodies[body["id"]].odd = body["state"]
            elif what in ("calls", "problems"):
                return getattr(self, what)
            elif what == "rules":
                return _rules()
            elif what == "instances":
                world.refresh_all()
                return {
                    i: {
                        "state": b.instance.state,
                        "machine": b.machine,
                        "type": b.instance.instance_type,
                    }
                    for i, b in world.bodies.items()
                }
            else:
                return {"error": f"no route {what}"}
        return {}


def _rules() -> list[list[Any]]:
    """Return the inbound rules of all security groups but the accounts' own."""
    from moto.ec2.models import ec2_backends

    return [
        [place.get("CidrIp") or place.get("CidrIpv6"), rule.from_port, rule.to_port]
        for region in REGIONS
        for groups in ec2_backends[ACCOUNT][region].groups.values()
        for group in groups.values()
        if group.name != "default"
        for rule in group.ingress_rules
        if (place := rule.ip_range) and (place.get("CidrIp") or place.get("CidrIpv6"))
    ]


def _zones(region: str) -> dict[str, str]:
    from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend

    return {str(z.zone_id): str(z.name) for z in RegionsAndZonesBackend.zones.get(region, [])}


def _no_stock(place: dict[str, str]) -> Answer:
    status, code, words = REFUSALS["spot" if place["market"] == "spot" else "capacity"]
    return refused(code, words.format(**place), status)


def _sizes_of_the_image(parameters: dict[str, Any]) -> bytes:
    """Add the size that EC2 takes from the image if a create names a disk without one.

    Moto requires it.
    """
    disk, added = DATA_DISKS.get(str(parameters.get("ImageId"))), ""
    for key, value in parameters.items():
        size = key.replace(".DeviceName", ".Ebs.VolumeSize")
        if key.endswith(".DeviceName") and value == disk and size not in parameters:
            added += f"&{size}=5"
    return added.encode()


def _blotted(parameters: dict[str, Any]) -> dict[str, Any]:
    return {k: "…" if k in BLOT else v for k, v in parameters.items()}


@cache
def moto_app() -> Any:
    """Return moto's services, as one application for each process."""
    from moto.server import DomainDispatcherApplication, create_backend_app

    return DomainDispatcherApplication(create_backend_app)


def prepare() -> None:
    """Read what every double needs, as a parent may do once for all: the models of both sides,
    and the first answers of EC2, which make an account's networks and moto's tables of calls.
    """
    read_models_once()
    if prepare_moto():
        _first_answers()


def _first_answers() -> None:
    from moto.ec2.models import ec2_backends

    for region in REGIONS:
        assert ec2_backends[ACCOUNT][region].vpcs
    api = Api(World())
    for service, call, version in (
        ("sts", "GetCallerIdentity", "2011-06-15"),
        ("ec2", "DescribeVpcs", "2016-11-15"),
        ("ec2", "DescribeInstances", "2016-11-15"),
    ):
        scope = f"Credential={KEY_ID}/20261126/{REGIONS[0]}/{service}/aws4_request"
        headers = {
            "authorization": f"AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=0",
            "host": f"{service}.{REGIONS[0]}.amazonaws.com",
            "content-type": "application/x-www-form-urlencoded",
        }
        status, _, _ = api.answer("/", f"Action={call}&Version={version}".encode(), headers)
        assert status == 200, call


def _ids_of_its_own() -> None:
    """Have moto name its objects as in no other process that was forked from the same one."""
    from moto.moto_api._internal import mock_random

    mock_random.seed()


def main(arguments: list[str] | None = None) -> NoReturn:
    """Serve until terminated."""
    told = options_of("EC2, SSM, STS and Service Quotas on loopback").parse_args(arguments)
    prepare()
    _ids_of_its_own()
    machines = Machines(told.machines) if told.machines else None
    world = World(machines)
    world.install()
    api = Api(world)
    serve(DoubleServer(api.served, api.failed, port=told.port, control=api.control), machines)
    sys.stdout.flush()
    os._exit(0)  # a normal exit would spend a second on freeing moto's and botocore's models


class AwsDouble(DoubleProcess):
    """Starts the double as a process of its own and speaks to its control routes.

    Examples
    --------
    ::

        with AwsDouble() as double:
            os.environ |= double.env
            double.add_fault("RunInstances", "capacity")
    """

    script = Path(__file__).absolute()

    @property
    def env(self) -> dict[str, str]:
        """Return the environment with which boto3 and the adapter reach it."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": REGIONS[0],
            "NBPROV_AWS_REGIONS": ",".join(REGIONS),
            "NBPROV_MY_ADDRESS": "203.0.113.7",
        }


if __name__ == "__main__":
    main()
