"""Google's billing catalogue, Compute API and token service, as far as prices need them, on a
`WebDouble`.

Shapes: Discovery documents `cloudbilling.v1` (ListSkusResponse, Sku) and `compute.v1`
(MachineTypeAggregatedList, AcceleratorTypeAggregatedList), and RFC 7523 for the token, transcribed
in part 2026-11. The unit prices of us-central1 are Google's list prices as their sums in the
shipped snapshot give them (2026-07-30); A3's are chosen so that their sum is the listed machine.
"""

from __future__ import annotations

import json
import re
import zlib
from decimal import Decimal
from pathlib import Path
from typing import Any

from web_double import Answer, Asked, WebDouble, json_answer

KEY = "AIza-double-key-0001"
TOKEN = "ya29.double-token"
PROJECT = "double-project"
SKUS_PATH = "/v1/services/6F81-5844-456A/skus"
AGGREGATED = f"/compute/v1/projects/{PROJECT}/aggregated"

MONEY = {
    "type": "object",
    "required": ["currencyCode", "units", "nanos"],
    "properties": {
        "currencyCode": {"const": "USD"},
        "units": {"type": "string", "pattern": r"^\d+$"},
        "nanos": {"type": "integer"},
    },
}
SKU_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["name", "skuId", "description", "category", "serviceRegions", "pricingInfo"],
    "properties": {
        "category": {
            "type": "object",
            "required": ["serviceDisplayName", "resourceFamily", "resourceGroup", "usageType"],
            "properties": {
                "usageType": {"enum": ["OnDemand", "Preemptible", "Commit1Yr", "Commit3Yr"]}
            },
        },
        "serviceRegions": {"type": "array", "items": {"type": "string"}},
        "pricingInfo": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["pricingExpression"],
                "properties": {
                    "pricingExpression": {
                        "type": "object",
                        "required": ["usageUnit", "tieredRates"],
                        "properties": {
                            "tieredRates": {
                                "type": "array",
                                "items": {
                                    "type": "object",
                                    "required": ["startUsageAmount", "unitPrice"],
                                    "properties": {
                                        "startUsageAmount": {"type": "number"},
                                        "unitPrice": MONEY,
                                    },
                                },
                            }
                        },
                    }
                },
            },
        },
    },
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["skus", "nextPageToken"],
    "properties": {
        "skus": {"type": "array", "items": SKU_SCHEMA},
        "nextPageToken": {"type": "string"},
    },
}

# Words before " Core"/" Ram": dollars an hour of a core and of a GiB, on demand and spot.
HOSTS = {
    "N1 Predefined Instance": (0.031611, 0.004237, 0.01115, 0.001494),
    "N2 Instance": (0.031611, 0.004237, 0.01498, 0.00202),
    "N2D AMD Instance": (0.027502, 0.003686, 0.00829, 0.00111),
    "A2 Instance": (0.031611, 0.004237, 0.018970, 0.002542),
    "A3 Instance": (0.0255, 0.00222012, 0.0128, 0.00111),
    "A3Plus Instance": (0.0255, 0.00222012, 0.0128, 0.00111),
    "G2 Instance": (0.024988, 0.0029275, 0.01375, 0.00161),
    "Compute optimized": (0.03398, 0.00455, 0.00822, 0.0011),
}
GPUS = {
    "Nvidia Tesla T4 GPU": (0.35, 0.175),
    "Nvidia Tesla V100 GPU": (2.48, 1.0885),
    "Nvidia Tesla P100 GPU": (1.46, 0.584),
    "Nvidia Tesla A100 GPU": (2.933908, 1.46),
    "Nvidia Tesla A100 80GB GPU": (3.92808, 1.96),
    "Nvidia L4 GPU": (0.56004, 0.22402),
    "Nvidia H100 80GB GPU": (9.796550569, 4.91),
    "Nvidia H100 80GB Plus GPU": (10.344275712, 4.82),
    "A4 Nvidia B200 (1 gpu slice)": (16.11, 4.9542),
}
SSD = (0.08, 0.08)


