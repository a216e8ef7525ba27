"""The price fetcher of RunPod's secure cloud.

Prices come from REST v2 with a key, otherwise from GraphQL, which also has the spot prices.
"""

from __future__ import annotations

from dataclasses import replace

from nbprov.clouds.pricing.fetcher import FetchContext, Fetcher, Progress
from nbprov.clouds.pricing.region_fetch import endpoint, find_key
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.price_list import PriceList

from . import graphql_catalog, rest_catalog
from .account import API, KEY_FILE, key_in
from .merged_catalog import Offered, rows

REST_SOURCE = "RunPod REST v2 catalogue"
GRAPHQL_SOURCE = "RunPod GraphQL gpuTypes"
SECURE_ONLY = "only the secure cloud: machines of the community cloud belong to no data centre"


class RunPodPrices(Fetcher):
    """Reads both catalogues and makes a row for every type, count and data centre."""

    cloud = "runpod"

    def ready(self, context: FetchContext) -> str:
        return ""

    def fetch(self, context: FetchContext) -> PriceList:
        listed, spot, reasons, failure = self._read(context)
        if listed is None:
            raise CloudError(
                failure or Failure(Cause.TRANSIENT, "RunPod's catalogue could not be read")
            )
        asked = frozenset(context.regions)
        made = [row for row in rows(listed) if not asked or row.region in asked]
        if not made and not asked:
            raise CloudError(
                Failure(
                    Cause.TRANSIENT,
                    "RunPod's catalogue names no machine in any data centre",
                    code="odd-answer",
                )
            )
        notes = [SECURE_ONLY, *reasons, *listed.notes]
        if listed.unread:
            notes.append(f"left out: {listed.unread} types without a readable price")
        by_rest = listed is not spot
        unseen = {"spot"} if spot is None else set()
        if not listed.cpus:
            unseen.add("cpu")
        return PriceList(
            tuple(made),
            REST_SOURCE if by_rest else GRAPHQL_SOURCE,
            context.today,
            spot_source=GRAPHQL_SOURCE if spot is not None and by_rest else "",
            failed=dict.fromkeys(
                asked - {row.region for row in made}, "RunPod has no machine there"
            ),
            covered=asked or None,
            unseen=frozenset(unseen),
            notes=tuple(notes),
        )

    def _read(
        self, context: FetchContext
    ) -> tuple[Offered | None, Offered | None, list[str], Failure | None]:
        """Read the catalogues.

        Returns the catalogue for prices, the one with spot prices (both may be the same), notes on
        what failed, and the first failure.
        """
        key = _key(context)
        parts = 2 if key else 1
        reasons: list[str] = []
        failures: list[Failure] = []
        by_rest = by_graphql = None
        if key:
            context.progress(Progress(0, parts, "catalogue"))
            try:
                by_rest = rest_catalog.read(context.http, endpoint(context, "rest", API), key)
            except CloudError as error:
                reasons.append(f"REST v2 could not be read ({error}): prices are from GraphQL")
                failures.append(error.failure)
        context.progress(Progress(parts - 1, parts, "spot prices" if by_rest else "catalogue"))
        try:
            by_graphql = graphql_catalog.read(context.http, endpoint(context, "graphql", API))
        except CloudError as error:
            reasons.append(f"no spot prices: {error}")
            failures.append(error.failure)
        context.progress(Progress(parts, parts, "catalogue"))
        if by_rest and by_graphql:
            by_rest = _with_spot(by_rest, by_graphql)
        return by_rest or by_graphql, by_graphql, reasons, failures[0] if failures else None


def fetcher() -> Fetcher:
    """Make the fetcher of this cloud."""
    return RunPodPrices()


def _key(context: FetchContext) -> str:
    return find_key(context, "RUNPOD_API_KEY", file=KEY_FILE.expanduser(), inside=key_in)


def _with_spot(listed: Offered, other: Offered) -> Offered:
    spot = {gpu.id: gpu.spot for gpu in other.gpus}
    return replace(listed, gpus=tuple(replace(gpu, spot=spot.get(gpu.id)) for gpu in listed.gpus))
