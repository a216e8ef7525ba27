"""The clusters table as static HTML and as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nbprov.model.clock import Instant, Seconds, short_duration
from nbprov.model.clusters import ClusterState, ClusterView
from nbprov.model.money import Micros, format_usd

from .formatting import (
    ATTEMPT_LOOKS,
    CLUSTER_LOOKS,
    DASH,
    SIMULATED,
    Look,
    format_place,
    format_utc,
)
from .guard_clocks import GuardClock, guard_clocks, guard_text
from .machine_load import Meter, meters
from .tables import Column, html_heading, html_lines, html_page, html_table, safe_text, text_table

_COLUMNS = (
    Column("name", flexible=True),
    Column("state", flexible=True),
    Column("place", flexible=True),
    Column("type", flexible=True),
    Column("nodes", right=True),
    Column("uptime", right=True),
    Column("cost so far", right=True),
    Column("$/h", right=True),
    Column("guards", flexible=True),
    Column("confirmed", right=True),
)

SAVED_CLUSTERS = 16
"""Rows in a notebook that is saved, where a panel has at most 50 kB."""

_ENDING = (ClusterState.ENDING, ClusterState.ENDED)


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """A row of the clusters table, in words.

    Attributes
    ----------
    uptime
        How long it ran so far; it grows while something is billed.
    hourly
        What it costs per hour now, in micros; 0 where nothing is billed.
    guards
        What will end it, and the notes on that, for a form that stays.
    clocks, notes
        The same for a page that counts the time down; no clocks where none run.
    can_stop, can_start, can_down
        Which commands its state allows. A cloud that cannot stop machines says so when asked.
    load
        What its machines do; empty where nobody asked them.
    """

    key: str
    name: str
    state: str
    look: Look
    gpus: str
    place: str
    instance_type: str
    market: str
    nodes: int
    uptime: Seconds
    ended: Instant | None
    cost: Micros
    hourly: Micros
    guards: str
    clocks: tuple[GuardClock, ...]
    notes: str
    confirmed: Instant | None
    reason: str
    simulated: bool
    can_stop: bool
    can_start: bool
    can_down: bool
    load: tuple[Meter, ...] = ()


def cluster_facts(view: ClusterView, now: Instant) -> ClusterFacts:
    """Put a cluster into words."""
    bought = view.candidate
    offer = bought.offer if bought is not None else None
    return ClusterFacts(
        key=view.cluster_id,
        name=view.name,
        state=view.state.value,
        look=CLUSTER_LOOKS[view.state],
        gpus=offer.gpus if offer is not None else "",
        place=format_place(offer.place) if offer is not None else DASH,
        instance_type=offer.instance_type if offer is not None else DASH,
        market=offer.market.value if offer is not None else "",
        nodes=len(view.instances) or (bought.count if bought is not None else 0),
        uptime=view.uptime,
        ended=view.ended,
        cost=view.cost,
        hourly=view.hourly_now,
        guards="; ".join([guard_text(view), *view.notes]),
        clocks=guard_clocks(view, now),
        notes="; ".join(view.notes),
        confirmed=view.confirmed,
        reason=_reason(view),
        simulated=view.simulated,
        can_stop=view.state is ClusterState.RUNNING,
        can_start=view.state is ClusterState.STOPPED,
        can_down=view.state not in _ENDING,
        load=meters(view.loads, offer),
    )


def _reason(view: ClusterView) -> str:
    is_tried = view.state is ClusterState.LAUNCHING and view.attempt is not None
    step = ATTEMPT_LOOKS[view.attempt].words if is_tried and view.attempt is not None else ""
    return "; ".join(part for part in (step, view.reason) if part)


def _rows(clusters: Sequence[ClusterFacts], now: Instant) -> list[list[str]]:
    return [
        [
            c.name,
            f"{c.look}: {c.reason}" if c.reason else str(c.look),
            c.place,
            f"{c.instance_type}{' spot' if c.market == 'spot' else ''}",
            str(c.nodes) if c.nodes else DASH,
            short_duration(c.uptime),
            format_usd(c.cost) + ("*" if c.simulated else ""),
            format_usd(c.hourly) if c.hourly else DASH,
            c.guards,
            DASH if c.confirmed is None else f"{short_duration(now - c.confirmed)} ago",
        ]
        for c in clusters
    ]


_COUNTED = {
    "launching": "launching",
    "waiting": "waiting for stock",
    "ending": "ending",
}
"""The states that a heading counts apart from clusters that are up."""


def clusters_count(
    clusters: Sequence[ClusterFacts], none: str, *, live: str = "", after: bool = False
) -> str:
    """Return how many clusters there are, and how many are on their way up or down.

    Parameters
    ----------
    none
        The text where there is none at all.
    live
        A word behind the number of clusters that are up.
    after
        Whether it stands behind another count, and needs no noun.
    """
    going = [c.state for c in clusters if c.ended is None]
    up = len(going) - sum(state in _COUNTED for state in going)
    parts = [f"{up} cluster{'' if up == 1 else 's'}{live}"] if up else []
    for state, words in _COUNTED.items():
        count = going.count(state)
        noun = "" if parts or after else " cluster" if count == 1 else " clusters"
        parts += [f"{count}{noun} {words}"] if count else []
    return ", ".join(parts) or none


def clusters_heading(clusters: Sequence[ClusterFacts]) -> str:
    """Return one line on all clusters: how many there are, and their cost per hour.

    What is being launched or ended counts too: it is billed until its cloud lists it no more.
    """
    if not clusters:
        return "no clusters"
    ending = [c for c in clusters if c.state == ClusterState.ENDING.value]
    others = [c for c in clusters if c not in ending]
    count = clusters_count(others, "0 clusters")
    parts = [] if ending and count == "0 clusters" else [f"{count}, {_per_hour(others)}"]
    parts += (
        [f"{clusters_count(ending, '', after=bool(parts))}, {_per_hour(ending)}"] if ending else []
    )
    return "; ".join(parts)


def _per_hour(clusters: Sequence[ClusterFacts]) -> str:
    paid = sum(c.hourly for c in clusters if not c.simulated)
    simulated = sum(c.hourly for c in clusters if c.simulated)
    parts = [f"{format_usd(paid)}/h"] if paid or not simulated else []
    parts += [f"{format_usd(simulated)}/h simulated"] if simulated else []
    return " and ".join(parts)


def _text_table(clusters: Sequence[ClusterFacts], now: Instant) -> list[str]:
    """Return the table, with the guards as lines below it because a terminal is narrow."""
    kept = [i for i, column in enumerate(_COLUMNS) if column.label != "guards"]
    rows = [[row[i] for i in kept] for row in _rows(clusters, now)]
    guards = [f"guards of {c.name}: {c.guards}" for c in clusters if c.can_down]
    return [*text_table([_COLUMNS[i] for i in kept], rows), *guards]


def _foot(clusters: Sequence[ClusterFacts], now: Instant) -> list[str]:
    return ([f"* {SIMULATED}"] if any(c.simulated for c in clusters) else []) + (
        [f"as of {format_utc(now)}"] if clusters else []
    )


def saved_clusters(clusters: Sequence[ClusterFacts]) -> tuple[list[ClusterFacts], str]:
    """Return the clusters of a saved form, and a line about the others; empty without any.

    Those that have ended are left out first. The line names no form of `%clusters`, since the saved
    form of `%clusters --all` is cut short too.
    """
    places = sorted(range(len(clusters)), key=lambda at: clusters[at].ended is not None)
    kept = [clusters[at] for at in sorted(places[:SAVED_CLUSTERS])]
    hidden = len(clusters) - len(kept)
    if not hidden:
        return kept, ""
    some = "1 more cluster is" if hidden == 1 else f"{hidden:,} more clusters are"
    return kept, f"{some} not shown; %nbprov history lists {'it' if hidden == 1 else 'them'}"


def clusters_html(clusters: Sequence[ClusterView], now: Instant) -> str:
    """Return the clusters as a static HTML table, without the last ones of a long list."""
    facts = [cluster_facts(c, now) for c in clusters]
    kept, others = saved_clusters(facts)
    table = html_table(_COLUMNS, _rows(kept, now)) if facts else ""
    lines = html_lines([others, *_foot(facts, now)])
    return html_page(html_heading(clusters_heading(facts)), table, lines)


def clusters_text(clusters: Sequence[ClusterView], now: Instant, *, is_saved: bool = False) -> str:
    """Return the clusters as aligned text; to be saved, as many of them as `clusters_html`."""
    facts = [cluster_facts(c, now) for c in clusters]
    kept, others = saved_clusters(facts) if is_saved else (facts, "")
    table = _text_table(kept, now) if facts else []
    lines = [clusters_heading(facts), *table, *([others] if others else []), *_foot(facts, now)]
    return safe_text("\n".join(lines))
