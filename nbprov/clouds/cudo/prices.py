"""The price fetcher of CUDO Compute.

Machine types have a price for a vCPU, a GiB and a GPU, which are added up to machines of common
shapes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nbprov.clouds.pricing import gpu_names
from nbprov.clouds.pricing.fetcher import FetchContext, Fetcher
from nbprov.clouds.pricing.region_fetch import Steps, endpoint, expect, find_key, number, price
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.price_list import PriceList, PriceRow

API = "https://rest.compute.cudo.org"
PATH = "/v1/vms/machine-types"
VARIABLE = "CUDO_API_KEY"
KEY_FILE = Path("~/.config/cudo/cudo.yml")
SHAPES = (
    (1, 2, 4),
    (1, 4, 8),
    (1, 12, 24),
    (1, 24, 48),
    (2, 8, 16),
    (2, 16, 32),
    (2, 24, 48),
    (2, 48, 96),
    (4, 32, 64),
    (4, 48, 96),
    (4, 96, 192),
    (8, 64, 128),
    (8, 96, 192),
)
"""GPUs, vCPUs, GiB. CUDO sells any number of each; these are the shapes of SkyPilot's catalogue, so
that names of types mean the same."""
FORMED = ("H100",)
"""GPUs of which CUDO sells several forms with different prices."""


class CudoFetcher(Fetcher):
    """Reads CUDO's machine types of all data centres with one request."""

    cloud = "cudo"

    def ready(self, context: FetchContext) -> str:
        """Say where a key belongs if there is none."""
        if _key(context):
            return ""
        return (
            f"CUDO lists its prices to accounts only: set {VARIABLE} to an API key, or run "
            f"`cudoctl init`, which keeps one in {KEY_FILE}"
        )

    def fetch(self, context: FetchContext) -> PriceList:
        """Read all data centres, or those that were asked for."""
        key = _key(context)
        if not key:
            raise CloudError(Failure(Cause.CREDENTIALS, self.ready(context), code="no-key"))
        steps = Steps(context, 1)
        steps.begin("machine types")
        answer = context.http.json(
            endpoint(context, "api", API) + PATH, headers={"Authorization": f"Bearer {key}"}
        )
        listed = expect(
            expect(answer, dict, "CUDO's list of machine types").get("machineTypes"),
            list,
            "CUDO's list of machine types",
        )
        wanted = set(context.regions)
        rows: dict[tuple[str, str], PriceRow] = {}
        odd = 0
        for one in listed:
            machine = expect(one, dict, "a machine type of CUDO")
            if wanted and machine.get("dataCenterId") not in wanted:
                continue
            found = list(_rows(machine))
            odd += not found and bool(machine.get("gpuModel"))
            for row in found:
                rows[row.region, row.instance_type] = row
        steps.end("machine types")
        if not rows:
            raise CloudError(
                Failure(
                    Cause.TRANSIENT,
                    "CUDO's list has no machine type with a GPU and its prices",
                    code="empty",
                )
            )
        there = {region for region, _ in rows}
        return PriceList(
            tuple(rows[place] for place in sorted(rows)),
            "CUDO Compute API",
            context.today,
            failed=dict.fromkeys(sorted(wanted - there), "CUDO lists no such data centre"),
            covered=frozenset(wanted) if wanted else None,
            unseen=frozenset({"cpu"}),
            notes=(f"{odd} machine types were left out: a price of theirs is missing",)
            if odd
            else (),
        )


def fetcher() -> Fetcher:
    """Make the fetcher of this cloud."""
    return CudoFetcher()


def _key(context: FetchContext) -> str:
    return find_key(context, VARIABLE, file=KEY_FILE.expanduser(), inside=_key_in)


def _key_in(text: str) -> str:
    """Return the key of the current context in `cudo.yml`, where contexts refer to a list of
    keys.
    """
    import yaml

    try:
        settings = yaml.safe_load(text)
        context = _named(settings["contexts"], settings["current-context"])
        return str(_named(settings["keys"], context["key"])["key"]).strip()
    except (yaml.YAMLError, KeyError, TypeError, StopIteration):
        return ""


def _named(entries: Any, name: str) -> Any:
    return next(entry for entry in entries if entry["name"] == name)


def _rows(machine: Mapping[str, Any]) -> Iterator[PriceRow]:
    """Make a row for every shape that a machine type can have; none if a part has no price."""
    region, kind, model = (
        str(machine.get(name) or "") for name in ("dataCenterId", "machineType", "gpuModel")
    )
    vcpu, gib, gpu = (
        price((machine.get(name) or {}).get("value"))
        for name in ("vcpuPriceHr", "memoryGibPriceHr", "gpuPriceHr")
    )
    if not (region and kind and model and vcpu and gib and gpu):
        return
    device = gpu_names.read(model, number(machine.get("gpuMemoryGib")))
    name = device.formed if device.name in FORMED and device.form == "SXM" else device.name
    for gpus, vcpus, memory in SHAPES:
        if not _sold(machine, gpus, vcpus, memory):
            continue
        yield PriceRow(
            region,
            f"{kind}_{gpus}x{vcpus}v{memory}gb",
            accelerator=name,
            count=float(gpus),
            device_gib=device.device_gib,
            maker=device.maker,
            vcpus=float(vcpus),
            memory_gib=float(memory),
            arch="x86_64",
            on_demand=gpus * gpu + vcpus * vcpu + memory * gib,
        )


def _sold(machine: Mapping[str, Any], gpus: int, vcpus: int, memory: int) -> bool:
    """Whether a machine type can have a shape; a missing bound, or 0, means no bound."""
    for value, least, most in (
        (vcpus, "minVcpu", ""),
        (memory, "minMemoryGib", ""),
        (gpus, "", "maxGpuPerVm"),
        (vcpus / gpus, "minVcpuPerGpu", "maxVcpuPerGpu"),
        (vcpus / memory, "minVcpuPerMemoryGib", "maxVcpuPerMemoryGib"),
    ):
        if value < (number(machine.get(least)) or 0.0) or value > (
            number(machine.get(most)) or float("inf")
        ):
            return False
    return True
