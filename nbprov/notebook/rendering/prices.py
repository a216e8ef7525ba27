"""The price table and the plan, as static HTML and as text."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from nbprov.api.reports import is_simulated
from nbprov.model.clock import Instant
from nbprov.model.offers import Offer, Plan
from nbprov.model.run_policies import ConfirmAbove
from nbprov.model.stock import Stock

from .formatting import DASH, candidate_words, nodes_words, per_hour, utc_words
from .price_data import Coded, TableData
from .tables import Column, html_heading, html_lines, html_page, html_table, more_rows, text_table

STATIC_ROWS = 20
"""Rows of a price table that a saved notebook or a terminal shows."""

_COLUMNS: dict[str, Column] = {
    "rank": Column("#", right=True),
    "gpu": Column("GPU"),
    "place": Column("place", flexible=True),
    "type": Column("type", flexible=True),
    "market": Column("market"),
    "hourly": Column("$/h", right=True),
    "total": Column("all nodes", right=True),
    "vcpus": Column("vCPU", right=True),
    "memory": Column("GiB", right=True),
    "gpu_memory": Column("GPU GiB", right=True),
    "stock": Column("stock"),
    "chance": Column("chance"),
    "why": Column("why here", flexible=True),
    "source": Column("source", flexible=True),
    "as_of": Column("price of"),
}
_TEXT_LEAVES_OUT = {"source", "as_of"}
"""What the text form says once, under the table: a terminal is too narrow for it on every line."""
_PLAN_LEAVES_OUT = {"gpu_memory"}
"""What gives way in the text of a plan: why a candidate stands there needs the room, and the GPU is named."""


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """What is said of a plan beside its table."""

    headline: str
    consent: str
    guards: str
    dropped: tuple[str, ...]
    notes: tuple[str, ...]
    simulated: bool

    def lines(self) -> list[str]:
        """The facts as lines under the table."""
        said = [self.consent, f"guards: {self.guards}"]
        said += [f"left out: {line}" for line in self.dropped]
        return [line for line in [*said, *self.notes] if line]


def consent_words(plan: Plan, race: int = 1) -> str:
    """The most that a launch may take: in a race that many attempts are on the bill at once. Empty where nothing can be launched."""
    dearest = plan.dearest
    if dearest is None and plan.spec.confirm_above == ConfirmAbove():
        dearest = plan.chosen
    if dearest is None:
        return ""  # nothing to take, or confirm_above passes all of it over
    offer, most = dearest.offer, min(race, len(plan.candidates))
    what = f"{nodes_words(dearest.count)}{offer.gpus if offer.accelerator else offer.instance_type}"
    place = f"{what} in {offer.cloud}/{offer.region}"
    if most > 1:
        return f"up to {per_hour(most * dearest.hourly)} while {most} race, then up to {per_hour(dearest.hourly)}: {place}"
    return f"up to {per_hour(dearest.hourly)}: {place}"


def plan_facts(plan: Plan, race: int = 1) -> PlanFacts:
    """Say what a plan offers, what Launch would consent to, what guards it, and what was left out."""
    count = len(plan.candidates)
    chosen = plan.chosen
    simulated = chosen is not None and is_simulated(chosen.offer)
    headline = "no offer satisfies the spec"
    if chosen is not None:
        headline = (
            f"{count:,} place{'s' if count > 1 else ''} to try, first {candidate_words(chosen)}"
        )
    consent = consent_words(plan, race)
    if consent:
        consent = f"may take {consent}{'; simulated, you pay $0' if simulated else ''}"
    guards = plan.spec.guards.words() + (" (default)" if plan.spec.guards.is_default else "")
    dropped = tuple(f"{d.count:,} {d.words}" for d in plan.dropped if d.count)
    remarks = tuple(r.message for r in plan.spec.remarks)
    return PlanFacts(headline, consent, guards, dropped, (*plan.notes, *remarks), simulated)


@dataclass(frozen=True, slots=True)
class _Shown:
    """The rows of a static table: the first ones, and what clouds that are not set up would offer.

    Attributes
    ----------
    off
        For each row, why its cloud cannot be used; empty where it can.
    left
        How many rows of the table are not among them.
    """

    keys: list[str]
    cells: list[list[str]]
    off: list[str]
    left: int


def _static_rows(data: TableData, limit: int, now: Instant) -> _Shown:
    """The first rows as cells, place in one column, and the columns that hold anything. A place that cannot be had stands in brackets."""
    today, stamp = _today(now), now or time.time()
    rows, off = [], []
    head = min(limit, data.rows - data.tail)
    for i in [*range(head), *range(data.rows - data.tail, data.rows)]:
        cells = data.cells(i, today, stamp)
        cells["as_of"] = _raw_date(data, i) or DASH  # an age would be wrong the day after
        zone, region = cells.pop("zone", DASH), cells.pop("region", DASH)
        finest = [zone] if zone.startswith(region) and zone != DASH else [region, zone]
        place = "/".join(p for p in (cells.pop("cloud", DASH), *finest) if p != DASH) or DASH
        why = cells.pop("off", DASH).removeprefix(DASH)
        cells["place"] = f"({place})" if why else place
        off.append(f"not set up: {why}" if why else "")
        rows.append(cells)
    keys = [k for k in _COLUMNS if any(row.get(k, DASH) not in (DASH, "") for row in rows)]
    return _Shown(keys, [[row.get(k, DASH) for k in keys] for row in rows], off, data.total - head)


def off_lines(off: Mapping[str, str], *, how: str = "in brackets") -> list[str]:
    """Who is not set up and why, in one line; clouds of one reason together. `how` their rows are told apart.

    Examples
    --------
    >>> off_lines({"aws": "no credentials", "gcp": "no adapter yet", "vast": "no adapter yet"})
    ['in brackets, not set up: aws (no credentials); gcp, vast (no adapter yet)']
    """
    by_reason: dict[str, list[str]] = {}
    for cloud in sorted(off):
        by_reason.setdefault(off[cloud], []).append(cloud)
    said = "; ".join(f"{', '.join(clouds)} ({reason})" for reason, clouds in by_reason.items())
    return [f"{how}, not set up: {said}"] if said else []


def _as_of(data: TableData, rows: int) -> str:
    """The sources and dates of the prices shown, in one line."""
    columns = {c.key: c for c in data.columns}
    if not {"source", "as_of"} <= columns.keys():
        return ""
    shown = range(min(rows, data.rows - data.tail))
    far = date.min  # a date far before any price: ages are not wanted here, the dates are
    sources = sorted({columns["source"].cell(i, far) for i in shown} - {DASH})
    dates = sorted({_raw_date(data, i) for i in shown} - {""})
    when = f"{dates[0]} to {dates[-1]}" if len(dates) > 1 else "".join(dates)
    said = ", ".join(sources[:4]) + (f" and {len(sources) - 4} more" if len(sources) > 4 else "")
    return f"prices: {said or 'source unknown'}{f', of {when}' if when else ''}" if shown else ""


def _raw_date(data: TableData, row: int) -> str:
    values = next((c.values for c in data.columns if c.key == "as_of"), None)
    return str(values.words[int(values.codes[row])]) if isinstance(values, Coded) else ""


def table_html(
    data: TableData,
    *,
    heading: str = "",
    now: Instant = 0.0,
    rows: int = STATIC_ROWS,
    below: Sequence[str] = (),
) -> str:
    """The first rows of a price table as static HTML, with what was left out, the sources and the time."""
    if not data.rows:
        return html_page(html_heading(heading or f"no {data.noun}s"), html_lines(below))
    shown = _static_rows(data, rows, now)
    stamp = f"shown {utc_words(now)}" if now else ""
    lines = [more_rows(0, shown.left), *off_lines(data.off()), *below, _as_of(data, rows), stamp]
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
    """The first rows of a price table as aligned text, with what was left out, the sources and the time."""
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
        *off_lines(data.off()),
        *below,
        _as_of(data, rows),
    ]
    return "\n".join(line for line in lines if line)


def _today(now: Instant) -> date:
    return datetime.fromtimestamp(now, UTC).date() if now else datetime.now(UTC).date()


def offers_html(
    offers: Sequence[Offer],
    *,
    total: int | None = None,
    now: Instant = 0.0,
    rows: int = STATIC_ROWS,
    stock: Callable[[Offer], Stock | None] | None = None,
) -> str:
    """Offers as a static HTML table, in their order."""
    return table_html(
        TableData.from_offers(offers, stock=stock, limit=rows, total=total), now=now, rows=rows
    )


def offers_text(
    offers: Sequence[Offer],
    *,
    total: int | None = None,
    now: Instant = 0.0,
    rows: int = STATIC_ROWS,
    stock: Callable[[Offer], Stock | None] | None = None,
) -> str:
    """Offers as aligned text, in their order."""
    return table_text(
        TableData.from_offers(offers, stock=stock, limit=rows, total=total), now=now, rows=rows
    )


def plan_html(plan: Plan, *, rows: int = STATIC_ROWS, race: int = 1) -> str:
    """A plan as static HTML: its candidates in order, what Launch consents to, the guards, what was left out and by which rule."""
    facts = plan_facts(plan, race)
    data = TableData.from_plan(plan, limit=rows)
    return table_html(
        data, heading=facts.headline, now=plan.made_at, rows=rows, below=facts.lines()
    )


def plan_text(plan: Plan, *, rows: int = STATIC_ROWS, race: int = 1) -> str:
    """A plan as text: its candidates in order, what Launch consents to, the guards, what was left out and by which rule."""
    facts = plan_facts(plan, race)
    data = TableData.from_plan(plan, limit=rows)
    return table_text(
        data, heading=facts.headline, now=plan.made_at, rows=rows, below=facts.lines()
    )
