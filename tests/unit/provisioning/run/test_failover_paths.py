"""Where a run goes after each cause of failure, one example each."""

from __future__ import annotations

from dataclasses import replace

import pytest
from failover_world import HELD, World
from provisioning_samples import DEADLINES, candidate, zones

from nbprov.model.clusters import AttemptState, RunState
from nbprov.model.failures import HOUR, MINUTE, Cause, Failure, Scope
from nbprov.model.offers import Plan
from nbprov.model.places import Market
from nbprov.model.spec import Spec
from nbprov.provisioning.run.attempt_transitions import BACKOFF_FIRST, LOOK_SECONDS, SAME_TRIES

FIRST, SECOND = f"{1:032x}", f"{2:032x}"


def _started(*args: object, **options: object) -> World:
    world = World(*args, **options)  # type: ignore[arg-type]
    world.start()
    return world


def _tried(world: World) -> list[str]:
    return [c.offer.zone for c in world.tried]


def _bring_up(world: World, token: str) -> None:
    world.take_note(token)
    world.make(token)
    for _ in ("accepted", "booting", "ssh", "agent"):
        world.answer(token)


def test_the_first_candidate_that_is_ready_is_kept() -> None:
    world = _started(zones("a", "b"))
    _bring_up(world, FIRST)
    assert world.winner == FIRST
    assert world.finish is not None
    assert world.finish.state is RunState.READY
    assert _tried(world) == ["a"]


@pytest.mark.parametrize("cause", [Cause.CAPACITY, Cause.NOT_OFFERED, Cause.UNKNOWN])
def test_a_place_without_stock_is_followed_by_the_next_zone(cause: Cause) -> None:
    world = _started(zones("a", "b"))
    world.refuse(FIRST, Failure(cause, "none left"))
    assert _tried(world) == ["a", "b"]
    assert world.blocks[0].zone == "a"


def test_quota_skips_the_region_for_its_family_only() -> None:
    offers = [
        candidate(0, zone="east-a"),
        candidate(1, zone="east-b"),
        candidate(2, zone="east-b", kind="cpu-1", family="cpu"),
        candidate(3, region="west", zone="west-a"),
    ]
    world = _started(offers)
    world.refuse(FIRST, Failure(Cause.QUOTA, "limit 8"))
    assert _tried(world) == ["east-a", "east-b"]
    assert world.tried[1].offer.instance_type == "cpu-1"
    world.refuse(SECOND, Failure(Cause.CAPACITY))
    assert _tried(world)[-1] == "west-a"


@pytest.mark.parametrize("cause", [Cause.CREDENTIALS, Cause.BALANCE, Cause.PERMISSION])
def test_a_refused_account_is_skipped_whole(cause: Cause) -> None:
    offers = [
        candidate(0, zone="a"),
        candidate(1, region="west", zone="w"),
        candidate(2, cloud="gcp", zone="g"),
    ]
    world = _started(offers)
    world.refuse(FIRST, Failure(cause, "no"))
    assert _tried(world) == ["a", "g"]


def test_what_no_place_would_take_stops_the_run_and_is_shown() -> None:
    world = _started(zones("a", "b"))
    failure = Failure(Cause.BAD_REQUEST, "no such option", scope=Scope.NOTHING)
    world.refuse(FIRST, failure)
    assert list(world.deeds) == [FIRST]
    assert world.finish is not None
    assert world.finish.failure == failure


@pytest.mark.parametrize("cause", [Cause.RATE_LIMIT, Cause.TRANSIENT])
def test_a_passing_fault_repeats_the_same_create_after_a_pause(cause: Cause) -> None:
    world = _started(zones("a", "b"))
    world.refuse(FIRST, Failure(cause))
    assert world.busy() == []
    world.pass_time(BACKOFF_FIRST / 2)
    assert world.busy() == []
    world.pass_time(BACKOFF_FIRST)
    assert world.deeds[FIRST].tries == 2
    assert world.busy() == [FIRST]
    assert _tried(world) == ["a"]
    _bring_up(world, FIRST)
    assert world.machine.attempts[FIRST].failure is None


