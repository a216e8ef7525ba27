"""The badge of a remote cell: one quiet line that says where it ran and how long it took."""

from __future__ import annotations

import html
from typing import Any

from nbprov.api import session
from nbprov.model.errors import NbprovError
from nbprov.notebook.options import options_of

LONG_SECONDS = 1.0
"""A cell that took this long always gets a badge; a shorter one only where the place has changed
since the last badge."""

_STYLE = (
    "display:inline-block;font-size:smaller;opacity:.65;padding:0 .6em;"
    "border:1px solid currentColor;border-radius:1em"
)

_last: dict[str, str] = {}


def show_badge(
    shell: Any, name: str, seconds: float, *, mark: str, nodes: str = "head", ending: str = ""
) -> dict[str, str] | None:
    """Show the badge, as `%config Nbprov.badge` asks for it; return what was shown.

    Parameters
    ----------
    mark
        Stands in its HTML, so that a page can tell whether it has the badge of this run.
    ending
        How the cell ended if it did not succeed: `failed` or `interrupted`.
    """
    wish = options_of(shell).badge
    if wish is False:
        return None
    try:
        where = _where(name, nodes)
    except NbprovError:
        where = name  # the cluster is gone, which the cell's own error says
    is_new = _last.get(name) != where
    _last[name] = where
    if wish is not True and not is_new and seconds < LONG_SECONDS:
        return None
    text = " · ".join(filter(None, (where, _duration(seconds), ending)))
    words, mark = html.escape(text), html.escape(mark)
    shown = f'<div data-nbprov-cell="{mark}" style="{_STYLE}">{words}</div>'
    data = {"text/plain": text, "text/html": shown}
    shell.display_pub.publish(data=data, metadata={})
    return data


def _where(name: str, nodes: str) -> str:
    offer = session().engine.cluster(name).candidate.offer
    place = "/".join(filter(None, (offer.cloud, offer.region, offer.zone)))
    machine = (
        f"{offer.accelerator}:{offer.accelerator_count:g}"
        if offer.accelerator
        else offer.instance_type
    )
    noun = "node" if nodes.isdecimal() else "nodes"
    which = "" if nodes == "head" else f"{noun} {nodes}"
    return " · ".join(filter(None, (name, which, place, machine)))


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
