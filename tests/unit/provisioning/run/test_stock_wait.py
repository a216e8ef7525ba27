"""Waiting for stock: when a run waits, when it tries again, what ends it. Time is simulated."""

from __future__ import annotations

import pytest
from failover_world import EPOCH, World
from provisioning_samples import candidate, zones

from nbprov.model.blocks import Block
from nbprov.model.clusters import RunState
from nbprov.model.failures import HOUR, MINUTE, Cause, Failure
from nbprov.provisioning.run.candidate_queue import SKIPS, CandidateQueue, UnrankedCandidates
from nbprov.provisioning.run.events import (
    BeginPass,
    BlocksRead,
    Finish,
    Prolonged,
    Replan,
    Replanned,
    RunStarted,
    Submit,
)
from nbprov.provisioning.run.failover import Failover
from nbprov.provisioning.run.waiting.stock_wait import LEAST_PAUSE, StockWait

SOLD_OUT = Failure(Cause.CAPACITY, "none left")


def waiting(*names: str, wait: float = 2 * HOUR, failure: Failure = SOLD_OUT) -> World:
    """A run whose places have all refused."""
    world = World(zones(*names), wait=wait)
    world.start()
    refuse_all(world, failure)
    return world


def refuse_all(world: World, failure: Failure = SOLD_OUT) -> None:
    """Every place that is asked refuses."""
    while world.busy():
        world.refuse(world.busy()[0], failure)


@pytest.mark.parametrize("cause", [Cause.CAPACITY, Cause.SPOT, Cause.QUOTA])
def test_what_time_mends_is_waited_for(cause: Cause) -> None:
    world = waiting("a", "b", failure=Failure(cause))
    assert world.resting
    assert world.finish is None
    assert world.machine.stock_wait.passes == 1


NEVER_BACK = (Cause.CREDENTIALS, Cause.BALANCE, Cause.PERMISSION, Cause.BAD_REQUEST)


@pytest.mark.parametrize("cause", NEVER_BACK)
def test_a_refusal_that_time_does_not_mend_ends_a_wait_for_nothing_else(cause: Cause) -> None:
    world = World([candidate(0, cloud="a"), candidate(1, cloud="b")], wait=HOUR)
    world.start()
    world.refuse(world.busy()[0], SOLD_OUT)
    world.refuse(world.busy()[0], Failure(cause, "no"))
    assert world.resting, "the stock of the other cloud may come back"
    world.pass_time(LEAST_PAUSE)
    assert [world.deeds[t].candidate.offer.cloud for t in world.busy()] == ["a"]
    world.refuse(world.busy()[0], Failure(cause, "no"))
    assert world.finish is not None, "nothing is left that could come back"
    assert world.finish.state is RunState.FAILED


def test_a_machine_that_was_bought_and_did_not_work_is_not_bought_with_every_pass() -> None:
    world = World(zones("a"), wait=HOUR)
    world.start()
    token = world.busy()[0]
    world.take_note(token)
    world.make(token)
    world.answer(token)
    world.answer(token, Failure(Cause.UNHEALTHY, "no GPU"))
    world.answer(token)
    assert world.finish is not None


def test_without_a_wait_one_pass_is_all() -> None:
    assert waiting("a", "b", wait=0.0).finish is not None


def test_its_own_blocks_do_not_keep_a_run_from_trying_again() -> None:
    world = waiting("a", "b")
    world.pass_time(LEAST_PAUSE - 1)
    assert not world.busy()
    world.pass_time(1)
    assert world.machine.stock_wait.passes == 2
    assert [world.deeds[t].candidate.offer.zone for t in world.busy()] == ["a"]
    refuse_all(world)
    tried = [world.deeds[t].candidate.offer.zone for t in world.deeds]
    assert tried == ["a", "b", "a", "b"], "each pass tries every place once"


def test_a_block_that_the_ledger_shows_again_stays_lifted() -> None:
    world = waiting("a")
    mine = tuple(world.machine.queue.blocks)
    world.pass_time(LEAST_PAUSE)
    refuse_all(world)
    world.pass_time(2 * LEAST_PAUSE - 1)
    world.tell(BlocksRead(mine))
    world.pass_time(1)
    assert world.machine.stock_wait.passes == 3
    assert len(world.busy()) == 1


