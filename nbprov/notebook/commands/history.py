"""`%nbprov history`: every launch, what it cost and why it ended."""

from __future__ import annotations

import argparse
from typing import Any

from nbprov.api import session
from nbprov.api.reports.history import History, LaunchRecord
from nbprov.model.clock import Instant, short_duration
from nbprov.model.clusters import ClusterState
from nbprov.model.money import format_usd
from nbprov.notebook.arguments import MagicParser
from nbprov.notebook.magics.prices import is_assigned
from nbprov.notebook.rendering.formatting import (
    CLUSTER_LOOKS,
    DASH,
    RUN_LOOKS,
    SIMULATED,
    format_place,
    format_utc,
    nodes_prefix,
    per_hour,
)
from nbprov.notebook.rendering.result_table import ResultTable
from nbprov.notebook.rendering.tables import Column, more_rows, safe_text, text_table
from nbprov.notebook.terminal import say

LISTED = 100
"""The most launches in the table; a DataFrame holds all."""

_COLUMNS = (
    Column("name", flexible=True),
    Column("started (UTC)"),
    Column("state", flexible=True),
    Column("lasted", right=True),
    Column("cost", right=True),
    Column("tries", right=True),
    Column("what", flexible=True),
    Column("place", flexible=True),
    Column("$/h", right=True),
    Column("why it ended", flexible=True),
)


def arguments(parser: MagicParser) -> None:
    """Add the arguments of `%nbprov history`."""
    parser.add_argument("name", nargs="?", default="", help="only launches of this name")
    parser.add_argument(
        "--last",
        type=int,
        default=LISTED,
        metavar="N",
        help=f"only the last N (default: {LISTED}); x = %%nbprov history has all",
    )


def run(shell: Any, arguments: argparse.Namespace, cell: str | None) -> Any:
    """Return the table; with `x = %nbprov history` return a pandas DataFrame."""
    here = session()
    if is_assigned(shell):
        return here.history(arguments.name).to_frame()
    found = here.history(arguments.name, limit=max(1, arguments.last))
    if not found:
        say(
            f"nothing called {arguments.name} has been launched"
            if arguments.name
            else "nothing has been launched yet"
        )
        return None
    return history_table(found)


class HistoryTable(ResultTable):
    """The table of launches. In text, why each launch ended is a line below the table."""

    def text(self) -> str:
        table = text_table(_COLUMNS[:-1], [row[:-1] for row in self.rows])
        ends = [f"{row[0]}, {row[1]}: {row[-1]}" for row in self.rows if row[-1] != DASH]
        return safe_text("\n".join([self.heading, *table, *ends, *self.lines]))


def history_table(found: History) -> ResultTable:
    """Return the table of some launches."""
    paid = sum(row.cost for row in found if not row.simulated)
    heading = (
        f"{len(found):,} launch{'' if len(found) == 1 else 'es'}; you paid {format_usd(paid)}"
        " for them, without disks and traffic"
    )
    lines = [
        line
        for line in (more_rows(len(found), found.total), f"as of {format_utc(found.now)}")
        if line
    ]
    if any(row.simulated for row in found):
        lines.insert(0, f"* {SIMULATED}")
    return HistoryTable(heading, _COLUMNS, [_row(row, found.now) for row in found], lines, found)


def _row(row: LaunchRecord, now: Instant) -> list[str]:
    offer = row.candidate.offer if row.candidate is not None else None
    look = (
        CLUSTER_LOOKS[row.cluster]
        if row.cluster not in (None, ClusterState.ENDED)
        else RUN_LOOKS[row.state]
    )
    return [
        row.name,
        format_utc(row.started).removesuffix(" UTC"),
        str(look),
        short_duration(row.seconds(now)),
        format_usd(row.cost) + ("*" if row.simulated else ""),
        f"{row.attempts}" + (f" ({row.refused} ✕)" if row.refused else ""),
        f"{nodes_prefix(row.candidate.count)}{offer.instance_type}"
        if row.candidate is not None and offer is not None
        else DASH,
        format_place(offer.place) if offer is not None else DASH,
        per_hour(row.candidate.hourly).removesuffix("/h") if row.candidate is not None else DASH,
        row.reason or DASH,
    ]
