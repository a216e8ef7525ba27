"""The price table and the plan, as static HTML and as text."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from nbprov.model.clock import Instant
from nbprov.model.offers import Plan
from nbprov.model.run_policies import ConfirmAbove

from .formatting import DASH, describe_candidate, exact_per_hour, format_utc, nodes_prefix
from .price_data import CodedColumn, TableData
from .tables import Column, html_heading, html_lines, html_page, html_table, more_rows, text_table

STATIC_ROWS = 20
"""Rows of a price table in a saved notebook or a terminal."""

_COLUMNS: dict[str, Column] = {
    "rank": Column("#", right=True),
    "gpu": Column("GPU"),
    "gpu_hourly": Column("$/GPU-h", right=True),
    "hourly": Column("$/h", right=True),
    "total": Column("all nodes", right=True),
    "other": Column("other market", right=True),
    "counts": Column("in one machine", flexible=True),
    "place": Column("place", flexible=True),
    "type": Column("type", flexible=True),
    "market": Column("market"),
    "each": Column("$/h each from", right=True),
    "vcpus": Column("vCPU", right=True),
    "memory": Column("GiB", right=True),
    "gpu_memory": Column("GPU GiB", right=True),
    "stock": Column("stock"),
    "chance": Column("chance"),
    "clouds": Column("clouds", flexible=True),
    "why": Column("why here", flexible=True),
    "source": Column("source", flexible=True, roomy=True),
    "as_of": Column("price of"),
}
_TEXT_LEAVES_OUT = {"source", "as_of", "other"}
"""Columns that the text form leaves out, because a terminal is narrow; a line below it tells the
source and the date."""
_PLAN_LEAVES_OUT = {"gpu_memory"}
"""Columns that the text of a plan drops to make room for the reason of each rank."""

PLAN_NOT_KEPT = "not kept, because an earlier kernel made it"


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """What is said about a plan beside its table.

    Attributes
    ----------
    preferred
        How many of its first places a person put there.
    """

    headline: str
    consent: str
    guards: str
    dropped: tuple[str, ...]
    notes: tuple[str, ...]
    simulated: bool
    preferred: int

    def lines(self) -> list[str]:
        """Return the facts as lines below the table."""
        lines = [self.consent, f"guards: {self.guards}"]
        lines += [f"left out: {line}" for line in self.dropped]
        return [line for line in [*lines, *self.notes] if line]


def consent_text(plan: Plan, race: int = 1) -> str:
    """Return the most that a launch may cost per hour; empty where nothing can be launched.

    A race is billed for several attempts at once until the first is ready.
    """
    dearest = plan.dearest
    if dearest is None and plan.spec.confirm_above == ConfirmAbove():
        dearest = plan.chosen
    if dearest is None:
        return ""  # there is no candidate, or confirm_above excludes all of them
    offer, most = dearest.offer, min(race, len(plan.candidates))
    what = (
        f"{nodes_prefix(dearest.count)}{offer.gpus if offer.accelerator else offer.instance_type}"
    )
    text = f"at most {exact_per_hour(dearest.hourly)} for {what} in {offer.cloud}/{offer.region}"
    if most > 1:
        both = exact_per_hour(most * dearest.hourly)
        text += f" ({both} for a moment if {most} places are tried at once)"
    return text


def plan_facts(plan: Plan, race: int = 1) -> PlanFacts:
    """Return what a plan offers, what Launch agrees to, its guards, and what was left out."""
    count = len(plan.candidates)
    chosen = plan.chosen
    simulated = plan.is_simulated
    headline = "no offer satisfies the spec" if plan.is_kept else PLAN_NOT_KEPT
    if chosen is not None:
        headline = (
            f"{count:,} place{'s' if count > 1 else ''} to try, first {describe_candidate(chosen)}"
        )
    consent = consent_text(plan, race)
    if consent:
        consent = f"Costs {consent}{'; simulated: you pay $0' if simulated else ''}"
    guards = plan.spec.guards.words() + (" (default)" if plan.spec.guards.is_default else "")
    dropped = tuple(f"{d.count:,} {d.words}" for d in plan.dropped if d.count)
    remarks = tuple(r.message for r in plan.spec.remarks)
    return PlanFacts(
        headline, consent, guards, dropped, (*plan.notes, *remarks), simulated, plan.preferred
    )


@dataclass(frozen=True, slots=True)
class _StaticRows:
    """The rows of a static table: the first ones, and offers of clouds that are not set up.

    Attributes
    ----------
    off
        For each row, why its cloud cannot be used; empty where it can.
    left
        How many rows of the table are not shown.
    """

    keys: list[str]
    cells: list[list[str]]
    off: list[str]
    left: int


def _static_rows(data: TableData, limit: int, now: Instant) -> _StaticRows:
    """Return the first rows as cells, with the place in one column and no empty columns.

    The place of a cloud that is not set up stands in brackets.
    """
    today, stamp = _today(now), now or time.time()
    rows, off = [], []
    head = min(limit, data.rows - data.tail)
    for i in [*range(head), *range(data.rows - data.tail, data.rows)]:
        cells = data.cells(i, today, stamp)
        cells["as_of"] = _raw_date(data, i) or DASH  # an age would be wrong tomorrow
        zone, region = cells.pop("zone", DASH), cells.pop("region", DASH)
        finest = [zone] if zone.startswith(region) and zone != DASH else [region, zone]
        place = "/".join(p for p in (cells.pop("cloud", DASH), *finest) if p != DASH) or DASH
        why = cells.pop("off", DASH).removeprefix(DASH)
        cells["place"] = f"({place})" if why else place
        off.append(f"not set up: {why}" if why else "")
        rows.append(cells)
    keys = [k for k in _COLUMNS if any(row.get(k, DASH) not in (DASH, "") for row in rows)]
    # With one GPU in each machine the price of a GPU only repeats that of the machine.
    if all(row.get("gpu_hourly", DASH) in (DASH, row.get("hourly")) for row in rows):
        keys = [k for k in keys if k != "gpu_hourly"]
    return _StaticRows(
        keys, [[row.get(k, DASH) for k in keys] for row in rows], off, data.total - head
    )


def off_lines(off: Mapping[str, str], *, in_brackets: bool = True) -> list[str]:
    """Return one line on the clouds that are not set up and why, grouped by reason.

    `in_brackets` says whether their rows are marked so.

    Examples
    --------
    >>> off_lines({"aws": "no credentials", "gcp": "no adapter yet", "vast": "no adapter yet"})
    ['clouds in brackets are not set up: aws (no credentials); gcp, vast (no adapter yet)']
    """
    by_reason: dict[str, list[str]] = {}
    for cloud in sorted(off):
        by_reason.setdefault(off[cloud], []).append(cloud)
    named = "; ".join(f"{', '.join(clouds)} ({reason})" for reason, clouds in by_reason.items())
    said = "clouds in brackets are not set up" if in_brackets else "not set up"
    return [f"{said}: {named}"] if named else []


def _as_of(data: TableData, rows: int) -> str:
    """Return one line on the sources and dates of the prices shown."""
    columns = {c.key: c for c in data.columns}
    if not {"source", "as_of"} <= columns.keys():
        return ""
    shown = range(min(rows, data.rows - data.tail))
    long_ago = date.min  # any date will do, since only the source is read
    sources = sorted({columns["source"].cell(i, long_ago) for i in shown} - {DASH})
    dates = sorted({_raw_date(data, i) for i in shown} - {""})
    when = f"{dates[0]} to {dates[-1]}" if len(dates) > 1 else "".join(dates)
    named = ", ".join(sources[:4]) + (f" and {len(sources) - 4} more" if len(sources) > 4 else "")
    dated = f", dated {when}" if when else ""
    return f"prices from {named or 'an unknown source'}{dated}" if shown else ""


def _raw_date(data: TableData, row: int) -> str:
    values = next((c.values for c in data.columns if c.key == "as_of"), None)
    return str(values.words[int(values.codes[row])]) if isinstance(values, CodedColumn) else ""


def table_html(
    data: TableData,
    *,
    heading: str = "",
    now: Instant = 0.0,
    rows: int = STATIC_ROWS,
    below: Sequence[str] = (),
) -> str:
    """Return the first rows of a price table as static HTML, with notes, sources and time."""
    if not data.rows:
        return html_page(html_heading(heading or f"no {data.noun}s"), html_lines(below))
    shown = _static_rows(data, rows, now)
    stamp = f"shown {format_utc(now)}" if now else ""
    lines = [more_rows(0, shown.left), *off_lines(data.off), *below, _as_of(data, rows), stamp]
    table = html_table([_COLUMNS[k] for k in shown.keys], shown.cells, off=shown.off)
    return html_page(html_heading(heading) if heading else "", table, html_lines(lines))


def table_text(
    data: TableData,
    *,
    heading: str = "",
    now: Instant = 0.0,
    rows: int = STATIC_ROWS,
    below: Sequence[str] = (),
) -> str:
    """Return the first rows of a price table as aligned text, with notes and sources."""
    if not data.rows:
        return "\n".join([heading or f"no {data.noun}s", *below])
    shown = _static_rows(data, rows, now)
    left_out = _TEXT_LEAVES_OUT | (_PLAN_LEAVES_OUT if "why" in shown.keys else set())
    kept = [i for i, k in enumerate(shown.keys) if k not in left_out]
    table = text_table(
        [_COLUMNS[shown.keys[i]] for i in kept], [[row[i] for i in kept] for row in shown.cells]
    )
    lines = [
        heading,
        *table,
        more_rows(0, shown.left),
        *off_lines(data.off),
        *below,
        _as_of(data, rows),
    ]
    return "\n".join(line for line in lines if line)


def _today(now: Instant) -> date:
    return datetime.fromtimestamp(now, UTC).date() if now else datetime.now(UTC).date()


def plan_html(plan: Plan, *, rows: int = STATIC_ROWS, race: int = 1) -> str:
    """Return a plan as static HTML: candidates, cost, guards, and what was left out."""
    facts = plan_facts(plan, race)
    data = TableData.from_plan(plan, limit=rows)
    return table_html(
        data, heading=facts.headline, now=plan.made_at, rows=rows, below=facts.lines()
    )


def plan_text(plan: Plan, *, rows: int = STATIC_ROWS, race: int = 1) -> str:
    """Return a plan as text: candidates, cost, guards, and what was left out."""
    facts = plan_facts(plan, race)
    data = TableData.from_plan(plan, limit=rows)
    return table_text(
        data, heading=facts.headline, now=plan.made_at, rows=rows, below=facts.lines()
    )
