"""Lambda's `GET /api/v1/instance-types` on a `WebDouble`.

Shape: OpenAPI 1.10.0 of cloud.lambda.ai (InstanceTypes), as public clients transcribe it, 2026-11.
Types and prices are those of the shipped snapshot (SkyPilot's catalog v8, 2026).
"""

from __future__ import annotations

from typing import Any

from web_double import Answer, Asked, WebDouble, json_answer

KEY = "secret_double_0001"
PATH = "/api/v1/instance-types"

# name: description of the GPU, how many, vCPUs, GiB, cents an hour, regions with stock
TYPES: dict[str, tuple[str, int, int, int, int, list[str]]] = {
    "cpu_4x_general": ("N/A", 0, 4, 16, 20, ["us-east-1"]),
    "gpu_1x_a10": ("A10 (24 GB PCIe)", 1, 30, 200, 129, []),
    "gpu_1x_a100": ("A100 (40 GB PCIe)", 1, 30, 200, 199, []),
    "gpu_1x_a100_sxm4": ("A100 (40 GB SXM4)", 1, 30, 200, 199, ["us-west-2"]),
    "gpu_1x_a6000": ("RTX A6000 (48 GB)", 1, 14, 100, 109, []),
    "gpu_1x_gh200": ("GH200 (96 GB)", 1, 64, 432, 229, ["us-east-3"]),
    "gpu_1x_h100_pcie": ("H100 (80 GB PCIe)", 1, 26, 200, 329, []),
    "gpu_1x_rtx6000": ("Quadro RTX 6000 (24 GB)", 1, 14, 46, 69, []),
    "gpu_8x_a100_80gb_sxm4": ("A100 (80 GB SXM4)", 8, 240, 1800, 2232, []),
    "gpu_8x_b200_sxm6": ("B200 (180 GB SXM6)", 8, 208, 2900, 5352, ["us-mars-9"]),
    "gpu_8x_h100_sxm5": ("H100 (80 GB SXM5)", 8, 208, 1800, 3192, []),
    "gpu_8x_v100_n": ("Tesla V100 (16 GB)", 8, 88, 448, 632, []),
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["data"],
    "properties": {
        "data": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["instance_type", "regions_with_capacity_available"],
                "properties": {
                    "instance_type": {
                        "type": "object",
                        "required": [
                            "name",
                            "description",
                            "gpu_description",
                            "price_cents_per_hour",
                            "specs",
                        ],
                        "properties": {
                            "price_cents_per_hour": {"type": "integer"},
                            "specs": {
                                "type": "object",
                                "required": ["vcpus", "memory_gib", "storage_gib", "gpus"],
                            },
                        },
                    },
                    "regions_with_capacity_available": {
                        "type": "array",
                        "items": {"type": "object", "required": ["name", "description"]},
                    },
                },
            },
        }
    },
}


def instance_types() -> dict[str, Any]:
    """The whole answer."""
    return {
        "data": {
            name: {
                "instance_type": {
                    "name": name,
                    "description": f"{gpus}x {said}",
                    "gpu_description": said,
                    "price_cents_per_hour": cents,
                    "specs": {
                        "vcpus": vcpus,
                        "memory_gib": memory,
                        "storage_gib": 512,
                        "gpus": gpus,
                    },
                },
                "regions_with_capacity_available": [
                    {"name": region, "description": region.title()} for region in regions
                ],
            }
            for name, (said, gpus, vcpus, memory, cents, regions) in TYPES.items()
        }
    }


class LambdaDouble:
    """The service."""

    def __init__(self, web: WebDouble) -> None:
        self.web = web
        web.on(PATH, self.answer)

    @property
    def endpoints(self) -> dict[str, str]:
        return {"api": self.web.url("/api/v1")}

    @staticmethod
    def answer(asked: Asked) -> Answer:
        if asked.headers.get("authorization") != f"Bearer {KEY}":
            error = {
                "code": "global/invalid-api-key",
                "message": "API key was invalid, expired, or deleted.",
                "suggestion": "Check your API key.",
            }
            return json_answer({"error": error}, 401)
        return json_answer(instance_types())
