"""`%nbprov check`: which clouds can be used, as whom, and what to do about the others."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from nbprov.api import session
from nbprov.model.failures import RULES, Cause
from nbprov.model.launches import CheckResult
from nbprov.notebook.arguments import MagicParser
from nbprov.notebook.rendering.formatting import DASH
from nbprov.notebook.rendering.result_table import ResultTable
from nbprov.notebook.rendering.tables import Column, safe_text, text_table

_TRY_NETWORK = "check this computer's internet connection, then run %nbprov check again"

NEXT: Mapping[Cause, str] = {
    Cause.CREDENTIALS: "provide working credentials, see the message, then run %nbprov check again",
    Cause.TIMEOUT: _TRY_NETWORK,
    Cause.UNKNOWN_OUTCOME: _TRY_NETWORK,
    Cause.TRANSIENT: "run %nbprov check again in a minute",
    Cause.RATE_LIMIT: "run %nbprov check again in a minute",
    Cause.NOT_OFFERED: "none: this cloud cannot be used from here",
    Cause.BAD_REQUEST: "correct this cloud's settings, as the message says",
    Cause.UNKNOWN: "see the cloud's message in this row",
}
"""The next step for a failed check, where that of a failed launch does not fit."""

_COLUMNS = (
    Column("cloud"),
    Column("usable", flexible=True),
    Column("credentials", flexible=True),
    Column("account", flexible=True),
    Column("details", flexible=True),
)
_IN_TEXT = 4
"""How many of the columns fit a terminal; the others are printed in full below the table."""


def arguments(parser: MagicParser) -> None:
    """Add the arguments of `%nbprov check`."""
    parser.add_argument("cloud", nargs="*", help="only these clouds")


def run(shell: Any, arguments: argparse.Namespace, cell: str | None) -> Any:
    """Ask the clouds, and return the table of their answers."""
    here = session()
    return check_table(
        here.check(arguments.cloud or None), () if arguments.cloud else here.without_adapter()
    )


class CheckTable(ResultTable):
    """The table of checks. In text the long cells are lines below it, so that none is cut."""

    def __init__(self, results: Sequence[CheckResult], without_adapter: Sequence[str]) -> None:
        usable = sum(result.enabled for result in results)
        heading = f"{usable} of {len(results)} cloud{'' if len(results) == 1 else 's'} can be used"
        names = ", ".join(without_adapter)
        lines = [*_next_steps(results)]
        if names:
            lines.append(f"prices are known, but nothing can be launched there yet: {names}")
        super().__init__(
            heading, _COLUMNS, [_row(result) for result in results], lines, tuple(results)
        )

    def text(self) -> str:
        rows = [
            [row[0], "● yes" if result.enabled else "✕ no", *row[2:_IN_TEXT]]
            for row, result in zip(self.rows, self.data, strict=True)
        ]
        table = text_table(_COLUMNS[:_IN_TEXT], rows) if rows else []
        details = [line for result in self.data for line in _lines(result)]
        return safe_text("\n".join([self.heading, *table, *details, *self.lines]))


def check_table(results: Sequence[CheckResult], without_adapter: Sequence[str] = ()) -> CheckTable:
    """Return the table of the checks, one row per cloud, with the results as its data.

    Parameters
    ----------
    without_adapter
        Clouds with known prices on which nothing can be launched; one line names them.
    """
    return CheckTable(results, without_adapter)


def _row(result: CheckResult) -> list[str]:
    return [
        result.cloud,
        "● yes" if result.enabled else f"✕ {why_not(result)}",
        result.credential or DASH,
        result.account or DASH,
        "; ".join(result.details) or DASH,
    ]


def _lines(result: CheckResult) -> list[str]:
    wrong = [] if result.enabled else [why_not(result)]
    return [f"{result.cloud}: {line}" for line in (*wrong, *result.details)]


def _next_steps(results: Sequence[CheckResult]) -> list[str]:
    """A line for each next step, with all clouds that it is for."""
    steps: dict[str, list[str]] = {}
    for result in results:
        if not result.enabled:
            steps.setdefault(next_step(result), []).append(result.cloud)
    return [f"next for {', '.join(clouds)}: {step}" for step, clouds in steps.items()]


def why_not(result: CheckResult) -> str:
    """Return why a cloud cannot be used: the cause and the cloud's own message."""
    problem = result.problem
    if problem is not None and problem.cause is Cause.CREDENTIALS and problem.message.strip():
        # The message says whether credentials are missing or were refused; the cause does not.
        return problem.message.strip().splitlines()[0]
    return result.problem.sentence() if result.problem is not None else "not set up"


def next_step(result: CheckResult) -> str:
    """Return what the person can do about it."""
    if result.problem is None:
        return "provide credentials, then run %nbprov check again"
    cause = result.problem.cause
    return NEXT.get(cause, RULES[cause].advice)