def test_a_cloud_that_names_a_pause_is_obeyed() -> None:
    world = _started(zones("a"))
    world.refuse(FIRST, Failure(Cause.RATE_LIMIT, retry_after=33.0))
    world.pass_time(32.9)
    assert world.busy() == []
    world.pass_time(0.1)
    assert world.busy() == [FIRST]


def test_a_fault_that_does_not_pass_leaves_the_candidate() -> None:
    world = _started(zones("a", "b"))
    for _ in range(SAME_TRIES):
        world.refuse(FIRST, Failure(Cause.TRANSIENT))
        world.pass_time(MINUTE)
    assert _tried(world) == ["a", "b"]
    assert world.deeds[FIRST].tries == SAME_TRIES


def test_no_spot_capacity_leaves_the_other_market_of_the_zone_open() -> None:
    offers = [candidate(0, zone="a", market=Market.SPOT), candidate(1, zone="a")]
    world = _started(offers)
    world.refuse(FIRST, Failure(Cause.SPOT, "no spot"))
    assert [c.offer.market for c in world.tried] == [Market.SPOT, Market.ON_DEMAND]


def test_a_risen_price_is_not_paid_and_the_next_is_tried() -> None:
    world = _started(zones("a", "b"))
    world.withdraw(FIRST)
    assert _tried(world) == ["a", "b"]
    assert world.machine.attempts[FIRST].state is AttemptState.REFUSED
    assert world.blocks == []


@pytest.mark.parametrize(
    ("answers", "seconds"),
    [(0, DEADLINES.accepted), (1, DEADLINES.booting), (2, DEADLINES.ssh), (3, DEADLINES.agent)],
    ids=["accepted", "booting", "ssh", "agent"],
)
def test_each_phase_has_a_deadline_after_which_the_machine_is_ended_before_the_next_is_tried(
    answers: int, seconds: float
) -> None:
    world = _started(zones("a", "b"))
    world.take_note(FIRST)
    if answers:
        world.make(FIRST)
    for _ in range(answers):
        world.answer(FIRST)
    world.pass_time(seconds - 0.1)
    assert world.machine.attempts[FIRST].state is not AttemptState.ENDING
    world.pass_time(0.1)
    attempt = world.machine.attempts[FIRST]
    assert attempt.state is AttemptState.ENDING
    assert attempt.failure is not None
    assert attempt.failure.cause is Cause.TIMEOUT
    assert _tried(world) == ["a"]
    if not world.deeds[FIRST].decided:
        world.make(FIRST)
    world.answer(FIRST)
    assert attempt.state is AttemptState.GONE
    assert _tried(world) == ["a", "b"]


def test_a_machine_that_breaks_is_ended_and_confirmed_before_the_next_is_tried() -> None:
    world = _started(zones("a", "b"))
    world.take_note(FIRST)
    world.make(FIRST)
    world.answer(FIRST)
    world.answer(FIRST, Failure(Cause.UNHEALTHY, "no ssh"))
    assert world.deeds[FIRST].task == "end"
    assert _tried(world) == ["a"]
    world.answer(FIRST)
    assert _tried(world) == ["a", "b"]
    assert world.blocks[0].cause is Cause.UNHEALTHY


def test_half_a_gang_is_ended() -> None:
    world = _started([candidate(0, zone="a", count=3), candidate(1, zone="b", count=3)])
    world.take_note(FIRST)
    world.make(FIRST, 2)
    world.answer(FIRST)
    assert world.deeds[FIRST].task == "end"
    failure = world.machine.attempts[FIRST].failure
    assert failure is not None
    assert failure.message == "2 of 3 machines were made"
    world.answer(FIRST)
    assert _tried(world) == ["a", "b"]


