"""Reader of RunPod's older catalogue over GraphQL, which alone has spot prices.

It needs no key and is to be retired in early 2027. It has no published schema; the fields are those
that gpuhunt and SkyPilot 0.14.1 ask for (`gpuTypes`) and that RunPod's console and other clients
ask for (`dataCenters`), read in 2026-11. It answers 200 to refusals too: `errors` has the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nbprov.clouds.pricing.region_fetch import expect, number, price
from nbprov.clouds.web.client import HttpClient
from nbprov.model.failures import Cause, CloudError, Failure

from .merged_catalog import CatalogGpu, Centre, Offered

QUERY = (
    "query Prices { gpuTypes { id displayName manufacturer memoryInGb secureCloud securePrice "
    "secureSpotPrice maxGpuCount maxGpuCountSecureCloud }"
    " dataCenters { id listed gpuAvailability { gpuTypeId } } }"
)
_CAUSES = {
    "UNAUTHENTICATED": Cause.CREDENTIALS,
    "FORBIDDEN": Cause.PERMISSION,
    "RATE_LIMITED": Cause.RATE_LIMIT,
}


def read(http: HttpClient, base: str) -> Offered:
    """Read GPUs and data centres with one request.

    Raises
    ------
    CloudError
        If the request is refused, or the answer holds no GPUs.
    """
    answer = expect(http.post(f"{base}/graphql", {"query": QUERY}), dict, "RunPod's answer")
    data, refused = answer.get("data"), _refusal(answer.get("errors"))
    if not isinstance(data, Mapping) or not data.get("gpuTypes"):
        raise CloudError(
            refused or Failure(Cause.TRANSIENT, "RunPod's list holds no GPUs", code="odd-answer")
        )
    said = [
        item
        for item in expect(data["gpuTypes"], list, "RunPod's list of GPUs")
        if isinstance(item, Mapping)
    ]
    sold = [item for item in said if item.get("secureCloud") is True]
    kinds = tuple(kind for item in sold if (kind := _gpu(item)) is not None)
    notes = (f"RunPod's answer is partial: {refused.message}",) if refused else ()
    centres, more = _centres(data.get("dataCenters"), kinds)
    return Offered(kinds, centres, unread=len(sold) - len(kinds), notes=(*notes, *more))


def _refusal(errors: object) -> Failure | None:
    if not isinstance(errors, list) or not errors:
        return None
    first = errors[0] if isinstance(errors[0], Mapping) else {}
    inside = first.get("extensions")
    code = str(inside.get("code") or "") if isinstance(inside, Mapping) else ""
    message = f"RunPod refused the request: {str(first.get('message') or errors[0])[:200]}"
    return Failure(_CAUSES.get(code, Cause.TRANSIENT), message, code=code)


def _gpu(said: Mapping[str, Any]) -> CatalogGpu | None:
    on_demand, spot = price(said.get("securePrice")), price(said.get("secureSpotPrice"))
    most = number(said.get("maxGpuCountSecureCloud")) or number(said.get("maxGpuCount"))
    if not said.get("id") or most is None or (on_demand is None and spot is None):
        return None
    name, maker = (
        str(said.get("displayName") or said["id"]),
        str(said.get("manufacturer") or "").upper(),
    )
    return CatalogGpu(
        str(said["id"]), name, number(said.get("memoryInGb")), maker, int(most), on_demand, spot
    )


def _centres(
    said: object, kinds: tuple[CatalogGpu, ...]
) -> tuple[tuple[Centre, ...], tuple[str, ...]]:
    listed = (
        [item for item in said or () if isinstance(item, Mapping) and item.get("id")]
        if isinstance(said, list)
        else []
    )
    listed = [item for item in listed if item.get("listed") is not False]
    if not listed:
        raise CloudError(
            Failure(Cause.TRANSIENT, "RunPod's list holds no data centres", code="odd-answer")
        )
    centres = tuple(
        Centre(
            str(item["id"]),
            frozenset(
                str(one.get("gpuTypeId"))
                for one in item.get("gpuAvailability") or ()
                if isinstance(one, Mapping)
            ),
        )
        for item in listed
    )
    if any(centre.gpus for centre in centres):
        return centres, ()
    everything = frozenset(kind.id for kind in kinds)
    note = (
        "the list does not say which data centre has which GPU, so each type is listed in "
        "all of them"
    )
    return tuple(Centre(centre.id, everything) for centre in centres), (note,)
