"""What the agent does at the budget's limit.

It ends the machine or stops it, in time for the end itself to be paid for.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from nbprov.model.guards import Guards as SpecGuards
from nbprov.model.money import usd
from nbprov.on_machine.agent.errors import RequestError
from nbprov.on_machine.agent.guards.config import check_guards
from nbprov.on_machine.agent.guards.guard_clocks import GuardClocks
from nbprov.remote.agent.config import BUDGET_RESERVE_SECONDS, GuardConfig


def told(at_limit: str) -> dict[str, object]:
    """What the agent is told of a budget of $2 for a machine of $3.60 an hour."""
    guards = SpecGuards(None, budget=usd(2), at_limit=at_limit)
    config = GuardConfig.of(guards, poweroff="true", hourly=usd("3.6"))
    assert GuardConfig.from_json(config.to_json()) == config
    return check_guards(config.to_json())


@pytest.mark.parametrize(("at_limit", "mode"), [("down", "terminate"), ("stop", "stop")])
def test_the_limit_ends_the_machine_as_the_spec_says_while_the_budget_pays_for_it(
    tmp_path: Path, at_limit: str, mode: str
) -> None:
    guards = GuardClocks(tmp_path, 0.0, 0.0, "boot")
    guards.set(told(at_limit))
    lasts = 2000.0 - BUDGET_RESERVE_SECONDS
    guards.tick(lasts - 1.0, 0.0, ["job train"])
    assert guards.due() is None
    guards.tick(lasts + 1.0, 0.0, ["job train"])
    due = guards.due()
    assert due is not None
    assert (due["guard"], due["mode"]) == ("budget", mode)
    assert due["spent_micros"] < usd(2), "the end itself is still to be paid"


def test_a_mode_that_means_nothing_is_refused() -> None:
    with pytest.raises(RequestError, match=r"budget\.mode"):
        check_guards(
            {"poweroff": "true", "budget": {"hourly_micros": 1, "limit_micros": 1, "mode": "sleep"}}
        )
