"""Show the plan of a spec: its table, and the lines below it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from nbprov.api import Session, Terms
from nbprov.machines.files.output_targets import OutputFolders
from nbprov.model.offers import PLAN_ROWS, Plan
from nbprov.model.spec import Spec
from nbprov.notebook.panels import frontend
from nbprov.notebook.panels.displays import show
from nbprov.notebook.panels.price_table import PriceTable
from nbprov.notebook.rendering.price_data import TableData
from nbprov.notebook.rendering.prices import plan_facts
from nbprov.notebook.terminal import say

TRY_RELAX = "%%nbprov plan --relax shows what dropping one constraint would open"


def show_plan(
    here: Session,
    spec: Spec,
    title: str,
    *,
    agreed: bool = False,
    assume: Sequence[str] = (),
    name: str = "",
    outputs_to: str = "",
    env: Mapping[str, str] | None = None,
) -> Plan:
    """Show what a spec would try, what Launch would agree to, and what was left out and why.

    A live table is shown at once and reordered seconds later, when the clouds have reported their
    stock. Where the output cannot be renewed, the table is shown after the reports.
    """
    outputs = OutputFolders.agreed("", outputs_to, here.name_of(spec, name))
    terms = here.terms(here.plan(spec, assume=assume), agreed=agreed, outputs=outputs, env=env)
    is_live = frontend.current() is frontend.Frontend.WIDGETS
    display = show(_table(terms, title)) if is_live else None
    if not assume and here.ask_stock(terms.plan).stock:
        terms = here.terms(here.planned(spec), agreed=agreed, outputs=outputs, env=env)
        if display is not None:
            display.update(_table_data(terms))
            display.freeze()
    if display is None:
        show(_table(terms, title))
    if assume:
        say(
            f"planned as if these were set up: {', '.join(assume)};"
            " a launch uses only clouds that %nbprov check shows as usable"
        )
    for line in plan_lines(terms):
        say(line)
    return terms.plan


def _table(terms: Terms, title: str) -> PriceTable:
    return PriceTable(_table_data(terms), title=title, now=time.time())


def _table_data(terms: Terms) -> TableData:
    return TableData.from_plan(terms.plan, limit=PLAN_ROWS)


def plan_lines(terms: Terms) -> list[str]:
    """Return the lines below a plan's table."""
    plan = terms.plan
    lines: list[str] = []
    if plan.chosen is not None:
        facts = plan_facts(plan, terms.race)
        lines += [facts.headline, *([facts.consent] if facts.consent else [])]
        lines += [f"guards: {facts.guards}", *terms.notes]
    lines += [f"a launch would be refused: {terms.refusal}"] if terms.refusal else []
    lines += [f"note: {note}" for note in plan.notes]
    lines += [f"left out: {d.count:,} offers: {d.words}" for d in plan.dropped]
    return [_without_reasons(line, plan) for line in lines]


def _without_reasons(line: str, plan: Plan) -> str:
    """Return a line without why clouds are not set up, which stands below the table already."""
    for one in plan.unusable:
        line = line.replace(f"not set up: {one.reason}", "not set up")
    return line
