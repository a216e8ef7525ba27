"""When a machine may be asked for in the place of a lost one, and what may speak against it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from nbprov.model.clock import Instant, Seconds
from nbprov.model.clusters import AttemptState
from nbprov.model.failures import Cause
from nbprov.provisioning.ledger import ReplacementRow

FIRST_PAUSE: Seconds = 30.0
"""After a place refused a machine it is asked again this much later, doubled with each refusal."""

LAST_PAUSE: Seconds = 600.0
"""The longest such pause.

Spot capacity comes back within minutes or within hours, and a request costs nothing.
"""

SELDOM: Seconds = 1800.0
"""Between two requests where a person has to do something first."""

PERSONAL = frozenset(
    {Cause.CREDENTIALS, Cause.BALANCE, Cause.PERMISSION, Cause.BAD_REQUEST, Cause.NOT_OFFERED}
)
"""Refusals that do not pass by themselves.

Quota is none of them: a machine that was just lost counts against it for a while.
"""

MOST_BROKEN = 3
"""After this many machines in a row that were made and did not come up, no more are asked for.

Each of them is paid for, and another one would not come up either.
"""


class Obstacle(StrEnum):
    """What speaks against asking for a machine now."""

    SETUP_RUNS = "setup_runs"
    NEVER_SET_UP = "never_set_up"
    VALUES_MISSING = "values_missing"
    ACCOUNT_DIFFERS = "account_differs"
    NOT_RUNNING = "not_running"
    MACHINE_ENDING = "machine_ending"
    MACHINE_LOST = "machine_lost"
    HEAD_NOT_RUNNING = "head_not_running"
    MACHINES_SILENT = "machines_silent"
    GUARD_DUE = "guard_due"
    UNUSED = "unused"
    PRICE = "price"
    BUDGET = "budget"
    LIFETIME = "lifetime"


class NotNow(Exception):
    """No machine is asked for now; the message tells a person why.

    Parameters
    ----------
    obstacle
        The same for programs.
    data
        What else of it may change; plain JSON values.
    """

    def __init__(self, obstacle: Obstacle, words: str, **data: Any) -> None:
        super().__init__(words)
        self.obstacle, self.data = obstacle, data


def due_at(rows: Sequence[ReplacementRow]) -> Instant | None:
    """When the next machine may be asked for, by what became of those before it.

    None means that no more are asked for.
    """
    since = next((n for n in range(len(rows), 0, -1) if rows[n - 1].state is AttemptState.READY), 0)
    tried = [r for r in rows[since:] if r.failure is None or r.failure.cause is not Cause.CANCELLED]
    if not tried:
        return 0.0
    if sum(r.state is AttemptState.GONE for r in tried) >= MOST_BROKEN:
        return None
    last = tried[-1]
    cause = last.failure.cause if last.failure is not None else None
    pause = (
        SELDOM if cause in PERSONAL else min(LAST_PAUSE, FIRST_PAUSE * 2 ** min(len(tried) - 1, 16))
    )
    return (last.ended or last.created) + pause
