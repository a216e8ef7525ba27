"""Vast's `POST /api/v0/bundles/` on a `WebDouble`: it filters, sorts and limits as it is asked to.

Shape: `api-reference/openapi.yaml` of github.com/vast-ai/docs (search offers), transcribed in part
2026-11; that repository has no licence, so the document itself is not here.
"""

from __future__ import annotations

from typing import Any

from web_double import Answer, Asked, WebDouble, json_answer

PATH = "/api/v0/bundles/"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["offers"],
    "properties": {
        "offers": {
            "type": "array",
            "items": {
                "type": "object",
                "required": [
                    "id",
                    "gpu_name",
                    "num_gpus",
                    "gpu_ram",
                    "cpu_cores",
                    "cpu_cores_effective",
                    "cpu_ram",
                    "dph_total",
                    "geolocation",
                ],
                "properties": {
                    "gpu_ram": {"type": "number"},
                    "dph_total": {"type": "number"},
                    "min_bid": {"type": ["number", "null"]},
                    "geolocation": {"type": ["string", "null"]},
                },
            },
        }
    },
}
_COMPARE = {
    "eq": lambda a, b: a == b,
    "gte": lambda a, b: a >= b,
    "lte": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
}


def offer(number: int, gpu: str, dollars: float, **more: Any) -> dict[str, Any]:
    """Return one machine for rent, by default with half of a host of 64 cores and 128 GiB."""
    return {
        "id": number,
        "gpu_name": gpu,
        "num_gpus": 1,
        "gpu_ram": 24576,
        "gpu_arch": "nvidia",
        "cpu_cores": 64,
        "cpu_cores_effective": 32.0,
        "cpu_ram": 131072,
        "cpu_arch": "amd64",
        "dph_total": dollars,
        "min_bid": round(dollars / 2, 4),
        "geolocation": "Texas, US",
        "verified": True,
        "external": False,
        "rentable": True,
        "rented": False,
        "inet_down": 900.0,
        "disk_space": 500.0,
        "reliability2": 0.99,
    } | more


class VastDouble:
    """The market; `cap` is the most offers of an answer, whatever `limit` asks for."""

    def __init__(self, web: WebDouble, offers: list[dict[str, Any]], *, cap: int = 64) -> None:
        self.web = web
        self.offers = offers
        self.cap = cap
        web.on(PATH, self.answer)

    @property
    def endpoints(self) -> dict[str, str]:
        return {"api": self.web.url()}

    def answer(self, asked: Asked) -> Answer:
        question = asked.json
        if asked.method != "POST":
            return json_answer({"success": False, "error": "invalid_args", "msg": "POST only"}, 400)
        conditions = {name: value for name, value in question.items() if isinstance(value, dict)}
        here = [
            one
            for one in self.offers
            if all(
                _COMPARE[op](one[name], limit)
                for name, c in conditions.items()
                for op, limit in c.items()
            )
        ]
        for name, direction in reversed(question.get("order", [])):
            here.sort(key=lambda one: one[name], reverse=direction == "desc")
        return json_answer({"offers": here[: min(self.cap, question.get("limit", 64))]})
