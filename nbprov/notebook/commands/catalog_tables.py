"""The tables of `%nbprov catalog`, as HTML and as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from nbprov.catalog.refresh.price_diff import words
from nbprov.catalog.refresh.status import Outcome, RefreshStep
from nbprov.model.clock import Instant, short_duration
from nbprov.model.money import format_usd
from nbprov.notebook.rendering.formatting import DASH
from nbprov.notebook.rendering.result_table import ResultTable
from nbprov.notebook.rendering.tables import Column, more_rows

if TYPE_CHECKING:
    from nbprov.catalog import CloudInfo
    from nbprov.catalog.refresh import CloudStatus, Differences, Refreshed
    from nbprov.catalog.sources.overrides import Applied

SHOWN_CHANGES = 25
"""The most changes in a table of differences."""
NAME_WIDTH = 14
"""The width of the clouds' names, so that lines that come one by one are aligned."""

_MARKS = {
    Outcome.UPDATED: "● updated",
    Outcome.CURRENT: "● current",
    Outcome.EDITED: "▲ edited",
    Outcome.PASSED: "– skipped",
    Outcome.OFFLINE: "○ offline",
    Outcome.FAILED: "✕ failed",
    Outcome.STOPPED: "■ stopped",
}


def status_table(
    statuses: Sequence[CloudStatus], info: Callable[[str], CloudInfo | None], now: Instant
) -> ResultTable:
    """Return the table of each cloud's prices and their state."""
    columns = [
        Column("cloud"),
        Column("rows", right=True),
        Column("with GPU", right=True),
        Column("prices of"),
        Column("source", flexible=True),
        Column("refreshed"),
        Column("policy", flexible=True),
    ]
    rows, lines = [], []
    for status in statuses:
        held = info(status.cloud)
        numbers = (
            (f"{held.rows:,}", f"{held.gpu_rows:,}", _span(held.oldest, held.newest))
            if held
            else (DASH, DASH, DASH)
        )
        rows.append(
            [
                status.cloud,
                *numbers,
                status.source or DASH,
                _ago(status.fetched, now),
                _policy(status, now),
            ]
        )
        lines += [f"{status.cloud}: {line}" for line in _remarks(status, held)]
    return ResultTable("price catalogue", columns, rows, lines, statuses)


def _span(oldest: str, newest: str) -> str:
    return newest if oldest == newest else f"{oldest} – {newest}"


def _ago(instant: Instant, now: Instant) -> str:
    return f"{short_duration(max(0.0, now - instant))} ago" if instant else DASH


def _policy(status: CloudStatus, now: Instant) -> str:
    if status.next_refresh is None:
        return str(status.policy)
    left = status.next_refresh - now
    return f"{status.policy}, {'due' if left <= 0 else f'next in {short_duration(left)}'}"


def _remarks(status: CloudStatus, held: CloudInfo | None) -> list[str]:
    lines = []
    if status.edited:
        lines.append(
            f"{', '.join(status.edited)} was edited by hand and is not refreshed;"
            f" %nbprov catalog restore {status.cloud} undoes the edits"
        )
    lines += [_override(override) for override in (held.overrides if held else ())]
    lines += [words for words in ((held.error, held.passed_over) if held else ()) if words]
    if status.error:
        lines.append(f"last refresh failed: {status.error}")
    return lines + list(status.notes)


def _override(applied: Applied) -> str:
    counts = {"added": applied.added, "changed": applied.changed, "hidden": applied.hidden}
    done = ", ".join(f"{n:,} {kind}" for kind, n in counts.items() if n) or "matches no row"
    first = (
        f"; {applied.bad_lines:,} of its lines are not used; line {applied.bad[0].line}:"
        f" {applied.bad[0].message}"
        if applied.bad
        else ""
    )
    return f"override {applied.file}: {done}{first}"


def refresh_table(done: Refreshed) -> ResultTable:
    """Return the table of what a refresh did."""
    columns = [
        Column("cloud"),
        Column(""),
        Column("source"),
        Column("rows", right=True),
        *(Column(kind, right=True) for kind in ("up", "down", "new", "gone")),
        Column("message", flexible=True),
    ]
    rows, lines = [], []
    for cloud in done:
        counts = cloud.differences.counts()
        changed = [
            f"{counts[kind]:,}" if cloud.outcome is Outcome.UPDATED else ""
            for kind in ("up", "down", "new", "gone")
        ]
        rows.append(
            [
                cloud.cloud,
                _MARKS[cloud.outcome],
                cloud.source,
                f"{cloud.rows:,}" if cloud.rows else "",
                *changed,
                cloud.message,
            ]
        )
        lines += [f"{cloud.cloud}: {note}" for note in cloud.notes]
        if cloud.hint and not cloud.ok and cloud.outcome is not Outcome.OFFLINE:
            lines.append(f"{cloud.cloud}: next: {cloud.hint}")
        elif cloud.outcome is Outcome.EDITED:
            lines.append(f"{cloud.cloud}: {cloud.hint}")
    if done.is_offline:
        return ResultTable(done.sentence(), columns, [], [], done)
    return ResultTable(done.sentence(), columns, rows, lines, done)


def differences_table(
    differences: Differences, title: str, most: int = SHOWN_CHANGES
) -> ResultTable:
    """Return the table of price changes, the largest first."""
    columns = [
        Column("change"),
        Column("place", flexible=True),
        Column("type", flexible=True),
        Column("GPU"),
        Column("market"),
        Column("before", right=True),
        Column("after", right=True),
        Column("%", right=True),
    ]
    rows = []
    for change in differences[:most]:
        key, percent = change.key, change.percent
        place = "/".join(
            part
            for part in (key.cloud, key.zone if key.zone.startswith(key.region) else key.region)
            if part
        )
        gpu = f"{key.accelerator}:{key.devices:g}" if key.accelerator else ""
        rows.append(
            [
                change.kind.value,
                place,
                key.instance_type,
                gpu,
                key.market,
                DASH if change.before is None else format_usd(change.before),
                DASH if change.after is None else format_usd(change.after),
                "" if percent is None else f"{percent:+.1f}",
            ]
        )
    more = more_rows(len(rows), len(differences))
    lines = [f"{more}; to_frame() returns all"] if more else []
    return ResultTable(f"{title}: {words(differences.counts())}", columns, rows, lines, differences)


def progress_lines(steps: Mapping[str, RefreshStep]) -> list[str]:
    """Return the progress of a refresh, one line per cloud."""
    return [f"{cloud:<{NAME_WIDTH}}  {_step(step)}" for cloud, step in sorted(steps.items())]


def _step(step: RefreshStep) -> str:
    if step.result is not None:
        return f"{_MARKS[step.result.outcome]}  {step.result.sentence()}"
    if step.progress is None:
        return f"◐ {step.doing}"
    at = step.progress
    parts = [
        f"{at.done} of {at.total}" if at.total else "",
        at.what,
        f"{at.received / 1e6:.1f} MB" if at.received else "",
    ]
    return f"◐ {step.doing} {' · '.join(part for part in parts if part)}"
