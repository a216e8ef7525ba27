"""EC2's public price lists and its query API on a `WebDouble`, as far as prices need them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from xml.sax.saxutils import escape

from web_double import Answer, Asked, WebDouble

# The columns of a list of 2025, in its order, without most of those about storage, transfer and
# host capacity.
HEADER = (
    "SKU",
    "OfferTermCode",
    "RateCode",
    "TermType",
    "PriceDescription",
    "EffectiveDate",
    "StartingRange",
    "EndingRange",
    "Unit",
    "PricePerUnit",
    "Currency",
    "RelatedTo",
    "LeaseContractLength",
    "PurchaseOption",
    "OfferingClass",
    "Product Family",
    "serviceCode",
    "Location",
    "Location Type",
    ("Instance Type"),
    "Current Generation",
    ("Instance Family"),
    "vCPU",
    "Physical Processor",
    "Clock Speed",
    "Memory",
    "Storage",
    "Network Performance",
    ("Processor Architecture"),
    "Storage Media",
    "Volume Type",
    "Tenancy",
    "EBS Optimized",
    "Operating System",
    "License Model",
    "Group",
    "usageType",
    "operation",
    "AvailabilityZone",
    "CapacityStatus",
    "ECU",
    "GPU",
    "GPU Memory",
    "MarketOption",
    ("Normalization Size Factor"),
    "Pre Installed S/W",
    "Processor Features",
    "Region Code",
    "serviceName",
)
ABOUT = (
    ("FormatVersion", "v1.0"),
    (
        "Disclaimer",
        "This pricing list is for informational purposes only, see http://aws.amazon.com.",
    ),
    ("Publication Date", "2026-11-20T20:59:55Z"),
    ("Version", "20261120205955"),
    ("OfferCode", "AmazonEC2"),
)


def machine(
    name: str,
    price: str,
    vcpus: int,
    memory: str,
    gpus: str = "NA",
    region: str = "us-east-1",
    **other: str,
) -> dict[str, str]:
    """Return a row for a Linux machine on demand; `other` changes columns by name."""
    plain = {
        "SKU": f"SKU{abs(hash((name, price))) % 10**9}",
        "OfferTermCode": "JRTCKXETXF",
        "RateCode": "SKU.JRTCKXETXF.6YS6EN2CT7",
        "TermType": "OnDemand",
        "PriceDescription": f'${price} per On Demand Linux {name} Instance Hour, "as is"',
        "Unit": "Hrs",
        "PricePerUnit": f"{price}000000" if "." in price else price,
        "Currency": "USD",
        "Product Family": "Compute Instance",
        "serviceCode": "AmazonEC2",
        "Location Type": "AWS Region",
        "Instance Type": name,
        "vCPU": str(vcpus),
        "Physical Processor": "Intel Xeon Platinum 8275L",
        "Memory": memory,
        "Processor Architecture": "64-bit",
        "Tenancy": "Shared",
        "Operating System": "Linux",
        "License Model": "No License required",
        "operation": "RunInstances",
        "CapacityStatus": "Used",
        "GPU": gpus,
        "MarketOption": "OnDemand",
        "Pre Installed S/W": "NA",
        "Region Code": region,
        "serviceName": "Amazon Elastic Compute Cloud",
    }
    return {**plain, **other}


def unwanted(name: str, vcpus: int, memory: str, gpus: str = "NA") -> list[dict[str, str]]:
    """Return rows that stand beside every machine in a list, with prices that must never be
    used.
    """
    variants: tuple[dict[str, str], ...] = (
        {"TermType": "Reserved", "LeaseContractLength": "1yr", "OfferingClass": "standard"},
        {
            "TermType": "Reserved",
            "LeaseContractLength": "3yr",
            "OfferingClass": "convertible",
            "Unit": "Quantity",
        },
        {"Tenancy": "Dedicated"},
        {"Tenancy": "Host", "PricePerUnit": "0.0000000000"},
        {"Operating System": "Windows"},
        {"Operating System": "RHEL"},
        {"Pre Installed S/W": "SQL Std"},
        {"CapacityStatus": "UnusedCapacityReservation"},
        {"CapacityStatus": "AllocatedCapacityReservation", "PricePerUnit": "0.0000000000"},
        {"MarketOption": "CapacityBlock"},
        {"Location Type": "AWS Local Zone"},
        {"License Model": "Bring your own license", "Operating System": "Windows"},
        {"Currency": "CNY"},
    )
    return [machine(name, "0.0101", vcpus, memory, gpus, **other) for other in variants]


def price_list(
    rows: Iterable[dict[str, str]],
    header: Sequence[str] = HEADER,
    about: Sequence[Sequence[str]] = ABOUT,
) -> str:
    """The text of a list."""
    text = io.StringIO()
    write = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow
    for line in about:
        write(line)
    write(header)
    for row in rows:
        write([row.get(column, "") for column in header])
    return text.getvalue()


@cache
def _ec2() -> Any:
    """botocore's model of the API."""
    from botocore.loaders import Loader
    from botocore.model import ServiceModel

    return ServiceModel(Loader().load_service_model("ec2", "service-2"), "ec2")


@dataclass
class Ec2Region:
    """A region as the double's account sees it.

    `broken` makes an action fail with a code, message and status, a number of times.
    """

    zones: dict[str, str] = field(default_factory=dict)
    offered: dict[str, list[str]] = field(default_factory=dict)
    types: list[dict[str, Any]] = field(default_factory=list)
    spot: list[dict[str, str]] = field(default_factory=list)
    broken: dict[str, list[tuple[str, str, int]]] = field(default_factory=dict)
    page: int = 2


