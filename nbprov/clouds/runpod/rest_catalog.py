"""Reader of RunPod's catalogue over REST v2 (`/v2/catalog/…`), which needs a key and has no spot.

Shapes: RunPod REST API 2.0.0, `openapi.json` of github.com/runpod/docs (GpuType, CpuType,
DataCenter), read in 2026-11.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nbprov.clouds.pricing.region_fetch import expect, number, price
from nbprov.clouds.web.client import HttpClient

from .merged_catalog import CatalogCpu, CatalogGpu, Centre, Offered


def read(http: HttpClient, base: str, key: str) -> Offered:
    """Read GPUs, CPUs and data centres with three requests.

    Raises
    ------
    CloudError
        If one of them is not answered.
    """
    headers = {"Authorization": f"Bearer {key}"}
    gpus = _listed(http.json(f"{base}/v2/catalog/gpus", headers=headers), "gpus")
    wanted = {"include": "GPU_AVAILABILITY,CPU_AVAILABILITY"}
    centres = _listed(
        http.json(f"{base}/v2/catalog/datacenters", params=wanted, headers=headers), "dataCenters"
    )
    cpus = _listed(http.json(f"{base}/v2/catalog/cpus", headers=headers), "cpus")
    sold = [gpu for gpu in gpus if gpu.get("secure") is True]
    kinds = [kind for gpu in sold if (kind := _gpu(gpu)) is not None]
    flavours = [flavour for cpu in cpus if (flavour := _cpu(cpu)) is not None]
    unread = len(sold) - len(kinds) + len(cpus) - len(flavours)
    return Offered(
        tuple(kinds),
        tuple(_centre(centre) for centre in centres if centre.get("id")),
        tuple(flavours),
        unread,
    )


def _listed(answer: Any, name: str) -> list[Mapping[str, Any]]:
    items = expect(
        expect(answer, dict, "RunPod's answer").get(name), list, f"RunPod's list of {name}"
    )
    return [item for item in items if isinstance(item, Mapping)]


def _gpu(said: Mapping[str, Any]) -> CatalogGpu | None:
    # The price of a cloud that does not sell the type is a placeholder. Only the secure cloud is
    # read, and only the types it sells.
    each, most = (
        price(_of(said, "price").get("secure")),
        number(_of(said, "maxCount").get("secure")),
    )
    if not said.get("id") or each is None or most is None:
        return None
    return CatalogGpu(
        str(said["id"]),
        str(said.get("name") or said["id"]),
        number(said.get("memory")),
        str(said.get("manufacturer") or ""),
        int(most),
        each,
    )


def _cpu(said: Mapping[str, Any]) -> CatalogCpu | None:
    least, most = number(_of(said, "vcpu").get("min")), number(_of(said, "vcpu").get("max"))
    gib, each = number(said.get("ramGbPerVcpu")), price(_of(said, "price").get("securePerVcpu"))
    if not said.get("id") or least is None or most is None or gib is None or each is None:
        return None
    return CatalogCpu(str(said["id"]), int(least), int(most), gib, each)


def _centre(said: Mapping[str, Any]) -> Centre:
    def ids(name: str) -> frozenset[str]:
        return frozenset(
            str(item.get("id")) for item in said.get(name) or () if isinstance(item, Mapping)
        )

    return Centre(str(said["id"]), ids("gpuAvailability"), ids("cpuAvailability"))


def _of(said: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    inner = said.get(name)
    return inner if isinstance(inner, Mapping) else {}
