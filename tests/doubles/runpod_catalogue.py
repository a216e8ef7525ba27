"""RunPod's two catalogues on a `WebDouble`: REST v2 (with a key) and GraphQL (without).

Shapes: REST v2 is `openapi.json` 2.0.0 of github.com/runpod/docs (GpuType, CpuType, DataCenter,
ErrorResponse), transcribed in part 2026-11; that repository has no licence, so the document itself
is not here. GraphQL has no published schema: the fields are those that public clients ask for.
Prices are those of the shipped snapshot (SkyPilot's catalog v8, 2026).
"""

from __future__ import annotations

from typing import Any

from web_double import Answer, Asked, WebDouble, json_answer

KEY = "rpa_DOUBLEKEY0001"

# id: name, memory GB, secure price, community price, spot, most GPUs a machine
GPUS: dict[str, tuple[str, int, float, float, float, int]] = {
    "NVIDIA A100 80GB PCIe": ("A100 PCIe", 80, 1.39, 1.19, 0.82, 8),
    "NVIDIA A100-SXM4-80GB": ("A100 SXM", 80, 1.59, 1.39, 0.95, 8),
    "NVIDIA H100 80GB HBM3": ("H100 SXM", 80, 3.29, 2.69, 1.75, 8),
    "NVIDIA H200": ("H200 SXM", 141, 4.59, 3.59, 2.29, 8),
    "NVIDIA L4": ("L4", 24, 0.49, 0.39, 0.22, 9),
    "NVIDIA L40": ("L40", 48, 0.82, 0.69, 0.49, 10),
    "NVIDIA L40S": ("L40S", 48, 0.99, 0.79, 0.49, 8),
    "NVIDIA GeForce RTX 3090": ("RTX 3090", 24, 0.5, 0.22, 0.2, 8),
    "NVIDIA RTX 4000 Ada Generation": ("RTX 4000 Ada", 20, 0.28, 0.2, 0.14, 8),
    "NVIDIA GeForce RTX 4090": ("RTX 4090", 24, 0.74, 0.34, 0.35, 8),
    "NVIDIA GeForce RTX 5090": ("RTX 5090", 32, 0.99, 0.69, 0.53, 8),
}
COMMUNITY_ONLY = "NVIDIA GeForce RTX 3070"
CENTRES = {
    "EU-CZ-1": list(GPUS),
    "US-TX-3": list(GPUS)[:4],
    "CA-MTL-1": ["NVIDIA L40"],
    "EUR-IS-2": [],
}

_LEVEL = {"enum": ["NONE", "LOW", "MEDIUM", "HIGH"]}
GPU_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": [
        "id",
        "name",
        "pool",
        "manufacturer",
        "memory",
        "secure",
        "community",
        "price",
        "maxCount",
    ],
    "properties": {
        "manufacturer": {"enum": ["NVIDIA", "AMD", "UNKNOWN"]},
        "memory": {"type": "integer"},
        "secure": {"type": "boolean"},
        "price": {
            "type": "object",
            "required": ["secure", "community"],
            "additionalProperties": {"type": "number"},
        },
        "maxCount": {
            "type": "object",
            "required": ["secure", "community"],
            "additionalProperties": {"type": "integer"},
        },
    },
}
SCHEMAS: dict[str, dict[str, Any]] = {
    "gpus": {
        "type": "object",
        "required": ["gpus"],
        "properties": {"gpus": {"type": "array", "items": GPU_SCHEMA}},
    },
    "datacenters": {
        "type": "object",
        "required": ["dataCenters"],
        "properties": {
            "dataCenters": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": [
                        "id",
                        "name",
                        "region",
                        "networkVolumeTypes",
                        "compliance",
                        "globalNetwork",
                    ],
                    "properties": {
                        "gpuAvailability": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "required": ["id", "name", "availability"],
                                "properties": {"availability": _LEVEL},
                            },
                        }
                    },
                },
            }
        },
    },
    "cpus": {
        "type": "object",
        "required": ["cpus"],
        "properties": {
            "cpus": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["id", "name", "group", "vcpu", "ramGbPerVcpu", "price"],
                },
            }
        },
    },
}