class Ec2Double:
    """EC2's query protocol: a form in, XML out. Parameters are checked against botocore's model."""

    def __init__(self, web: WebDouble) -> None:
        self.regions: dict[str, Ec2Region] = {}
        self.calls: list[tuple[str, str, dict[str, str]]] = []
        self._model = _ec2()
        web.on(lambda asked: asked.method == "POST" and b"Action=" in asked.body, self._answer)

    def _answer(self, asked: Asked) -> Answer:
        form = asked.form
        action = form.pop("Action")
        assert form.pop("Version") == self._model.api_version
        self._check(action, form)
        scope = re.search(
            r"Credential=[^/]+/\d+/([^/]+)/ec2/aws4_request", asked.headers.get("authorization", "")
        )
        assert scope, "the request is not signed"
        name = scope[1]
        self.calls.append((name, action, form))
        region = self.regions[name]
        if region.broken.get(action):
            code, message, status = region.broken[action].pop(0)
            return _xml(
                f"<Response><Errors><Error><Code>{code}</Code><Message>{escape(message)}</Message></Error></Errors>"
                "<RequestID>r</RequestID></Response>",
                status,
            )
        element, items = self._items(region, action, form)
        start = int(form.get("NextToken", "token-0").removeprefix("token-"))
        end = len(items) if action == "DescribeAvailabilityZones" else start + region.page
        following = f"token-{end}" if end < len(items) else ""
        listed = "".join(f"<item>{item}</item>" for item in items[start:end])
        # EC2 ends some lists with an empty token and others with none.
        token = (
            f"<nextToken>{following}</nextToken>"
            if following or action == "DescribeSpotPriceHistory"
            else ""
        )
        return _xml(
            f"<{action}Response "
            'xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>r</requestId>'
            f"<{element}>{listed}</{element}>{token}</{action}Response>"
        )

    def _check(self, action: str, form: dict[str, str]) -> None:
        """Check that every parameter is one of the API's, in the notation of the EC2 protocol."""
        shape = self._model.operation_model(action).input_shape
        known = set()
        for name, member in (shape.members if shape else {}).items():
            written = (
                member.serialization.get("queryName") or member.serialization.get("name") or name
            )
            known.add(written[0].upper() + written[1:])
        odd = {key for key in form if key.split(".")[0] not in known}
        assert not odd, f"{action} has no parameters {odd}"

    def _items(self, region: Ec2Region, action: str, form: dict[str, str]) -> tuple[str, list[str]]:
        if action == "DescribeAvailabilityZones":
            return "availabilityZoneInfo", [
                f"<zoneName>{name}</zoneName><zoneId>{zone}</zoneId><zoneState>available</zoneState>"
                f"<zoneType>{'local-zone' if 'lax' in name else 'availability-zone'}</zoneType>"
                for name, zone in region.zones.items()
            ]
        if action == "DescribeInstanceTypeOfferings":
            assert form["LocationType"] == "availability-zone-id"
            return "instanceTypeOfferingSet", [
                f"<instanceType>{name}</instanceType><location>{zone}</location><locationType>availability-zone-id</locationType>"
                for name, zones in region.offered.items()
                for zone in zones
            ]
        if action == "DescribeInstanceTypes":
            return "instanceTypeSet", [_type(one) for one in region.types]
        assert action == "DescribeSpotPriceHistory"
        assert form["ProductDescription.1"] == "Linux/UNIX"
        assert form["StartTime"]
        return "spotPriceHistorySet", [
            "".join(f"<{key}>{value}</{key}>" for key, value in entry.items())
            for entry in region.spot
        ]


def _xml(text: str, status: int = 200) -> Answer:
    return Answer(
        status,
        f'<?xml version="1.0" encoding="UTF-8"?>{text}'.encode(),
        {"Content-Type": "text/xml;charset=UTF-8"},
    )


def _type(one: dict[str, Any]) -> str:
    """A type.

    `name`, `vcpus`, `mib`, `arch`, and perhaps `gpu` = (name, maker, count, MiB) or `neuron` =
    (name, count, MiB).
    """
    parts = [
        f"<instanceType>{one['name']}</instanceType><vCpuInfo><defaultVCpus>{one['vcpus']}</defaultVCpus></vCpuInfo>",
        f"<memoryInfo><sizeInMiB>{one['mib']}</sizeInMiB></memoryInfo>",
        f"<processorInfo><supportedArchitectures><item>{one.get('arch', 'x86_64')}</item>"
        "</supportedArchitectures></processorInfo>",
    ]
    if "gpu" in one:
        name, maker, count, mib = one["gpu"]
        parts.append(
            f"<gpuInfo><gpus><item><name>{name}</name><manufacturer>{maker}</manufacturer><count>{count}</count>"
            f"<memoryInfo><sizeInMiB>{mib}</sizeInMiB></memoryInfo></item></gpus>"
            f"<totalGpuMemoryInMiB>{mib * count}</totalGpuMemoryInMiB></gpuInfo>"
        )
    if "neuron" in one:
        name, count, mib = one["neuron"]
        parts.append(
            f"<neuronInfo><neuronDevices><item><count>{count}</count><name>{name}</name><memoryInfo><sizeInMiB>{mib}</sizeInMiB></memoryInfo>"
            "</item></neuronDevices></neuronInfo>"
        )
    return "".join(parts)


def spot(
    name: str,
    zone: str,
    price: str,
    when: str = "2026-11-22T01:00:00.000Z",
    product: str = "Linux/UNIX",
) -> dict[str, str]:
    """Return an entry of the spot price history; `zone` is a name, like EC2's."""
    return {
        "instanceType": name,
        "productDescription": product,
        "spotPrice": price,
        "timestamp": when,
        "availabilityZone": zone,
    }
