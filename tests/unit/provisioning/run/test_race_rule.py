"""The width of a race, when another place joins, what Launch agrees to, and the budget."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from failover_world import World
from provisioning_samples import candidate, zones

from nbprov.clouds.base import Capabilities
from nbprov.model.clusters import ClusterState, DesiredState
from nbprov.model.failures import Cause, Failure
from nbprov.model.guards import Autostop, Guards
from nbprov.model.launches import OnShutdown
from nbprov.model.money import Micros, usd
from nbprov.model.offers import Candidate, Plan
from nbprov.model.resources import Request
from nbprov.model.run_policies import ConfirmAbove, Race
from nbprov.model.spec import Spec
from nbprov.provisioning.ledger import ClusterRow, Ledger
from nbprov.provisioning.run.pricing.consent import budget_note, consent_to, total_note
from nbprov.provisioning.run.pricing.requote import beyond_agreed
from nbprov.provisioning.run.racing.race_rule import hedging_of, race_rule
from nbprov.provisioning.run.racing.usual_times import LEAST_ACCEPT, USUAL_ACCEPT, usual_accept
from nbprov.provisioning.supervision.guard_config import (
    guard_config,
    guard_notes,
    guards_from,
    kept,
    on_shutdown,
    share_words,
    shares_spent,
    stopped_until,
)

FIRST, SECOND = (f"{n:032x}" for n in (1, 2))
SOLD_OUT = Failure(Cause.CAPACITY, "none left")


def plan_of(*hourly: float, **spec: object) -> Plan:
    """A plan with these prices an hour."""
    made = [
        candidate(i, zone=f"z{i}", hourly=usd(price), count=int(str(spec.get("num_nodes", 1))))
        for i, price in enumerate(hourly)
    ]
    dearest = max(made, key=lambda c: c.hourly)
    return Plan(Spec(**spec), made, dearest=dearest)  # type: ignore[arg-type]


# ---------------------------------------------------------------- when a further place joins


def test_a_place_that_was_accepted_in_time_is_raced_by_none() -> None:
    world = World(zones("a", "b"), race=2, hedge=20.0)
    world.start()
    world.take_note(FIRST)
    world.make(FIRST)
    world.pass_time(19)
    world.answer(FIRST)
    world.pass_time(30)
    assert list(world.deeds) == [FIRST]


def test_a_place_that_does_not_answer_is_raced_by_one() -> None:
    world = World(zones("a", "b", "c"), race=3, hedge=20.0)
    world.start()
    world.take_note(FIRST)
    world.pass_time(19.9)
    assert list(world.deeds) == [FIRST]
    world.pass_time(0.1)
    assert list(world.deeds) == [FIRST, SECOND]
    world.take_note(SECOND)
    world.pass_time(19)
    assert list(world.deeds) == [FIRST, SECOND], "the third joins when the second is overdue too"


def test_with_a_hedge_a_race_goes_on_past_acceptance() -> None:
    world = World(zones("a", "b"), race=2, hedge=20.0, until_ready=True)
    world.start()
    world.take_note(FIRST)
    world.make(FIRST)
    world.answer(FIRST)
    world.pass_time(20)
    assert list(world.deeds) == [FIRST, SECOND]


def test_beside_a_machine_that_failed_and_is_being_ended_the_next_place_is_tried_at_once() -> None:
    world = World(zones("a", "b"), race=2, hedge=20.0)
    world.start()
    world.take_note(FIRST)
    world.make(FIRST)
    world.answer(FIRST)
    world.answer(FIRST, Failure(Cause.UNHEALTHY, "no GPU"))
    assert world.deeds[FIRST].task == "end"
    assert list(world.deeds) == [FIRST, SECOND]


def test_a_race_stays_in_its_tier() -> None:
    world = World([candidate(0, zone="a"), candidate(1, zone="b", tier=1)], race=2, hedge=0.0)
    world.start()
    assert list(world.deeds) == [FIRST]
    world.refuse(FIRST, SOLD_OUT)
    assert list(world.deeds) == [FIRST, SECOND]


def test_a_racer_that_the_budget_does_not_pay_waits_for_its_turn() -> None:
    world = World(zones("a", "b"), race=2, hedge=0.0)
    asked: list[tuple[int, str]] = []

    def affords(racing: object, beside: Candidate) -> bool:
        asked.append((len(list(racing)), beside.offer.zone))  # type: ignore[call-overload]
        return False

    world.machine.hedging = replace(world.machine.hedging, affords=affords)
    world.start()
    assert list(world.deeds) == [FIRST]
    assert asked == [(1, "b")]
    world.refuse(FIRST, SOLD_OUT)
    assert list(world.deeds) == [FIRST, SECOND], "alone it fits"


# ---------------------------------------------------------------- how wide


def usual(cloud: str) -> float:
    return 30.0


@pytest.mark.parametrize(
    ("race", "spec", "width"),
    [
        (Race(), {}, 2),
        (Race(1), {}, 1),
        (Race(3), {}, 3),
        (Race(9), {}, 3),
        (Race(3), {"num_nodes": 2}, 2),
        (Race(2), {"guards": Guards(budget=usd("0.66"))}, 1),
        (Race(2), {"guards": Guards(budget=usd("0.67"))}, 2),
    ],
    ids=[
        "default",
        "one",
        "three",
        "no more than places",
        "gangs",
        "over the budget",
        "in the budget",
    ],
)
def test_the_width(race: Race, spec: dict[str, object], width: int) -> None:
    rule = race_rule(race, plan_of(2, 2, 3, **spec), usual=usual)
    assert rule.width == width


def test_what_is_said_of_a_race() -> None:
    said = race_rule(Race(), plan_of(2, 3), usual=usual).words
    assert said == (
        "race: up to 2 places at once; a further one only beside one that has not answered"
        " within 30 s (aws's usual time);"
        " the first ready is kept, the others are ended"
    )
    assert (
        "a further one beside one that is not ready within 20 s;"
        in race_rule(Race(2, 20.0), plan_of(2, 3), usual=usual).words
    )
    assert "clusters at once" in race_rule(Race(2), plan_of(2, 3, num_nodes=2), usual=usual).words
    assert race_rule(Race(1), plan_of(2, 3), usual=usual).words == ""
    shrunk = race_rule(Race(2), plan_of(2, 2, guards=Guards(budget=usd("0.5"))), usual=usual).words
    assert shrunk == "race: one place at a time: 2 at once at $2.00/h do not fit the budget"


@pytest.mark.parametrize(("race", "until_ready"), [(Race(2, 4.0), True), (Race(2), False)])
def test_a_hedge_counts_until_a_place_is_ready(
    ledger: Ledger, race: Race, until_ready: bool
) -> None:
    plan = plan_of(2, 3)
    hedging = hedging_of(
        race_rule(race, plan, usual=usual), plan.spec, partial(usual_accept, ledger), lambda: 0
    )
    assert hedging.until_ready is until_ready


def test_the_usual_time_is_learnt_from_what_was_accepted(ledger: Ledger) -> None:
    assert usual_accept(ledger, "aws") == USUAL_ACCEPT
    with ledger.together() as db:
        for number, seconds in enumerate([40, 41, 42, 43, 44, 45, 46, 200]):
            ledger.observations.add(db, "attempt", candidate(number), "accepted", float(seconds))
        for _ in range(9):
            ledger.observations.add(db, "attempt", candidate(cloud="gcp"), "accepted", 0.2)
            ledger.observations.add(db, "attempt", candidate(cloud="azure"), "capacity", 99.0)
    assert usual_accept(ledger, "aws") == 46.0
    assert usual_accept(ledger, "gcp") == LEAST_ACCEPT
    assert usual_accept(ledger, "azure") == USUAL_ACCEPT


def test_the_budget_decides_with_what_was_spent(ledger: Ledger) -> None:
    spent: list[Micros] = [0]
    plan = plan_of(2, 2, guards=Guards(budget=usd(1)))
    rule = race_rule(Race(2), plan, usual=usual)
    hedging = hedging_of(rule, plan.spec, partial(usual_accept, ledger), lambda: spent[0])
    assert hedging.affords([plan.candidates[0]], plan.candidates[1])
    spent[0] = usd("0.34")
    assert not hedging.affords([plan.candidates[0]], plan.candidates[1])


# ---------------------------------------------------------------- consent


def test_without_conditions_launch_agrees_to_the_dearest_place_shown() -> None:
    consent = consent_to(plan_of(2, 5, 3))
    assert (consent.hourly, consent.passed_over, consent.words) == (usd(5), 0, "")


@pytest.mark.parametrize(
    ("confirm", "ceiling", "beyond"),
    [
        (ConfirmAbove(jump=0.2), usd("2.4"), 2),
        (ConfirmAbove(hourly=usd(3)), usd(3), 1),
        (ConfirmAbove(jump=2.0), usd(5), 0),
        (ConfirmAbove(jump=0.2, hourly=usd(1)), usd(1), 3),
    ],
)
def test_dearer_places_are_passed_over_and_said(
    confirm: ConfirmAbove, ceiling: Micros, beyond: int
) -> None:
    consent = consent_to(plan_of(2, 5, 3, confirm_above=confirm))
    assert (consent.hourly, consent.passed_over) == (ceiling, beyond)
    assert bool(consent.words) is bool(beyond)


def test_the_words_name_how_many_and_from_what_price() -> None:
    plan = plan_of(2, 5, 3, confirm_above=ConfirmAbove(jump=0.2))
    consent = consent_to(plan)
    assert (
        consent.words == "confirm_above: 2 places from $3.00/h on are passed over (beyond $2.40/h);"
        " --yes takes them too"
    )
    assert consent.plan.dearest == plan.candidates[0]
    assert consent_to(plan, agreed=True).hourly == usd(5)


def test_yes_agrees_to_the_caps_of_the_spec_and_to_no_more() -> None:
    capped = plan_of(2, 3, requests=(Request(max_hourly=usd(4)), Request(max_hourly=usd(6))))
    assert consent_to(capped, agreed=True).hourly == usd(6)
    assert consent_to(
        plan_of(2, 3, requests=(Request(max_hourly=usd(4)), Request())), agreed=True
    ).hourly == usd(3)


def test_a_total_follows_from_the_lifetime() -> None:
    spec = {"confirm_above": ConfirmAbove(total=usd(8)), "guards": Guards(max_lifetime=4 * 3600.0)}
    assert consent_to(plan_of(1, 5, 3, **spec)).hourly == usd(2)
    assert total_note(ConfirmAbove(total=usd(8)), Guards(max_lifetime=60.0)) == ""
    assert "cannot be foreseen" in total_note(ConfirmAbove(total=usd(8)), Guards())


# ---------------------------------------------------------------- guards


STOPPING = Autostop(600.0, down=False, down_after=3600.0)
FULL = Guards(STOPPING, budget=usd(10), is_default=False, warn=(0.5, 0.8), at_limit="stop")
CAN = Capabilities(stop=True, poweroff="nbprov-poweroff {mode} {reason}")


def test_what_the_ledger_keeps_of_the_guards_reads_back() -> None:
    machine = candidate()
    config = guard_config(FULL, CAN, machine, spent=usd(1))
    assert config.to_json()["budget"]["mode"] == "stop"
    assert guards_from(kept(config, FULL)) == FULL


def test_what_cannot_be_stopped_is_ended_at_the_limit() -> None:
    config = guard_config(FULL, Capabilities(stop=False), candidate())
    assert "mode" not in config.to_json()["budget"]
    assert on_shutdown(FULL, Capabilities(stop=False), candidate()) is OnShutdown.TERMINATE


def test_the_cloud_keeps_the_disk_for_the_limit_only_where_nothing_else_ends_the_machine() -> None:
    by_budget = Guards(None, budget=usd(10), at_limit="stop")
    assert on_shutdown(by_budget, CAN, candidate()) is OnShutdown.STOP
    assert (
        on_shutdown(replace(by_budget, at_limit="down"), CAN, candidate()) is OnShutdown.TERMINATE
    )
    assert (
        on_shutdown(replace(by_budget, autostop=Autostop(60.0, down=True)), CAN, candidate())
        is OnShutdown.TERMINATE
    )


def test_shares_of_the_budget_are_told_once_they_are_spent() -> None:
    assert shares_spent(FULL, usd("4.99")) == []
    told = [share_words(*spent, usd(8)) for spent in shares_spent(FULL, usd(8))]
    assert told == ["budget: 50% of $10.00 spent ($8.00)", "budget: 80% of $10.00 spent ($8.00)"]
    assert (
        budget_note(FULL, candidate())
        == "budget: $10.00 lasts 4 h 57 min at $2.00/h, 3 min for ending it kept back"
    )


def test_a_stopped_cluster_is_due_after_its_second_clock() -> None:
    row = ClusterRow(
        "c",
        "dev",
        "r",
        "t",
        ClusterState.STOPPED,
        DesiredState.STOPPED,
        candidate(),
        "",
        confirmed=1000.0,
        started=0.0,
        ended=None,
    )
    assert stopped_until(FULL, row) == 4600.0
    assert stopped_until(FULL, replace(row, state=ClusterState.RUNNING)) is None
    assert stopped_until(Guards(), row) is None
    assert any(
        "while none runs it stays stopped, and its disk on the bill" in note
        for note in guard_notes(FULL)
    )


def test_another_width_keeps_the_hedge_of_the_cell() -> None:
    assert Race(2, 4.0).widened(3, hedge=20.0) == Race(3, 4.0)
    assert Race().widened(3, hedge=20.0) == Race(3, 20.0)


def test_a_cap_is_shown_with_all_its_digits() -> None:
    capped = replace(candidate(), request=Request(max_hourly=usd("0.105")))
    assert beyond_agreed(capped, usd(100)).endswith("above the cap of $0.105")