def test_the_blocks_of_other_launches_hold_until_they_end() -> None:
    foreign = Block(zone="a", cause=Cause.CAPACITY, expires=EPOCH + 50)
    world = World(zones("a", "b"), wait=HOUR, blocks=[foreign])
    world.start()
    refuse_all(world)
    world.pass_time(LEAST_PAUSE)
    assert [world.deeds[t].candidate.offer.zone for t in world.busy()] == ["b"]
    refuse_all(world)
    world.pass_time(LEAST_PAUSE)
    assert [world.deeds[t].candidate.offer.zone for t in world.busy()] == ["a"]


def test_a_short_wait_tries_again_before_it_ends() -> None:
    assert _passes_of(2 * MINUTE) == [30.0, 90.0, 110.0]
    assert _passes_of(8.0) == [4.0]


def _passes_of(wait: float) -> list[float]:
    """When the passes of a run begin that finds no stock, but for the first."""
    world, begun = waiting("a", wait=wait), []
    while world.finish is None:
        assert world.wake is not None
        world.pass_time(world.wake - world.time)
        if world.busy():
            begun.append(world.time)
            refuse_all(world)
    assert wait <= world.time <= wait + 1
    return begun


def test_the_pauses_double_up_to_ten_minutes() -> None:
    world = World(zones("a"), wait=10 * HOUR)
    world.machine.repeats_of = lambda block: world.passes - 1
    world.start()
    begun = []
    for _ in range(7):
        refuse_all(world)
        assert world.wake is not None
        while not world.busy():
            world.pass_time(world.wake - world.time)
        begun.append(world.time)
    gaps = [round((b - a) / MINUTE, 1) for a, b in zip([0.0, *begun], begun, strict=False)]
    assert gaps == [0.5, 1, 2, 4, 8, 10, 10]


def test_a_short_block_does_not_make_passes_follow_each_other() -> None:
    world = World(
        zones("a"), wait=HOUR, blocks=[Block(zone="a", cause=Cause.CAPACITY, expires=EPOCH + 1)]
    )
    world.start()
    assert world.machine.stock_wait.next_pass == EPOCH + LEAST_PAUSE


def test_cleared_blocks_wake_it() -> None:
    world = waiting("a", "b")
    world.blocks.clear()
    world.tell(BlocksRead(()))
    assert world.machine.stock_wait.passes == 2
    assert len(world.busy()) == 1


def test_blocks_of_others_wake_nothing() -> None:
    world = waiting("a")
    mine = tuple(world.machine.queue.blocks)
    world.tell(
        BlocksRead((*mine, Block(cloud="elsewhere", cause=Cause.CAPACITY, expires=EPOCH + 9)))
    )
    assert world.resting


def test_it_gives_up_at_its_deadline() -> None:
    world = waiting("a", wait=10 * MINUTE)
    for _ in range(100):
        if world.finish is not None:
            break
        refuse_all(world)
        if world.finish is None:
            world.pass_time(30)
    assert world.finish == Finish(RunState.FAILED)
    assert 10 * MINUTE <= world.time <= 10 * MINUTE + 30
    assert world.passes == 6


def test_a_wait_that_is_prolonged_ends_later_after_another_last_pass() -> None:
    world, begun = waiting("a", wait=2 * MINUTE), []
    while world.finish is None:
        assert world.wake is not None
        world.pass_time(world.wake - world.time)
        if world.busy():
            begun.append(world.time)
            refuse_all(world)
            if world.time == 110:  # what was the last pass
                world.wait = 4 * MINUTE
                world.tell(Prolonged(EPOCH + world.wait))
    assert 4 * MINUTE <= world.time <= 4 * MINUTE + 1
    assert begun == [30.0, 90.0, 110.0, 120.0, 230.0], "where it would have ended, and at the end"


def test_a_pass_that_goes_on_at_the_deadline_begins_nothing_more() -> None:
    world = waiting("a", "b", wait=200.0)
    world.pass_time(185)
    assert len(world.busy()) == 1
    world.pass_time(20)
    refuse_all(world)
    assert world.finish is not None
    assert len(world.tried) == 1


def test_a_cancel_is_instant() -> None:
    world = waiting("a", "b")
    world.cancel()
    assert world.finish == Finish(RunState.CANCELLED)


