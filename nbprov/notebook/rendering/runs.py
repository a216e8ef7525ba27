"""One run as static HTML and as text."""

from __future__ import annotations

from pathlib import Path

from nbprov.model.clusters import RunState, RunView

from .formatting import DASH, format_cost
from .prices import plan_html, plan_text
from .run_facts import (
    LONGEST_MESSAGE,
    MOST_ATTEMPTS,
    SAVED_ATTEMPTS,
    AttemptFacts,
    RunFacts,
    run_facts,
)
from .run_headline import headline
from .tables import (
    Column,
    cut,
    html_heading,
    html_lines,
    html_page,
    html_preformatted,
    html_table,
    one_line,
    safe_text,
    text_heading,
    text_table,
)

PLAN_ROWS_WAITING = 10
"""Rows of the plan in the static forms while a run waits for Launch; afterwards the attempts tell
more than the plan."""

_TEXT_LEAVES_OUT = {"market", "cost"}
"""Columns without room in a terminal, where the reason matters more: spot is named beside the
type, and the costs are summed above the table."""

_COLUMNS = (
    Column("#", right=True),
    Column("place", flexible=True, unbroken=True),
    Column("type", flexible=True, unbroken=True),
    Column("market"),
    Column("$/h", right=True),
    Column("state"),
    Column("elapsed", right=True),
    Column("cost", right=True),
    Column("reason", flexible=True),
)


def run_html(view: RunView) -> str:
    """Return a run as static HTML: its state, cost, attempts with reasons, and result.

    A run without attempts shows its plan. Only the last attempts are there.
    """
    facts = run_facts(view, SAVED_ATTEMPTS)
    heading = html_heading(*headline(view, facts))
    above = html_lines(_lines_above(facts)) + html_preformatted("\n".join(facts.log))
    error = html_preformatted(facts.error)
    if not facts.attempts:
        plan = plan_html(view.plan, rows=PLAN_ROWS_WAITING, race=view.race)
        return html_page(heading, above, error, plan, html_lines(_notes(facts)))
    table = html_table(_COLUMNS, _rows(facts))
    return html_page(heading, above, table, error, html_lines(_lines_below(facts)))


def run_text(view: RunView, most: int = MOST_ATTEMPTS) -> str:
    """Return a run as text: its state, cost, attempts with reasons, and result.

    A run without attempts shows its plan.
    """
    facts = run_facts(view, most)
    heading = text_heading(headline(view, facts))
    lines = [*heading, *_lines_above(facts), *(f"    {line}" for line in facts.log)]
    if facts.attempts:
        lines += ["", *_text_table(facts), *_lines_below(facts)]
    else:
        lines += ["", plan_text(view.plan, rows=PLAN_ROWS_WAITING, race=view.race), *_notes(facts)]
    return safe_text("\n".join([*lines, *facts.error.splitlines()]))


def _rows(facts: RunFacts) -> list[list[str]]:
    return [
        [
            str(a.number),
            a.place,
            a.instance_type,
            a.market,
            a.price,
            str(a.look),
            a.elapsed(facts.now),
            format_cost(a.cost) if a.cost else DASH,
            _reason(a),
        ]
        for a in facts.attempts
    ]


def _reason(attempt: AttemptFacts) -> str:
    if not (attempt.reason and attempt.raw):
        return attempt.reason or DASH
    return f"{attempt.reason}: {cut(one_line(attempt.raw), LONGEST_MESSAGE)}"


def _lines_above(facts: RunFacts) -> list[str]:
    is_repeated = any(line.startswith(facts.message) for line in facts.summary)
    message = "" if is_repeated else facts.message
    # That of a run that is ready is a few words, and in the first line.
    is_long = facts.hint and facts.state != RunState.READY.value
    next_step = f"next: {facts.hint}" if is_long else ""
    return [line for line in [message, facts.waiting, *facts.summary, next_step] if line]


def _lines_below(facts: RunFacts) -> list[str]:
    waiting = [] if facts.is_final else [*facts.plan.lines(), *facts.notes]
    log = f"log: {_with_tilde(facts.log_path)}" if facts.log_path and facts.is_final else ""
    return [line for line in [facts.earlier, *waiting, log] if line]


def _notes(facts: RunFacts) -> list[str]:
    return [] if facts.is_final else list(facts.notes)


def _with_tilde(path: str) -> str:
    """Return the path with `~` for the home folder, so that a shared notebook names no user."""
    place, home = Path(path), Path.home()
    return str(Path("~") / place.relative_to(home)) if place.is_relative_to(home) else path


def _text_table(facts: RunFacts) -> list[str]:
    kept = [i for i, column in enumerate(_COLUMNS) if column.label not in _TEXT_LEAVES_OUT]
    kind, market = (
        next(i for i, c in enumerate(_COLUMNS) if c.label == label) for label in ("type", "market")
    )
    rows = _rows(facts)
    for row in rows:
        row[kind] += " spot" if row[market] == "spot" else ""
    return text_table([_COLUMNS[i] for i in kept], [[row[i] for i in kept] for row in rows])
