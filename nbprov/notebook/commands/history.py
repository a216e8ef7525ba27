"""`%nbprov history`: every launch, what it cost and why it ended."""

from __future__ import annotations

import argparse
from typing import Any

from nbprov.api import session
from nbprov.api.history import History, LaunchRecord
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
    nodes_words,
    per_hour,
    place_words,
    utc_words,
)
from nbprov.notebook.rendering.result_table import Sheet
from nbprov.notebook.rendering.tables import Column, more_rows, safe_text, text_table

LISTED = 100
"""Launches that a table holds; a DataFrame holds all."""

_COLUMNS = (
    Column("name", flexible=True),
    Column("started"),
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
    """The line of `%nbprov history`."""
    parser.add_argument("name", nargs="?", default="", help="only launches of this name")
    parser.add_argument(
        "--last",
        type=int,
        default=LISTED,
        metavar="N",
        help=f"the last N (default: {LISTED}); x = %%nbprov history has all",
    )


def run(shell: Any, arguments: argparse.Namespace, cell: str | None) -> Any:
    """The table, as the cell's value; with `x = %nbprov history` a pandas DataFrame."""
    here = session()
    if is_assigned(shell):
        return here.history(arguments.name).to_frame()
    found = here.history(arguments.name, limit=max(1, arguments.last))
    if not found:
        print(
            f"nothing called {arguments.name} has been launched"
            if arguments.name
            else "nothing has been launched yet"
        )
        return None
    return sheet(found)


class HistorySheet(Sheet):
    """The table; in text, where it is too wide, why each launch ended is a line below it."""

    def text(self) -> str:
        table = text_table(_COLUMNS[:-1], [row[:-1] for row in self.rows])
        ends = [f"{row[0]}, {row[1]}: {row[-1]}" for row in self.rows if row[-1] != DASH]
        return safe_text("\n".join([self.heading, *table, *ends, *self.lines]))


def sheet(found: History) -> Sheet:
    """The table of some launches."""
    paid = sum(row.cost for row in found if not row.simulated)
    heading = f"{len(found):,} launch{'' if len(found) == 1 else 'es'}; you paid {format_usd(paid)} for them, disks and traffic not counted"
    lines = [
        line
        for line in (more_rows(len(found), found.total), f"as of {utc_words(found.now)}")
        if line
    ]
    if any(row.simulated for row in found):
        lines.insert(0, f"* {SIMULATED}")
    return HistorySheet(heading, _COLUMNS, [_row(row, found.now) for row in found], lines, found)


def _row(row: LaunchRecord, now: Instant) -> list[str]:
    offer = row.candidate.offer if row.candidate is not None else None
    look = (
        CLUSTER_LOOKS[row.cluster]
        if row.cluster not in (None, ClusterState.ENDED)
        else RUN_LOOKS[row.state]
    )
    return [
        row.name,
        utc_words(row.started).removesuffix(" UTC"),
        str(look),
        short_duration(row.seconds(now)),
        format_usd(row.cost) + ("*" if row.simulated else ""),
        f"{row.attempts}" + (f" ({row.refused} ✕)" if row.refused else ""),
        f"{nodes_words(row.candidate.count)}{offer.instance_type}"
        if row.candidate is not None and offer is not None
        else DASH,
        place_words(offer.place) if offer is not None else DASH,
        per_hour(row.candidate.hourly).removesuffix("/h") if row.candidate is not None else DASH,
        row.reason or DASH,
    ]
