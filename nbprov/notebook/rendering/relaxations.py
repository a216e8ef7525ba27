"""What one constraint less would open, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .formatting import per_hour
from .result_table import Sheet
from .tables import Column

if TYPE_CHECKING:
    from nbprov.planning import Relaxation

_COLUMNS = (
    Column("instead", flexible=True),
    Column("more places", right=True),
    Column("more offers", right=True),
    Column("from", right=True),
)


def relax_sheet(found: Sequence[Relaxation]) -> Sheet:
    """Those that open something as rows, those that open nothing in a line."""
    opening = [r for r in found if r.offers]
    rows = [[r.change, f"{r.places:,}", f"{r.offers:,}", per_hour(r.hourly or 0)] for r in opening]
    closed = [r.change for r in found if not r.offers]
    lines = [f"opens nothing more, alone: {'; '.join(closed)}"] if closed else []
    # To say of a spec with constraints that none stands in the way would be wrong where it takes two of them less.
    nothing = (
        "no single constraint less opens a place"
        if closed
        else "no single constraint stands in the way"
    )
    heading = "one constraint less, each alone:" if opening else nothing
    return Sheet(heading, _COLUMNS, rows, lines, tuple(found))
