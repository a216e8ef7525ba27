"""CUDO's list of machine types on a `WebDouble`."""

from __future__ import annotations

from typing import Any

from web_double import Answer, Asked, WebDouble, json_answer

PATH = "/v1/vms/machine-types"


def machine(
    kind: str,
    model: str,
    region: str,
    gpu: str,
    vcpu: str = "0.0037",
    gib: str = "0.0062",
    **other: Any,
) -> dict[str, Any]:
    """A machine type; prices are decimals in text, each in an object of its own."""
    plain = {
        "dataCenterId": region,
        "machineType": kind,
        "cpuModel": "EPYC-Genoa",
        "gpuModel": model,
        "gpuModelId": model.lower().replace(" ", "-"),
        "minVcpu": 1,
        "minMemoryGib": 2,
        "minVcpuPerMemoryGib": 0.25,
        "maxVcpuPerMemoryGib": 1,
        "vcpuPriceHr": {"value": vcpu},
        "memoryGibPriceHr": {"value": gib},
        "gpuPriceHr": {"value": gpu},
        "minStorageGibPriceHr": {"value": "0.00013"},
        "ipv4PriceHr": {"value": "0.0045"},
        "maxVcpuFree": 128,
        "totalGpuFree": 4,
    }
    return {**plain, **other}


class CudoDouble:
    """The list, for requests with the key."""

    def __init__(
        self, web: WebDouble, machines: list[dict[str, Any]], key: str = "cudo-key-1234"
    ) -> None:
        self.machines = machines
        self.key = key
        web.on(PATH, self.answer)

    def answer(self, asked: Asked) -> Answer:
        """Return the list, or the refusal of a wrong key in gRPC's words, like CUDO."""
        if asked.headers.get("authorization") != f"Bearer {self.key}":
            return json_answer({"code": 16, "message": "unauthenticated", "details": []}, 401)
        return json_answer({"machineTypes": self.machines})
