"""Where a cloud's prices come from when nobody has named a source.

They come from the cloud itself, or from a place that the user chose. The files that are hosted for
SkyPilot lie on a branch that its owners may change at any time, unsigned: they are fetched only
when a person names them, with `--source hosted` or under `[source]` in `catalog.toml`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

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


def passed_over(clouds: Iterable[str], settings: Settings, source: Source) -> dict[str, str]:
    """Return the clouds that a refresh of all leaves out, with the reason of each."""
    reasons = {}
    for cloud in clouds:
        if settings.policy(cloud).never:
            reasons[cloud] = f"its policy is never; %nbprov catalog refresh {cloud} does it"
        elif (
            source is settings.source(cloud) is Source.AUTO
            and automatic_source(settings, cloud) is None
        ):
            reasons[cloud] = (
                f"{what_is_lacking(settings, cloud)}; the hosted file is not signed:"
                f" %nbprov catalog refresh {cloud} --source hosted takes it"
            )
    return reasons
