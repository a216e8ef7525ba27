"""The table of `%nbprov check`: which clouds can be used, as whom, and what to do about the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nbprov.model.failures import RULES, Cause
from nbprov.model.launches import CheckResult
from nbprov.notebook.rendering.formatting import DASH
from nbprov.notebook.rendering.result_table import Sheet
from nbprov.notebook.rendering.tables import Column, safe_text, text_table

NEXT: Mapping[Cause, str] = {
    Cause.CREDENTIALS: "give it credentials that work, as the message says, then run %nbprov check again",
    Cause.TIMEOUT: "see whether this computer reaches the internet, then run %nbprov check again",
    Cause.UNKNOWN_OUTCOME: "see whether this computer reaches the internet, then run %nbprov check again",
    Cause.TRANSIENT: "run %nbprov check again in a minute",
    Cause.RATE_LIMIT: "run %nbprov check again in a minute",
    Cause.NOT_OFFERED: "nothing to do: it cannot be used from here",
    Cause.BAD_REQUEST: "correct this cloud's settings as the message says",
    Cause.UNKNOWN: "read the cloud's message beside it",
}
"""The next step where that of a failed launch does not fit."""

_COLUMNS = (
    Column("cloud"),
    Column("usable", flexible=True),
    Column("credentials", flexible=True),
    Column("account", flexible=True),
    Column("details", flexible=True),
    Column("what to do next", flexible=True),
)
_IN_TEXT = 4
"""So many of the columns have room in a terminal; the others are lines below, in full."""


class CheckSheet(Sheet):
    """The table, and in text the longer cells as lines below it: a message that is cut helps nobody."""

    def __init__(self, results: Sequence[CheckResult], without_adapter: Sequence[str]) -> None:
        usable = sum(result.enabled for result in results)
        heading = f"{usable} of {len(results)} cloud{'' if len(results) == 1 else 's'} can be used"
        lines = (
            [f"prices only, nothing can be launched there yet: {', '.join(without_adapter)}"]
            if without_adapter
            else []
        )
        super().__init__(
            heading, _COLUMNS, [_row(result) for result in results], lines, tuple(results)
        )

    def text(self) -> str:
        rows = [
            [row[0], "● yes" if result.enabled else "✕ no", *row[2:_IN_TEXT]]
            for row, result in zip(self.rows, self.data, strict=True)
        ]
        table = text_table(_COLUMNS[:_IN_TEXT], rows) if rows else []
        told = [line for result in self.data for line in _lines(result)]
        return safe_text("\n".join([self.heading, *table, *told, *self.lines]))


def check_sheet(results: Sequence[CheckResult], without_adapter: Sequence[str] = ()) -> CheckSheet:
    """What the clouds' checks said, one row a cloud; the results are its data.

    Parameters
    ----------
    without_adapter
        Clouds whose prices are known and which nothing can be launched on: named in one line.
    """
    return CheckSheet(results, without_adapter)


def _row(result: CheckResult) -> list[str]:
    return [
        result.cloud,
        "● yes" if result.enabled else f"✕ {why_not(result)}",
        result.credential or DASH,
        result.account or DASH,
        "; ".join(result.details) or DASH,
        "" if result.enabled else next_step(result),
    ]


def _lines(result: CheckResult) -> list[str]:
    wrong = [] if result.enabled else [why_not(result), f"next: {next_step(result)}"]
    return [f"{result.cloud}: {line}" for line in (*wrong, *result.details)]


def why_not(result: CheckResult) -> str:
    """Why a cloud cannot be used: the cause in words, and the cloud's own message."""
    problem = result.problem
    if problem is not None and problem.cause is Cause.CREDENTIALS and problem.message.strip():
        return problem.message.strip().splitlines()[
            0
        ]  # whether there are none, or they were refused, the message knows better
    return result.problem.sentence() if result.problem is not None else "not set up"


def next_step(result: CheckResult) -> str:
    """What the person can do about it."""
    if result.problem is None:
        return "give it credentials, then run %nbprov check"
    cause = result.problem.cause
    return NEXT.get(cause, RULES[cause].advice)
