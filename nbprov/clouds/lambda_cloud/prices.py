"""The price fetcher of Lambda: one request to its API, which any account's key may send."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nbprov.clouds.pricing import gpu_names
from nbprov.clouds.pricing.fetcher import FetchContext, Fetcher, Progress
from nbprov.clouds.pricing.region_fetch import endpoint, expect, find_key, number
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.money import MICROS_PER_USD, Micros
from nbprov.model.price_list import PriceList, PriceRow

from .account import API, KEY_FILE, key_in

SOURCE = "Lambda Cloud API, instance-types"
NO_KEY = (
    "reading Lambda's prices needs an API key (free with an account): set LAMBDA_API_KEY, "
    "or put `api_key = …` into ~/.lambda_cloud/lambda_keys"
)

# The API names only the regions that have stock now. Source: SkyPilot's list of regions, as in its
# catalog v8 of 2026.
REGIONS = (
    "asia-northeast-1",
    "asia-northeast-2",
    "asia-south-1",
    "australia-east-1",
    "europe-central-1",
    "europe-south-1",
    "me-west-1",
    "us-east-1",
    "us-east-2",
    "us-east-3",
    "us-midwest-1",
    "us-south-1",
    "us-south-2",
    "us-south-3",
    "us-west-1",
    "us-west-2",
    "us-west-3",
)
_TYPE = re.compile(r"^(?:gpu|cpu)_(\d+)x_([a-z0-9]+)(?:_(\d+)gb)?")
_MEMORY = re.compile(r"\((\d+(?:\.\d+)?) ?GB")


class LambdaPrices(Fetcher):
    """Reads `GET /instance-types`: one price for each type, the same in every region."""

    cloud = "lambda"

    def ready(self, context: FetchContext) -> str:
        return "" if _key(context) else NO_KEY

    def fetch(self, context: FetchContext) -> PriceList:
        key = _key(context)
        if not key:
            raise CloudError(Failure(Cause.CREDENTIALS, NO_KEY))
        context.progress(Progress(0, 1, "instance types"))
        url = f"{endpoint(context, 'api', API)}/instance-types"
        answer = expect(
            context.http.json(url, headers={"Authorization": f"Bearer {key}"}),
            dict,
            "Lambda's answer",
        )
        types = expect(answer.get("data"), dict, "Lambda's list of instance types")
        with_stock = {
            str(place.get("name")) for entry in types.values() for place in _places(entry)
        }
        asked = frozenset(context.regions)
        regions = sorted(asked & ({*REGIONS} | with_stock) if asked else {*REGIONS} | with_stock)
        machines = [
            machine
            for name, entry in types.items()
            if (machine := _machine(str(name), entry)) is not None
        ]
        if not machines:
            raise CloudError(
                Failure(
                    Cause.TRANSIENT,
                    "Lambda's list holds no instance type with a price",
                    code="odd-answer",
                )
            )
        context.progress(Progress(1, 1, "instance types"))
        notes = [
            (
                "every type is listed in every region: Lambda gives one price for each type and "
                "names only the regions with stock at the moment"
            )
        ]
        if unread := len(types) - len(machines):
            notes.append(f"left out: {unread} instance types without a readable price")
        return PriceList(
            tuple(replace(machine, region=region) for machine in machines for region in regions),
            SOURCE,
            context.today,
            failed=dict.fromkeys(asked - set(regions), "Lambda has no such region"),
            covered=asked or None,
            notes=tuple(notes),
        )


def fetcher() -> Fetcher:
    """Make the fetcher of this cloud."""
    return LambdaPrices()


def _key(context: FetchContext) -> str:
    return find_key(context, "LAMBDA_API_KEY", file=KEY_FILE.expanduser(), inside=key_in)


def _places(entry: Any) -> list[Mapping[str, Any]]:
    places = entry.get("regions_with_capacity_available") if isinstance(entry, Mapping) else None
    return [place for place in places or () if isinstance(place, Mapping) and place.get("name")]


def _machine(name: str, entry: Any) -> PriceRow | None:
    """Make the row of a type without its region; None if its price or size cannot be read."""
    said = entry.get("instance_type") if isinstance(entry, Mapping) else None
    specs = said.get("specs") if isinstance(said, Mapping) else None
    form = _TYPE.match(name)
    if said is None or not isinstance(specs, Mapping) or form is None:
        return None
    hourly = _cents(said.get("price_cents_per_hour"))
    if hourly is None:
        return None
    count = number(specs.get("gpus")) if name.startswith("gpu_") else None
    if name.startswith("gpu_") and count is None:
        count = float(form[1])
    arch = str(said.get("architecture") or ("arm64" if "gh200" in name else "x86_64"))
    vcpus, memory = number(specs.get("vcpus")), number(specs.get("memory_gib"))
    if count is None:
        return PriceRow("", name, vcpus=vcpus, memory_gib=memory, arch=arch, on_demand=hourly)
    # The type's name holds the accelerator (`a6000`), the description its memory.
    size = _MEMORY.search(f"{said.get('gpu_description') or ''} {said.get('description') or ''}")
    gpu = gpu_names.read(form[2], float(form[3] or (size[1] if size else 0)) or None)
    return PriceRow(
        "",
        name,
        "",
        gpu.name,
        count,
        gpu.device_gib,
        gpu.maker or "NVIDIA",
        vcpus,
        memory,
        arch,
        hourly,
    )


def _cents(value: object) -> Micros | None:
    amount = number(value)
    return round(amount * MICROS_PER_USD / 100) if amount is not None else None
