"""The table of what dropping one constraint of a spec would open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .formatting import per_hour
from .result_table import ResultTable
from .tables import Column

if TYPE_CHECKING:
    from nbprov.planning import Relaxation

_COLUMNS = (
    Column("instead", flexible=True),
    Column("more places", right=True),
    Column("more offers", right=True),
    Column("from", right=True),
)


def relaxation_table(found: Sequence[Relaxation]) -> ResultTable:
    """Return the table: a row for each change that opens something, one line for the others."""
    opening = [r for r in found if r.offers]
    rows = [[r.change, f"{r.places:,}", f"{r.offers:,}", per_hour(r.hourly or 0)] for r in opening]
    closed = [r.change for r in found if not r.offers]
    lines = [f"these open nothing on their own: {'; '.join(closed)}"] if closed else []
    # Two constraints together may still exclude places, so a spec with constraints is never told
    # that none stands in the way.
    nothing = (
        "dropping any one constraint opens no place"
        if closed
        else "no single constraint stands in the way"
    )
    heading = "what dropping one constraint would open, each on its own:" if opening else nothing
    return ResultTable(heading, _COLUMNS, rows, lines, tuple(found))