@pytest.mark.parametrize("cancelled", [False, True])
def test_part_of_a_gang_that_was_held_in_vain_is_ended_with_its_cause(cancelled: bool) -> None:
    world = _started([candidate(0, zone="a", count=3), candidate(1, zone="b", count=3)])
    world.take_note(FIRST)
    world.make(FIRST, 1)
    if cancelled:
        world.cancel()
    world.answer(FIRST)
    assert world.deeds[FIRST].task == "end"
    assert world.machine.attempts[FIRST].failure == (
        Failure(Cause.CANCELLED, "you cancelled the launch") if cancelled else HELD
    )
    assert bool(world.blocks) is not cancelled
    world.answer(FIRST)
    assert _tried(world) == (["a"] if cancelled else ["a", "b"])


@pytest.mark.parametrize("arrived", [True, False])
def test_a_lost_answer_is_resolved_before_anything_else_starts(arrived: bool) -> None:
    world = _started(zones("a", "b"))
    world.lose(FIRST, arrived=arrived)
    world.pass_time(10 * MINUTE)
    assert world.busy() == [FIRST]
    assert _tried(world) == ["a"]
    if arrived:
        world.make(FIRST)
    world.answer(FIRST)
    assert _tried(world) == (["a"] if arrived else ["a", "b"])
    assert world.machine.attempts[FIRST].state is (
        AttemptState.BOOTING if arrived else AttemptState.ABSENT
    )


def test_a_cancel_ends_what_exists_and_waits_for_what_was_sent() -> None:
    world = _started(zones("a", "b", "c"), race=3)
    third = f"{3:032x}"
    world.take_note(FIRST)
    world.make(FIRST)
    world.answer(FIRST)
    world.take_note(SECOND)
    world.cancel()
    assert world.deeds[FIRST].task == "end"
    assert world.deeds[SECOND].task == "follow"
    assert world.deeds[third].task == "submit"
    world.refuse(third, Failure(Cause.RATE_LIMIT))
    assert world.machine.attempts[third].state is AttemptState.REFUSED
    world.make(SECOND)
    world.answer(SECOND)
    assert world.deeds[SECOND].task == "end"
    world.answer(FIRST)
    assert world.finish is None
    world.answer(SECOND)
    assert world.finish is not None
    assert world.finish.state is RunState.CANCELLED


def test_racers_join_one_by_one_and_losers_are_ended() -> None:
    world = _started(zones("a", "b", "c", "d"), race=2, hedge=5.0)
    assert _tried(world) == ["a"]
    world.pass_time(4.9)
    assert _tried(world) == ["a"]
    world.pass_time(0.2)
    assert _tried(world) == ["a", "b"]
    world.pass_time(60)
    assert _tried(world)[:2] == ["a", "b"]


def test_a_racer_that_failed_is_replaced_at_once() -> None:
    world = _started(zones("a", "b", "c", "d"), race=2, hedge=5.0)
    world.pass_time(5.1)
    assert _tried(world) == ["a", "b"]
    world.refuse(SECOND, Failure(Cause.CAPACITY))
    assert _tried(world) == ["a", "b", "c"]


def test_the_race_is_won_once() -> None:
    world = _started(zones("a", "b"), race=2)
    for token in (FIRST, SECOND):
        world.take_note(token)
        world.make(token)
        world.answer(token)
    for _ in ("booting", "ssh", "agent"):
        world.answer(SECOND)
    assert world.winner == SECOND
    assert world.deeds[FIRST].task == "end"
    assert world.finish is None
    world.cancel()
    assert world.winner == SECOND
    world.answer(FIRST)
    assert world.finish is not None
    assert world.finish.state is RunState.READY


def test_a_race_stays_within_one_tier() -> None:
    world = _started([candidate(0, zone="a", tier=0), candidate(1, zone="b", tier=1)], race=2)
    assert _tried(world) == ["a"]
    world.refuse(FIRST, Failure(Cause.CAPACITY))
    assert _tried(world) == ["a", "b"]


def test_nothing_on_sale_ends_at_once() -> None:
    world = _started([])
    assert world.finish is not None
    assert world.finish.state is RunState.FAILED


