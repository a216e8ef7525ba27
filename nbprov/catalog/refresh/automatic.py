"""Where prices come from that nobody asked for.

What renews itself comes from the cloud itself, or from a place that the user chose. The files that
are hosted for SkyPilot lie on a branch that its owners may change at any time, unsigned: they are
fetched when a person asks for them.
"""

from __future__ import annotations

import threading

from nbprov.clouds.pricing import fetcher
from nbprov.clouds.pricing.fetcher import FetchContext
from nbprov.clouds.web.client import HttpClient
from nbprov.model.failures import CloudError

from .policy import PRIMARY, Settings, Source


def automatic_source(settings: Settings, cloud: str) -> Source | None:
    """Return where a cloud's prices are renewed from without being asked; None for nowhere."""
    chosen = settings.source(cloud)
    if chosen is Source.HOSTED or (chosen is Source.AUTO and settings.primary != PRIMARY):
        return chosen
    return Source.PROVIDER if _is_ready(settings, cloud) else None


def _is_ready(settings: Settings, cloud: str) -> bool:
    """Whether the cloud itself can be asked; no request is sent."""
    if cloud not in fetcher.known():
        return False
    context = FetchContext(
        http=HttpClient(stop=threading.Event()),
        today="",
        endpoints=settings.endpoints.get(cloud, {}),
    )
    try:
        found = fetcher.find(cloud)
        return found is not None and not found.ready(context)
    except (CloudError, ImportError):
        return False