def sku(
    description: str,
    dollars: float,
    *,
    group: str,
    usage: str = "OnDemand",
    regions: tuple[str, ...] = ("us-central1",),
    **more: Any,
) -> dict[str, Any]:
    """One line of the catalogue."""
    units, nanos = divmod(round(Decimal(str(dollars)) * 10**9), 10**9)
    unit = more.pop("unit", {"RAM": "GiBy.h", "LocalSSD": "GiBy.mo"}.get(group, "h"))
    price = {"currencyCode": "USD", "units": str(units), "nanos": nanos}
    number = f"{zlib.crc32(repr((description, regions, usage)).encode()):012X}"
    return {
        "name": f"services/6F81-5844-456A/skus/{number}",
        "skuId": number,
        "description": description,
        "category": {
            "serviceDisplayName": "Compute Engine",
            "resourceFamily": "Storage" if group == "LocalSSD" else "Compute",
            "resourceGroup": group,
            "usageType": usage,
        },
        "serviceRegions": list(regions),
        "pricingInfo": [
            {
                "summary": "",
                "effectiveTime": "2026-11-22T00:00:00.000Z",
                "currencyConversionRate": 1,
                "pricingExpression": {
                    "usageUnit": unit,
                    "tieredRates": [{"startUsageAmount": 0, "unitPrice": price}],
                },
            }
        ],
        "serviceProviderName": "Google",
    } | more


def parts(
    place: str = "Americas", regions: tuple[str, ...] = ("us-central1",)
) -> list[dict[str, Any]]:
    """The lines that machines are made of."""
    lines = []
    for words, (core, ram, spot_core, spot_ram) in HOSTS.items():
        group = "N1Standard" if words.startswith("N1") else ""
        for part, dollars, spot in (("Core", core, spot_core), ("Ram", ram, spot_ram)):
            what = {
                "group": group or ("CPU" if part == "Core" else "RAM"),
                "regions": regions,
                "unit": "h" if part == "Core" else "GiBy.h",
            }
            lines.append(sku(f"{words} {part} running in {place}", dollars, **what))
            lines.append(
                sku(
                    f"Spot Preemptible {words} {part} running in {place}",
                    spot,
                    usage="Preemptible",
                    **what,
                )
            )
    for words, (dollars, spot) in GPUS.items():
        slice_ = words.startswith("A4")
        tail = (
            f"Spot Preemptible {words} running in {place}"
            if slice_
            else f"{words} attached to Spot Preemptible VMs running in {place}"
        )
        lines.append(sku(f"{words} running in {place}", dollars, group="GPU", regions=regions))
        lines.append(
            sku(
                tail,
                spot,
                group="GPU",
                usage="OnDemand" if slice_ else "Preemptible",
                regions=regions,
            )
        )
    lines.append(sku("SSD backed Local Storage", SSD[0], group="LocalSSD", regions=regions))
    lines.append(
        sku(
            "SSD backed Local Storage attached to Spot Preemptible VMs",
            SSD[1],
            group="LocalSSD",
            usage="Preemptible",
            regions=regions,
        )
    )
    return lines


def lookalikes() -> list[dict[str, Any]]:
    """Return lines that cost something else, none of which may become a part of a machine."""
    cheap = 0.0001
    return [
        sku("Commitment v1: N2 Cpu in Americas for 1 Year", cheap, group="CPU", usage="Commit1Yr"),
        sku(
            "Commitment v1: Nvidia H100 80GB GPU running in Americas for 3 Years",
            cheap,
            group="GPU",
            usage="Commit3Yr",
        ),
        sku("N2 Custom Instance Core running in Americas", cheap, group="CPU"),
        sku("N2 Custom Extended Instance Ram running in Americas", cheap, group="RAM"),
        sku("N2 Sole Tenancy Instance Core running in Americas", cheap, group="CPU"),
        sku(
            "Sole Tenancy Premium for N2 Sole Tenancy Instance Core running in Americas",
            cheap,
            group="CPU",
        ),
        sku("Reserved A2 Instance Core running in Americas", cheap, group="CPU"),
        sku(
            "Nvidia H100 80GB GPU attached to DWS Defined Duration VMs running in Americas",
            4.2,
            group="GPU",
        ),
        sku("Reserved Nvidia H100 80GB GPU in Americas in Calendar Mode", 4.8, group="GPU"),
        sku(
            "Nvidia Tesla T4 GPU attached to Sole Tenancy VMs running in Americas",
            cheap,
            group="GPU",
        ),
        sku("Nvidia Tesla T4 Virtual Workstation GPU running in Americas", cheap, group="GPU"),
        sku(
            "Network Egress via Carrier Peering Network - Americas",
            cheap,
            group="PeeringOrInterconnectEgress",
        ),
        sku("Nvidia H300 GPU running in Americas", 20.0, group="GPU"),
    ]


