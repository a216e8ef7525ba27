"""The ids that REST v2 uses for types such as `1x_L40S_SECURE` and `cpu5c-2-4`.

They are read from RunPod's own catalogue; none is written down here.
"""

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
"""How long the names of types are kept: new ones come every few weeks."""
AGAIN: Seconds = 60.0
"""How soon a type that is not in the catalogue is looked for again: RunPod allows 60 calls a
minute."""
_GPU = re.compile(r"(?P<count>\d+)x_(?P<name>.+)_(?P<cloud>SECURE|COMMUNITY)")
_CPU = re.compile(r"(?P<id>[a-z][a-z0-9]*)-(?P<vcpus>\d+)-(?P<gib>[\d.]+)")


@dataclass(frozen=True, slots=True)
class GpuType:
    """A number of GPUs of one type in one of the two clouds."""

    count: int
    name: str
    cloud: str


@dataclass(frozen=True, slots=True)
class CpuType:
    """A CPU flavour and size."""

    id: str
    vcpus: int


def read_type(offer_type: str) -> GpuType | CpuType:
    """Read the name of a type.

    Raises
    ------
    CloudError
        `not_offered` if it is not a name of RunPod's.

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
    """Return the price list's name of a GPU of the catalogue, with its form factor."""
    return gpu_names.read(
        str(said.get("name") or said.get("id")), number(said.get("memory"))
    ).formed


class TypeCatalog:
    """The catalogue of one account, kept for an hour. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._read: Seconds = float("-inf")

    def learn(self, listed: list[dict[str, Any]]) -> None:
        """Learn from a list of GPUs that was read for any purpose.

        A type that is listed under another id now is known by that.
        """
        with self._lock:
            listed_ids = {str(said["id"]): name_of(said) for said in listed if said.get("id")}
            for gpu_id, name in sorted(listed_ids.items()):
                if listed_ids.get(self._ids.get(name, "")) != name:
                    self._ids[name] = gpu_id
            self._names |= listed_ids
            self._read = time.monotonic()

    def name(self, gpu_id: str) -> str:
        """Return the price list's name of a GPU id, without asking; empty if it is not known."""
        return self._names.get(gpu_id, "")

    def gpu_id(self, api: Api, name: str, *, seconds: Seconds) -> str:
        """Return RunPod's id of a GPU; reads the catalogue if necessary.

        Raises
        ------
        CloudError
            `not_offered` if the catalogue has no such type.
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
    """Return the data centres of a country."""
    listed = api.listed(CENTRES, "dataCenters", seconds=seconds)
    return sorted(
        str(one["id"])
        for one in listed
        if one.get("id") and Centre(str(one["id"])).region == region
    )


def price_now(api: Api, kinds: TypeCatalog, offer: Offer, *, seconds: Seconds) -> Micros | None:
    """Return the current hourly price of an offer; None if the catalogue does not list it."""
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
