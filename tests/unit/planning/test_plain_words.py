"""Figures and suggestions as a person reads them."""

from __future__ import annotations

from nbprov.catalog.vocabulary.name_matching import close
from nbprov.machines.guard_status import guard_lines
from nbprov.model.money import format_difference, format_usd, usd
from nbprov.planning.lookup.resolved_request import nearest_names
from nbprov.remote.agent.messages import AgentStatus, GuardState


def test_a_difference_is_that_between_the_figures_shown() -> None:
    for cheap in range(3_300_000, 3_310_000, 500):
        for dear in range(3_480_000, 3_490_000, 500):
            shown = round(float(format_usd(dear)[1:]) - float(format_usd(cheap)[1:]), 2)
            assert float(format_difference(dear, cheap)[1:]) == shown
    assert format_difference(usd("0.0931"), usd("0.0921")) == "$0.0010"


def test_no_name_is_proposed_that_nobody_would_write() -> None:
    places = [", CN, AS", "us-east-1", "Texas, US, NA"]
    assert close("mars", places) == []
    assert nearest_names("cn as", places) == ()
    assert nearest_names("us-east1", places) == ("us-east-1",)


def test_a_limit_with_time_left_does_not_say_that_it_is_over() -> None:
    def lines(left: float) -> list[str]:
        lifetime = GuardState("lifetime", left, "terminate", "lifetime: 14400 s are over")
        status = AgentStatus.__new__(AgentStatus)
        for name, value in {
            "idle": 0.0,
            "active": ("a cell",),
            "guards": (lifetime,),
            "ending": None,
        }.items():
            object.__setattr__(status, name, value)
        return guard_lines(status)

    assert "lifetime: terminate in 4 h" in lines(14_400.0)
    assert "lifetime: terminate in 0 s (lifetime: 14400 s are over)" in lines(0.0)