def test_a_cancel_before_launch_ends_the_run() -> None:
    world = World(zones("a"))
    world.cancel()
    assert world.finish is not None
    assert world.finish.state is RunState.CANCELLED
    assert world.tried == []


def test_repeats_double_the_time_of_a_block() -> None:
    world = World(zones("a"))
    world.machine.repeats_of = lambda _: 2
    world.start()
    world.refuse(FIRST, Failure(Cause.CAPACITY))
    assert world.blocks[0].expires - world.blocks[0].since == 12 * MINUTE


# ---------------------------------------------------------------- a dead kernel's run


def test_an_accepted_machine_of_a_dead_kernel_is_adopted() -> None:
    world = _started(zones("a", "b"))
    world.take_note(FIRST)
    world.make(FIRST)
    world.answer(FIRST)
    world.crash()
    assert world.deeds[FIRST].task == "booting"
    world.play_out()
    assert world.winner == FIRST


def test_what_a_dead_kernel_had_sent_is_followed_and_not_sent_again() -> None:
    world = _started(zones("a", "b"))
    world.take_note(FIRST)
    world.crash()
    assert world.deeds[FIRST].task == "follow"
    world.refuse(FIRST, Failure(Cause.RATE_LIMIT, retry_after=1.0))
    assert world.finish is not None
    assert world.finish.state is RunState.FAILED


def test_a_create_that_stays_undecided_is_given_up_by_the_next_kernel_too() -> None:
    world = _started(zones("a"))
    world.take_note(FIRST)
    world.crash()
    world.pass_time(DEADLINES.accepted)
    assert world.machine.attempts[FIRST].state is AttemptState.ENDING


def test_a_cancelled_launch_of_a_dead_kernel_is_ended() -> None:
    world = _started(zones("a"))
    world.take_note(FIRST)
    world.make(FIRST)
    world.answer(FIRST)
    world.cancelled = True
    world.crash()
    assert world.deeds[FIRST].task == "end"
    world.play_out()
    assert world.finish is not None
    assert world.finish.state is RunState.CANCELLED


@pytest.mark.parametrize("phase", ["sent", "booting", "ssh"])
def test_what_came_up_while_the_computer_slept_is_kept(phase: str) -> None:
    world = _started(zones("a", "b"))
    world.take_note(FIRST)
    world.make(FIRST)
    for _ in range(["sent", "booting", "ssh"].index(phase)):
        world.answer(FIRST)
    world.sleep(2 * HOUR)
    world.pass_time(LOOK_SECONDS / 2)
    while world.winner is None:
        world.answer(FIRST)
    assert _tried(world) == ["a"]


def test_what_did_not_come_up_while_the_computer_slept_is_given_up_after_a_look() -> None:
    world = _started(zones("a", "b"))
    world.take_note(FIRST)
    world.make(FIRST)
    world.answer(FIRST)
    world.sleep(2 * HOUR)
    world.pass_time(LOOK_SECONDS + 1)
    assert world.machine.attempts[FIRST].state is AttemptState.ENDING


def test_a_launch_for_which_nobody_pays_takes_no_place_that_is_paid() -> None:
    free, paid = zones("a", "b")
    free = replace(free, offer=replace(free.offer, source="simulated"))
    world = World([free, paid])
    world.machine.queue.is_simulated = True
    world.start()
    world.refuse(FIRST, Failure(Cause.CAPACITY, "none left"))
    assert _tried(world) == ["a"]
    assert world.finish is not None
    assert world.finish.state is RunState.FAILED


def test_a_plan_is_simulated_only_if_nobody_pays_for_any_of_its_places() -> None:
    free, paid = zones("a", "b")
    free = replace(free, offer=replace(free.offer, source="simulated"))
    named = replace(paid, offer=replace(paid.offer, source="your override simulated/aws.csv"))
    assert Plan(Spec(), (free,)).is_simulated
    assert not Plan(Spec(), (free, paid)).is_simulated
    assert not Plan(Spec(), (named,)).is_simulated
    assert not Plan(Spec(), ()).is_simulated