class RunPodDouble:
    """Both services."""

    def __init__(self, web: WebDouble) -> None:
        self.web = web
        web.on(
            "/v2/catalog/gpus",
            self.guarded(lambda _: {"gpus": [*map(self.gpu, GPUS), self.community_only()]}),
        )
        web.on(
            "/v2/catalog/datacenters",
            self.guarded(
                lambda asked: {"dataCenters": [self.centre(name, asked) for name in CENTRES]}
            ),
        )
        web.on("/v2/catalog/cpus", self.guarded(lambda _: {"cpus": [self.cpu()]}))
        web.on("/graphql", self.answer_graphql)

    @property
    def endpoints(self) -> dict[str, str]:
        return {"rest": self.web.url(), "graphql": self.web.url()}

    @staticmethod
    def guarded(answer: Any) -> Any:
        """A route that wants the key."""

        def reply(asked: Asked) -> Answer:
            if asked.headers.get("authorization") != f"Bearer {KEY}":
                problem = {"title": "Unauthorized", "status": 401, "detail": "missing bearer token"}
                return json_answer(
                    problem, 401, headers={"Content-Type": "application/problem+json"}
                )
            return json_answer(answer(asked), headers={"RateLimit": '"minute";r=59;t=12'})

        return reply

    @staticmethod
    def gpu(name: str) -> dict[str, Any]:
        said, memory, secure, community, _, most = GPUS[name]
        return {
            "id": name,
            "name": said,
            "pool": None,
            "manufacturer": "NVIDIA",
            "memory": memory,
            "secure": True,
            "community": True,
            "price": {"secure": secure, "community": community},
            "maxCount": {"secure": most, "community": 4},
        }

    @staticmethod
    def community_only() -> dict[str, Any]:
        return {
            "id": COMMUNITY_ONLY,
            "name": "RTX 3070",
            "pool": None,
            "manufacturer": "NVIDIA",
            "memory": 8,
            "secure": False,
            "community": True,
            "price": {"secure": 0.01, "community": 0.13},
            "maxCount": {"secure": 1, "community": 4},
        }

    @staticmethod
    def cpu() -> dict[str, Any]:
        price = {"securePerVcpu": 0.03, "serverlessPerVcpu": 0.02}
        return {
            "id": "cpu5c",
            "name": "Compute-Optimized",
            "group": "Gen 5",
            "vcpu": {"min": 2, "max": 32},
            "ramGbPerVcpu": 2,
            "price": price,
        }

    @staticmethod
    def centre(name: str, asked: Asked) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "id": name,
            "name": name.title(),
            "region": "EUROPE",
            "networkVolumeTypes": [],
            "compliance": [],
            "globalNetwork": False,
        }
        wanted = asked.query.get("include", "").split(",")
        if "GPU_AVAILABILITY" in wanted and CENTRES[name]:
            level = {"availability": "NONE" if name == "US-TX-3" else "HIGH"}
            entry["gpuAvailability"] = [
                {"id": gpu, "name": gpu, **level} for gpu in (*CENTRES[name], COMMUNITY_ONLY)
            ]
        if "CPU_AVAILABILITY" in wanted and name == "EU-CZ-1":
            entry["cpuAvailability"] = [
                {"id": "cpu5c", "name": "Compute-Optimized", "availability": "LOW"}
            ]
        return entry

    @staticmethod
    def answer_graphql(asked: Asked) -> Answer:
        query = asked.json["query"]
        unknown = [
            name
            for name in (
                "gpuTypes",
                "dataCenters",
                "securePrice",
                "secureSpotPrice",
                "gpuAvailability",
            )
            if name not in query
        ]
        if asked.method != "POST" or unknown:
            return json_answer({"errors": [{"message": f"not asked for: {unknown}"}], "data": None})
        gpus = [
            {
                "id": name,
                "displayName": said,
                "manufacturer": "Nvidia",
                "memoryInGb": memory,
                "secureCloud": True,
                "securePrice": secure,
                "secureSpotPrice": spot,
                "maxGpuCount": 10,
                "maxGpuCountSecureCloud": most,
            }
            for name, (said, memory, secure, _, spot, most) in GPUS.items()
        ]
        unsold = {
            **gpus[0],
            "id": COMMUNITY_ONLY,
            "displayName": "RTX 3070",
            "secureCloud": False,
            "securePrice": None,
            "secureSpotPrice": None,
        }
        centres: list[dict[str, Any]] = [
            {
                "id": name,
                "listed": True,
                "gpuAvailability": [{"gpuTypeId": gpu} for gpu in (*had, COMMUNITY_ONLY)],
            }
            for name, had in CENTRES.items()
        ]
        centres.append(
            {
                "id": "EU-NL-1",
                "listed": False,
                "gpuAvailability": [{"gpuTypeId": gpu} for gpu in GPUS],
            }
        )
        return json_answer({"data": {"gpuTypes": [*gpus, unsold], "dataCenters": centres}})
