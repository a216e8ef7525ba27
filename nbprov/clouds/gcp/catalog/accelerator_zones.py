"""The zones in which a machine type is sold.

The billing catalogue has prices for accelerators in regions that have none, so a second source
decides.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nbprov.clouds.gcp.catalog.machine_types import DEVICES, MachineType
from nbprov.clouds.pricing.region_fetch import expect
from nbprov.clouds.web.client import HttpClient
from nbprov.model.failures import Cause, CloudError, Failure

MOST_PAGES = 400
"""Far more than the types of about 130 zones need at 500 a page, to end a list whose page token
never ends."""
PAGE = 500
FIELDS = "items/*/{kind}(name,deprecated/state),nextPageToken,unreachables"
_ZONE = re.compile(r"(?:^|/)zones/(([a-z]+-[a-z]+\d+)-[a-z0-9]+)$")

KNOWN_AS_OF = "2026-01"
# The letters of each region's zones; none if the zone was retired. Source: the rows of SkyPilot's
# catalog v8 (T4, V100, a3, g2) and Google's zone list of 2023 (a2), like the shipped price
# snapshot.
_KNOWN: Mapping[str, str] = {
    "T4": "asia-east1:ac asia-east2:ac asia-northeast1:ac asia-northeast3:bc asia-south1:ab "
    "asia-southeast1:abc asia-southeast2:ab"
    " australia-southeast1:ac europe-central2:bc europe-west1:bcd europe-west2:ab "
    "europe-west3:b europe-west4:abc me-west1:bc"
    " northamerica-northeast1:c southamerica-east1:abc us-central1:abcf us-east1:bcd "
    "us-east4:abc us-west1:ab us-west2:bc us-west3:b us-west4:ab",
    "V100": "asia-east1:c europe-west4:abc us-central1:abcf us-east1:bc us-west1:ab",
    "a2-highgpu": "asia-northeast1:ac asia-northeast3:ab asia-southeast1:bc europe-west4:ab "
    "me-west1:bc us-central1:abcf us-east1:ab"
    " us-west1:b us-west3:b us-west4:b",
    "a2-megagpu": "asia-southeast1:c europe-west4:ab us-central1:abcf us-east1:a",
    "a2-ultragpu": "asia-southeast1:c europe-west4:a us-central1:ac us-east4:c us-east5:b",
    "a3-highgpu": "asia-east1:c asia-northeast1:b asia-northeast3:ac asia-south1:c "
    "asia-south2:b asia-southeast1:bc australia-southeast1:c"
    " europe-north1:c europe-west1:bc europe-west2:b europe-west3:ac europe-west4:bc "
    "europe-west9:c northamerica-northeast2:c us-central1:abc"
    " us-east4:abc us-east5:a us-west1:ab us-west4:a",
    "a3-megagpu": "asia-northeast1:b asia-northeast3:ac asia-south1:c asia-southeast1:bc "
    "australia-southeast1:c europe-west1:bc europe-west3:ac"
    " europe-west4:bc northamerica-northeast2:c us-central1:abc us-east4:abc us-east5:a "
    "us-west1:ab us-west4:a",
    "a3-ultragpu": (
        "asia-south1:b asia-south2:c europe-west1:b europe-west4:a us-central1:b "
        "us-east4:b us-east5:a us-south1:b us-west1:c"
    ),
    "K80": "",
    "g2-standard": "asia-east1:abc asia-northeast1:abc asia-northeast3:ab asia-south1:abc "
    "asia-southeast1:abc europe-west1:bc europe-west2:ab"
    " europe-west3:ab europe-west4:abc europe-west6:bc me-central2:ac "
    "northamerica-northeast1:bc northamerica-northeast2:ab us-central1:abc"
    " us-east1:bcd us-east4:ac us-west1:abc us-west4:ac",
}


@dataclass(slots=True)
class ZonesByType:
    """Zones by machine type or accelerator, and region.

    Attributes
    ----------
    exact
        The zones were read from the account's Compute API, so a type that is missing is not sold
        there. Otherwise they are known zones for accelerators, and whole regions for the rest.
    failed
        Regions that the API could not answer for, with the reason.
    """

    zones: Mapping[tuple[str, str], tuple[str, ...]]
    exact: bool = False
    failed: Mapping[str, str] = field(default_factory=dict)

    def of(self, machine: MachineType, region: str) -> tuple[str, ...]:
        """Return the zones of a region that sell a machine.

        `("",)` stands for the whole region; the result is empty if it is not sold there.
        """
        apart = machine.device.name if machine.device and not machine.name else ""
        if self.exact:
            return self.zones.get((apart or machine.name, region), ())
        key = apart or machine.series
        return self.zones.get((key, region), ()) if key in _KNOWN else ("",)


def known() -> ZonesByType:
    """Return the zones that are known without asking."""
    zones = {}
    for key, regions in _KNOWN.items():
        for entry in regions.split():
            region, _, letters = entry.partition(":")
            zones[key, region] = tuple(f"{region}-{letter}" for letter in letters)
    return ZonesByType(zones)


def unknown(wanted: Iterable[MachineType]) -> list[str]:
    """Return the accelerators whose zones are not known without asking."""
    devices = {
        m.device.name
        for m in wanted
        if m.device and (m.series if m.name else m.device.name) not in _KNOWN
    }
    return sorted(devices)


def read(
    http: HttpClient,
    url: str,
    headers: Mapping[str, str],
    wanted: Iterable[MachineType],
    tell: Callable[[str], object],
) -> ZonesByType:
    """Ask the Compute API which zone offers which of these types and accelerators.

    `url` is the address of the project's aggregated lists.

    Raises
    ------
    CloudError
        If it is not allowed or there is no answer.
    """
    types = {machine.name: machine.name for machine in wanted if machine.name}
    families = "|".join(sorted({name.partition("-")[0] for name in types}))
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    failed: dict[str, str] = {}
    for kind, names, only in (
        ("machineTypes", types, {"filter": f'name eq "({families})-.*"'}),
        ("acceleratorTypes", {device.api_name: device.name for device in DEVICES}, {}),
    ):
        params = {
            "maxResults": PAGE,
            "returnPartialSuccess": "true",
            "fields": FIELDS.format(kind=kind),
            **only,
        }
        for page in _pages(http, f"{url}/{kind}", params, headers):
            tell(f"zones of {kind}")
            for region, zone in _zones(page.get("unreachables") or ()):
                failed[region] = f"zone {zone} did not answer"
            for place, scope in expect(
                page.get("items") or {}, dict, "the Compute API's list"
            ).items():
                for region, zone in _zones([place]):
                    for name in _names(scope, kind):
                        if name in names:
                            found[names[name], region].add(zone)
    if not found:
        raise CloudError(
            Failure(Cause.TRANSIENT, "the Compute API named no machine type in any zone")
        )
    return ZonesByType(
        {key: tuple(sorted(zones)) for key, zones in found.items()}, exact=True, failed=failed
    )


def _zones(said: Iterable[object]) -> Iterator[tuple[str, str]]:
    """Return region and zone of names like `zones/us-central1-a`, with or without a project in
    front.
    """
    for place in said:
        if zone := _ZONE.search(str(place)):
            yield zone[2], zone[1]


def _names(scope: object, kind: str) -> Iterator[str]:
    for item in (scope.get(kind) or ()) if isinstance(scope, Mapping) else ():
        if (item.get("deprecated") or {}).get("state") not in ("OBSOLETE", "DELETED"):
            yield str(item.get("name"))


def _pages(
    http: HttpClient, url: str, params: Mapping[str, Any], headers: Mapping[str, str]
) -> Iterator[Mapping[str, Any]]:
    token = ""
    for _ in range(MOST_PAGES):
        page = expect(
            http.json(
                url, params={**params, **({"pageToken": token} if token else {})}, headers=headers
            ),
            dict,
            "the Compute API's list",
        )
        yield page
        token = str(page.get("nextPageToken") or "")
        if not token:
            return
    raise CloudError(
        Failure(
            Cause.TRANSIENT, f"the Compute API's list of types did not end after {MOST_PAGES} pages"
        )
    )