class GcpDouble:
    """The three services.

    Parameters
    ----------
    page
        Lines of a page, fewer than requested, so that the fetcher must follow the tokens.
    zones
        The machine types and accelerators of each zone; if None, the Compute API refuses.
    """

    def __init__(
        self,
        web: WebDouble,
        skus: list[dict[str, Any]] | None = None,
        *,
        page: int = 20,
        zones: dict[str, tuple[list[str], list[str]]] | None = None,
    ) -> None:
        self.web = web
        self.skus = [*lookalikes(), *parts()] if skus is None else skus
        self.page = page
        self.zones = zones
        self.unreachable: list[str] = []
        web.on(SKUS_PATH, self.answer_skus)
        web.on(re.compile(rf"{AGGREGATED}/\w+"), self.answer_aggregated)
        web.on(
            "/token",
            lambda _: json_answer(
                {"access_token": TOKEN, "expires_in": 3599, "token_type": "Bearer"}
            ),
        )

    @property
    def endpoints(self) -> dict[str, str]:
        return {"billing": self.web.url(), "compute": self.web.url()}

    def answer_skus(self, asked: Asked) -> Answer:
        key = asked.query.get("key")
        if key is None and asked.headers.get("authorization") != f"Bearer {TOKEN}":
            return _refused(
                403,
                "PERMISSION_DENIED",
                "Method doesn't allow unregistered callers (callers without established identity).",
            )
        if key is not None and key != KEY:
            return _refused(
                400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."
            )
        start = int(asked.query.get("pageToken") or 0)
        end = start + min(self.page, int(asked.query["pageSize"]))
        token = str(end) if end < len(self.skus) else ""
        return json_answer({"skus": self.skus[start:end], "nextPageToken": token})

    def answer_aggregated(self, asked: Asked) -> Answer:
        if asked.headers.get("authorization") != f"Bearer {TOKEN}":
            return _refused(
                401, "UNAUTHENTICATED", "Request is missing required authentication credential."
            )
        if self.zones is None:
            return _refused(
                403,
                "PERMISSION_DENIED",
                "Required 'compute.machineTypes.list' permission for 'projects/double-project'",
            )
        kind = asked.path.rpartition("/")[2]
        index = 0 if kind == "machineTypes" else 1
        family = (
            re.compile(asked.query["filter"].partition('"')[2].rstrip('"'))
            if "filter" in asked.query
            else None
        )
        names = sorted(self.zones)
        start = int(asked.query.get("pageToken") or 0)
        items: dict[str, Any] = {}
        for zone in names[start : start + 2]:
            here = [
                {"name": name}
                for name in self.zones[zone][index]
                if family is None or family.fullmatch(name)
            ]
            items[f"zones/{zone}"] = {kind: here} if here else {}
        more = (
            {"nextPageToken": str(start + 2)}
            if start + 2 < len(names)
            else {"unreachables": self.unreachable}
        )
        return json_answer({"items": items, **more})

    def login_file(self, folder: Path) -> Path:
        """Write the file of a service account whose token comes from this double."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import rsa

        private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pem = private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        path = folder / "service-account.json"
        path.write_text(
            json.dumps(
                {
                    "type": "service_account",
                    "project_id": PROJECT,
                    "private_key_id": "1",
                    "private_key": pem.decode(),
                    "client_email": f"reader@{PROJECT}.iam.gserviceaccount.com",
                    "client_id": "1",
                    "token_uri": self.web.url("/token"),
                }
            )
        )
        return path


def _refused(status: int, name: str, message: str) -> Answer:
    return json_answer({"error": {"code": status, "message": message, "status": name}}, status)
