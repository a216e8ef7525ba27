"""From the names of types (`1x_L40S_SECURE`, `cpu5c-2-4`) to what REST v2 calls them, by RunPod's own catalogue: no id is written down here."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nbprov.clouds.pricing import gpu_names
from nbprov.clouds.pricing.region_fetch import number, price
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure, Scope
from nbprov.model.money import Micros
from nbprov.model.offers import Offer

from .api import Api
from .merged_catalog import Centre

GPUS = "/v2/catalog/gpus"
CPUS = "/v2/catalog/cpus"
CENTRES = "/v2/catalog/datacenters"
KEPT: Seconds = 3600.0
"""How long the names of kinds are kept: new ones come every few weeks."""
AGAIN: Seconds = 60.0
"""A kind that is not in the catalogue is looked for again after this: RunPod allows 60 calls a minute."""
_GPU = re.compile(r"(?P<count>\d+)x_(?P<name>.+)_(?P<cloud>SECURE|COMMUNITY)")
_CPU = re.compile(r"(?P<id>[a-z][a-z0-9]*)-(?P<vcpus>\d+)-(?P<gib>[\d.]+)")


@dataclass(frozen=True, slots=True)
class GpuType:
    """So many GPUs of a kind in one of the two clouds."""

    count: int
    name: str
    cloud: str


@dataclass(frozen=True, slots=True)
class CpuType:
    """A CPU flavour and size."""

    id: str
    vcpus: int


def read_type(offer_type: str) -> GpuType | CpuType:
    """What a type's name says.

    Raises
    ------
    CloudError
        `not_offered` where it is no name of RunPod's.

    Examples
    --------
    >>> read_type("2x_A100-80GB-SXM_SECURE"), read_type("cpu5c-2-4")
    (GpuType(count=2, name='A100-80GB-SXM', cloud='SECURE'), CpuType(id='cpu5c', vcpus=2))
    """
    if gpu := _GPU.fullmatch(offer_type):
        return GpuType(int(gpu["count"]), gpu["name"], gpu["cloud"])
    if cpu := _CPU.fullmatch(offer_type):
        return CpuType(cpu["id"], int(cpu["vcpus"]))
    raise CloudError(
        Failure(Cause.NOT_OFFERED, f"RunPod has no type {offer_type!r}", "unknown-type", Scope.ZONE)
    )


def name_of(said: Mapping[str, Any]) -> str:
    """A GPU of the catalogue as the price list names it, form factor included."""
    return gpu_names.read(
        str(said.get("name") or said.get("id")), number(said.get("memory"))
    ).formed


class Kinds:
    """The catalogue of one account, kept for an hour. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._read: Seconds = float("-inf")

    def learn(self, listed: list[dict[str, Any]]) -> None:
        """Take in a list of GPUs that was read for whatever purpose. A kind that is listed under another id now goes by that."""
        with self._lock:
            listed_ids = {str(said["id"]): name_of(said) for said in listed if said.get("id")}
            for gpu_id, name in sorted(listed_ids.items()):
                if listed_ids.get(self._ids.get(name, "")) != name:
                    self._ids[name] = gpu_id
            self._names |= listed_ids
            self._read = time.monotonic()

    def name(self, gpu_id: str) -> str:
        """The price list's name of a GPU id, without asking; empty where it is not known yet."""
        return self._names.get(gpu_id, "")

    def gpu_id(self, api: Api, name: str, *, seconds: Seconds) -> str:
        """RunPod's id of a GPU; asks for the catalogue where it must.

        Raises
        ------
        CloudError
            `not_offered` where the catalogue has no such kind.
        """
        with self._lock:
            found, age = self._ids.get(name), time.monotonic() - self._read
        if age > KEPT or (found is None and age > AGAIN):
            self.learn(api.listed(GPUS, "gpus", seconds=seconds))
            found = self._ids.get(name)
        if found is None:
            raise CloudError(
                Failure(
                    Cause.NOT_OFFERED,
                    f"RunPod's catalogue has no GPU called {name}",
                    "unknown-gpu",
                    Scope.REGION,
                )
            )
        return found


def centres_of(api: Api, region: str, *, seconds: Seconds) -> list[str]:
    """The data centres of a country."""
    listed = api.listed(CENTRES, "dataCenters", seconds=seconds)
    return sorted(
        str(one["id"])
        for one in listed
        if one.get("id") and Centre(str(one["id"])).region == region
    )


def price_now(api: Api, kinds: Kinds, offer: Offer, *, seconds: Seconds) -> Micros | None:
    """What the catalogue says an offer costs an hour now; None where it does not list it."""
    wanted = read_type(offer.instance_type)
    if isinstance(wanted, CpuType):
        cpus = api.listed(CPUS, "cpus", seconds=seconds)
        one = next((cpu for cpu in cpus if cpu.get("id") == wanted.id), {})
        each, units = price(_inside(one, "price").get("securePerVcpu")), wanted.vcpus
    else:
        gpus = api.listed(GPUS, "gpus", seconds=seconds)
        kinds.learn(gpus)
        one = next(
            (
                gpu
                for gpu in gpus
                if name_of(gpu) == wanted.name and gpu.get(wanted.cloud.lower()) is True
            ),
            {},
        )
        each, units = price(_inside(one, "price").get(wanted.cloud.lower())), wanted.count
    return None if each is None else each * units


def _inside(said: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    inner = said.get(name)
    return inner if isinstance(inner, Mapping) else {}
