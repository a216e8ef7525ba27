"""Where a cloud's prices come from when nobody has named a source.

They come from the cloud itself, or from a place that the user chose. The files that are hosted for
SkyPilot lie on a branch that its owners may change at any time, unsigned: they are fetched only
when a person names them, with `--source hosted` or under `[source]` in `catalog.toml`.
"""

from __future__ import annotations

import threading

from nbprov.clouds.pricing import fetcher
from nbprov.clouds.pricing.fetcher import FetchContext
from nbprov.clouds.web.client import HttpClient
from nbprov.model.failures import CloudError

from .policy import PRIMARY, Settings, Source


def automatic_source(settings: Settings, cloud: str) -> Source | None:
    """Return where a cloud's prices are fetched from without a named source; None for nowhere.

    `AUTO` stands for the user's own mirror, and the cloud itself where that has no file.
    """
    chosen = settings.source(cloud)
    if chosen is Source.HOSTED or (chosen is Source.AUTO and settings.primary != PRIMARY):
        return chosen
    return None if what_is_lacking(settings, cloud) else Source.PROVIDER


def what_is_lacking(settings: Settings, cloud: str) -> str:
    """Return what is lacking to ask the cloud itself; empty if it can be asked.

    No request is sent.
    """
    if cloud not in fetcher.known():
        return f"nbprov reads no price list of {cloud} itself"
    context = FetchContext(
        http=HttpClient(stop=threading.Event()),
        today="",
        endpoints=settings.endpoints.get(cloud, {}),
    )
    try:
        found = fetcher.find(cloud)
        return "its price reader cannot be loaded" if found is None else found.ready(context)
    except (CloudError, ImportError) as error:
        return str(error) or type(error).__name__