def test_what_is_found_in_a_later_pass_is_the_cluster() -> None:
    world = waiting("a")
    world.pass_time(3 * MINUTE)
    token = world.busy()[0]
    world.take_note(token)
    world.make(token)
    for _ in ("follow", "booting", "ssh", "agent"):
        world.answer(token)
    assert world.finish == Finish(RunState.READY)


# ---------------------------------------------------------------- planning again


def failover(count: int, **stock_wait: float) -> Failover:
    """A run over many places of one cloud, that can be planned again."""
    from failover_world import DEADLINES

    numbers = iter(range(1000))
    places = [candidate(i, zone=f"z{i}") for i in range(count)]
    return Failover(
        CandidateQueue(places, can_replan=True),
        lambda _: DEADLINES,
        lambda: f"t{next(numbers)}",
        stock_wait=StockWait(**stock_wait, least_pause=5.0),
    )


def test_many_blocked_places_are_planned_away_and_not_gone_through() -> None:
    machine = failover(5000)
    machine.queue.blocks = [Block(cloud="aws", cause=Cause.CREDENTIALS, expires=EPOCH + HOUR)]
    actions = machine.handle(RunStarted(), EPOCH, 0.0)
    assert actions == [Replan()]
    assert machine.queue._cursor == SKIPS
    actions = machine.handle(Replanned(UnrankedCandidates([candidate(0, cloud="gcp")])), EPOCH, 0.0)
    assert isinstance(actions[0], Submit)
    assert (actions[0].candidate.offer.cloud, actions[0].candidate.rank) == ("gcp", -1)


def test_where_no_plan_can_be_made_the_old_one_goes_on() -> None:
    machine = failover(SKIPS + 20)
    machine.queue.blocks = [
        Block(zone=f"z{i}", cause=Cause.CAPACITY, expires=EPOCH + HOUR) for i in range(SKIPS + 5)
    ]
    assert machine.handle(RunStarted(), EPOCH, 0.0) == [Replan()]
    actions = machine.handle(Replanned(None), EPOCH, 0.0)
    assert isinstance(actions[0], Submit)
    assert actions[0].candidate.offer.zone == f"z{SKIPS + 5}"


def test_a_new_plan_brings_back_nothing_that_was_tried_in_this_pass() -> None:
    machine = failover(1)
    machine.handle(RunStarted(), EPOCH, 0.0)
    machine.queue.replace_plan([candidate(0, zone="z0"), candidate(1, zone="new")])
    found = machine.queue.next(EPOCH, (), lambda block: None)
    assert found is not None
    assert found.offer.zone == "new"


def test_a_later_pass_plans_first_and_takes_nothing_dearer_than_agreed() -> None:
    machine = failover(1, until=EPOCH + HOUR)
    machine.queue.ceiling = 2_000_000
    machine.queue.blocks = [Block(cloud="aws", cause=Cause.CAPACITY, expires=EPOCH + 10)]
    machine.handle(RunStarted(), EPOCH, 0.0)
    actions = machine.handle(BlocksRead(()), EPOCH + 6, 6.0)
    assert actions[:2] == [BeginPass(2), Replan()]
    dearer = [candidate(0, zone="n", hourly=2_000_001), candidate(1, zone="m", hourly=2_000_000)]
    actions = machine.handle(Replanned(dearer), EPOCH + 6, 6.0)
    assert [a.candidate.offer.zone for a in actions if isinstance(a, Submit)] == ["m"]


def test_a_plan_that_cannot_be_made_is_asked_for_again_with_the_next_pass() -> None:
    places = CandidateQueue([], can_replan=True)
    assert places.begin_again()
    places.replace_plan(None)
    assert not places.is_planning
    assert places.next(EPOCH, (), lambda block: None) is None
    assert places.begin_again()
    places.replace_plan(zones("a"))
    assert places.next(EPOCH, (), lambda block: None) is not None


def test_a_clock_that_was_set_back_does_not_prolong_a_rest() -> None:
    stock_wait = StockWait(until=EPOCH + 8 * HOUR)
    stock_wait.rest(EPOCH)
    assert not stock_wait.is_due(EPOCH)
    assert not stock_wait.is_due(EPOCH + LEAST_PAUSE - 1)
    assert stock_wait.is_due(EPOCH + LEAST_PAUSE)
    assert stock_wait.is_due(EPOCH - HOUR)
    stock_wait.rest(EPOCH - HOUR)
    assert not stock_wait.is_due(EPOCH - HOUR)
