"""What clouds say of their stock.

Kept within bounds, read back, and what it does to blocks and to runs that wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from engine_world import EngineWorld
from manual_clock import ManualClock
from provisioning_samples import candidate, launch_row

from nbprov.market import SuccessModel
from nbprov.model.blocks import Block, block_after
from nbprov.model.clusters import AttemptState, RunState
from nbprov.model.errors import LedgerError
from nbprov.model.failures import Cause, Failure, Scope
from nbprov.model.stock import Pool, Stock, StockLevel
from nbprov.provisioning.engine import Engine
from nbprov.provisioning.ledger import Ledger, blocks
from nbprov.provisioning.ledger import observations as module
from nbprov.provisioning.ledger.blocks import LEAST_HELD
from nbprov.provisioning.ledger.observations import OBSERVATIONS_READ, PROBES_KEPT_SECONDS
from nbprov.provisioning.run.driver import RunDriver
from nbprov.provisioning.run.waiting.stock_wait import StockWait

EAST = candidate().offer.pool
SOLD_OUT = '[[stock]]\ntype = "small"\nleft = 0\n'


def _stock(ledger: Ledger, level: StockLevel, pool: Pool = EAST, *, ago: float = 0.0) -> Stock:
    return Stock(ledger.clock.now() - ago, pool, level)


def _kept(ledger: Ledger) -> int:
    row = ledger.store.row("SELECT count(*) FROM observations WHERE kind = 'probe'")
    assert row is not None
    return int(row[0])


# ---------------------------------------------------------------- what is kept


def test_the_last_word_of_each_pool_is_read_back(ledger: Ledger, clock: ManualClock) -> None:
    west = EAST._replace(region="west")
    ledger.observations.record_probes(
        [_stock(ledger, StockLevel.NONE), _stock(ledger, StockLevel.HIGH, west)], "me"
    )
    clock.advance(60)
    ledger.observations.record_probes([_stock(ledger, StockLevel.LOW)], "me")
    assert ledger.observations.probes(0.0) == [
        Stock(clock.now() - 60, west, StockLevel.HIGH),
        Stock(clock.now(), EAST, StockLevel.LOW),
    ]
    assert ledger.observations.probes(clock.now()) == [Stock(clock.now(), EAST, StockLevel.LOW)]
    assert _kept(ledger) == 3, "every probe is an observation"


def test_the_levels_of_a_day_are_the_last_words_of_its_periods(
    ledger: Ledger, clock: ManualClock
) -> None:
    west, hour = EAST._replace(region="west"), 3600.0
    observations, begun = ledger.observations, clock.now()
    observations.record_probes([_stock(ledger, StockLevel.HIGH)])
    clock.advance(10)
    observations.record_probes([_stock(ledger, StockLevel.LOW)])
    observations.record_probes([_stock(ledger, StockLevel.NONE)], count=8)
    clock.advance(2 * hour)
    observations.record_probes([_stock(ledger, StockLevel.NONE, west)])
    assert observations.levels(begun, hour, 4) == {
        EAST: [StockLevel.LOW, None, None, None],
        west: [None, None, StockLevel.NONE, None],
    }
    assert observations.levels(begun, hour, 2) == {EAST: [StockLevel.LOW, None]}
    assert observations.levels(clock.now(), hour, 1) == {west: [StockLevel.NONE]}


def test_what_a_cloud_told_another_account_is_left_out(ledger: Ledger, clock: ManualClock) -> None:
    """Such a report may be of that account's quota, which says nothing of this one."""
    observations, begun = ledger.observations, clock.now()
    other_cloud = EAST._replace(cloud="elsewhere")
    observations.record_probes([_stock(ledger, StockLevel.HIGH)], "mine")
    observations.record_probes([_stock(ledger, StockLevel.LOW, other_cloud)], "yours")
    clock.advance(10)
    observations.record_probes([_stock(ledger, StockLevel.NONE)], "yours")

    def told(**accounts: str) -> tuple[list[StockLevel | None], StockLevel]:
        """The level of the period and the last report, which agree."""
        probes = {s.pool: s.level for s in observations.probes(0.0, accounts)}
        levels = observations.levels(begun, 3600.0, 1, accounts)
        assert probes[other_cloud] is StockLevel.LOW, "only the named cloud's accounts count"
        return levels[EAST], probes[EAST]

    assert told(**{EAST.cloud: "mine"}) == ([StockLevel.HIGH], StockLevel.HIGH)
    assert told(**{EAST.cloud: "yours"}) == ([StockLevel.NONE], StockLevel.NONE)
    assert told() == told(**{EAST.cloud: ""}) == ([StockLevel.NONE], StockLevel.NONE)
    clock.advance(10)
    observations.record_probes([_stock(ledger, StockLevel.MEDIUM)], "")
    assert told(**{EAST.cloud: "mine"}) == ([StockLevel.MEDIUM], StockLevel.MEDIUM), (
        "whose it is was not known"
    )


def test_a_wide_pool_stays_wide(ledger: Ledger) -> None:
    wide = Pool("runpod", "EU-RO-1", "", "L40S", "")
    ledger.observations.record_probes([_stock(ledger, StockLevel.MEDIUM, wide)])
    assert [s.pool for s in ledger.observations.probes(0.0)] == [wide]


def test_probes_older_than_a_week_are_forgotten(ledger: Ledger, clock: ManualClock) -> None:
    ledger.observations.record_probes([_stock(ledger, StockLevel.NONE)])
    clock.advance(PROBES_KEPT_SECONDS + 1)
    ledger.observations.record_probes([_stock(ledger, StockLevel.HIGH, EAST._replace(zone="b"))])
    assert _kept(ledger) == 1


def test_of_very_many_the_latest_are_kept(
    ledger: Ledger, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PROBES_KEPT", 10)
    for n in range(30):
        ledger.observations.record_probes(
            [_stock(ledger, StockLevel.LOW, EAST._replace(zone=f"z{n}"))]
        )
        clock.advance(1)
        assert _kept(ledger) <= 10
    assert {s.pool.zone for s in ledger.observations.probes(0.0)} == {
        f"z{n}" for n in range(20, 30)
    }


def test_probes_push_no_attempt_out_of_what_a_plan_reads(ledger: Ledger) -> None:
    ledger.runs.open(
        "run-1", "dev", "name: dev", folder="", race=1, consent=5, state=RunState.LAUNCHING
    )
    ledger.launches.intend(launch_row("t1", candidate()))
    ledger.launches.failed("t1", Failure(Cause.CAPACITY, "none left"), AttemptState.REFUSED)
    pools = [EAST._replace(zone=f"z{n}") for n in range(OBSERVATIONS_READ + 1)]
    ledger.observations.record_probes([_stock(ledger, StockLevel.LOW, pool) for pool in pools])
    assert [seen.outcome for seen in ledger.observations.attempts(0.0)] == ["capacity"]


def test_a_probe_makes_a_chance(ledger: Ledger, clock: ManualClock) -> None:
    ledger.observations.record_probes([_stock(ledger, StockLevel.NONE)])
    now = clock.now()
    assert SuccessModel(stock=ledger.observations.probes(now - 300), now=now).success(
        EAST
    ) < SuccessModel(now=now).success(EAST)


# ---------------------------------------------------------------- blocks that a later word ends


def _blocked(
    ledger: Ledger, cause: Cause = Cause.CAPACITY, *, count: int = 1, scope: Scope | None = None
) -> Block:
    block = block_after(
        candidate(count=count), Failure(cause, "no", scope=scope), ledger.clock.now()
    )
    assert block is not None
    ledger.blocks.remember(block)
    return block


@pytest.mark.parametrize("cause", [Cause.CAPACITY, Cause.SPOT])
def test_a_later_word_of_stock_ends_a_block_and_its_repeats_stay_known(
    ledger: Ledger, clock: ManualClock, cause: Cause
) -> None:
    block = _blocked(ledger, cause)
    clock.advance(120)
    assert ledger.blocks.end_restocked([_stock(ledger, StockLevel.LOW)]) == 1
    assert ledger.blocks.standing() == []
    assert ledger.blocks.repeats(block) == 1, "so the next one holds for longer"


@pytest.mark.parametrize(
    "said",
    [
        lambda ledger: _stock(ledger, StockLevel.NONE),
        lambda ledger: _stock(ledger, StockLevel.HIGH, ago=120 - LEAST_HELD + 1),
        lambda ledger: _stock(ledger, StockLevel.HIGH, EAST._replace(zone="another")),
        lambda ledger: _stock(ledger, StockLevel.HIGH, EAST._replace(market="spot")),
        lambda ledger: _stock(ledger, StockLevel.HIGH, EAST._replace(cloud="gcp")),
    ],
    ids=["none", "said too soon after", "another zone", "another market", "another cloud"],
)
def test_what_does_not_contradict_a_block_leaves_it(
    ledger: Ledger, clock: ManualClock, said: Callable[[Ledger], Stock]
) -> None:
    _blocked(ledger)
    clock.advance(120)
    assert ledger.blocks.end_restocked([said(ledger)]) == 0
    assert len(ledger.blocks.standing()) == 1


@pytest.mark.parametrize(
    "cause", [Cause.QUOTA, Cause.UNHEALTHY, Cause.NOT_OFFERED, Cause.CREDENTIALS]
)
def test_stock_says_nothing_of_other_causes(
    ledger: Ledger, clock: ManualClock, cause: Cause
) -> None:
    _blocked(ledger, cause)
    clock.advance(120)
    assert ledger.blocks.end_restocked([_stock(ledger, StockLevel.HIGH)]) == 0


def test_a_word_for_one_machine_says_nothing_of_four(ledger: Ledger, clock: ManualClock) -> None:
    _blocked(ledger, count=4)
    clock.advance(120)
    assert ledger.blocks.end_restocked([_stock(ledger, StockLevel.HIGH)], 1) == 0
    assert ledger.blocks.end_restocked([_stock(ledger, StockLevel.HIGH)], 4) == 1


def test_a_word_of_a_whole_region_is_one_of_its_zones(ledger: Ledger, clock: ManualClock) -> None:
    _blocked(ledger)
    clock.advance(120)
    assert (
        ledger.blocks.end_restocked([_stock(ledger, StockLevel.HIGH, EAST._replace(zone=""))]) == 1
    )


def test_a_cloud_that_says_so_and_refuses_is_asked_less_and_less_often(
    ledger: Ledger, clock: ManualClock
) -> None:
    pauses = []
    for repeats in range(5):
        block = block_after(
            candidate(), Failure(Cause.CAPACITY, "no"), clock.now(), repeats=repeats
        )
        assert block is not None
        ledger.blocks.remember(block)
        waited = 0
        while not ledger.blocks.end_restocked([_stock(ledger, StockLevel.HIGH)]):
            clock.advance(10)
            waited += 10
        pauses.append(waited)
    assert pauses == [30, 60, 120, 240, 300]


# ---------------------------------------------------------------- runs that wait


def test_a_wait_hurries_but_never_below_its_least_pause() -> None:
    stock_wait = StockWait(until=1e6, least_pause=30.0, passes=4)
    stock_wait.hurry(0.0)
    assert not stock_wait.is_waiting
    stock_wait.meet(Block(cloud="c", cause=Cause.CAPACITY, expires=900.0))
    stock_wait.rest(100.0)
    assert stock_wait.next_pass == 340.0
    stock_wait.hurry(110.0)
    assert stock_wait.next_pass == 130.0
    stock_wait.hurry(400.0)
    assert stock_wait.next_pass == 130.0


def _waiting(world: EngineWorld) -> tuple[Engine, RunDriver]:
    engine = world.engine()
    engine.runs.least_pause = 60.0
    world.market(SOLD_OUT)
    driver = world.launch(engine, world.prepare(engine, text="wait: 1h"))
    world.until(lambda: driver.state is RunState.WAITING, "the wait")
    # The next pass is a minute away; one that is hurried may begin at once.
    driver.failover.stock_wait.least_pause = 0.0
    return engine, driver


def _pools(driver: RunDriver) -> list[Pool]:
    return [a.candidate.offer.pool for a in driver.view().attempts]


@pytest.mark.machine
def test_a_word_of_stock_wakes_a_run_that_waits_for_it(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, driver = _waiting(world)
    monkeypatch.setattr(blocks, "LEAST_HELD", 0.0)
    monkeypatch.setattr(blocks, "HELD_SHARE", 0.0)
    world.market('[[stock]]\nzone = "here-a"\nleft = 0\n')
    there = _pools(driver)[1]
    engine.stock_seen([Stock(engine.clock.now(), there, StockLevel.LOW)], "test")
    assert world.finish(driver) is RunState.READY
    assert driver.view().attempts[-1].candidate.offer.pool == there
    assert [s.pool for s in engine.ledger.observations.probes(0.0)] == [there]


@pytest.mark.machine
def test_no_stock_wakes_nobody(world: EngineWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, driver = _waiting(world)
    monkeypatch.setattr(blocks, "LEAST_HELD", 0.0)
    monkeypatch.setattr(blocks, "HELD_SHARE", 0.0)
    told: list[int] = []
    monkeypatch.setattr(engine.runs, "drivers", _Counted(engine.drivers, told))
    engine.stock_seen(
        [Stock(engine.clock.now(), pool, StockLevel.NONE) for pool in _pools(driver)], "test"
    )
    engine.stock_seen(
        [Stock(engine.clock.now(), Pool("other", "x", "", "big", ""), StockLevel.HIGH)], "test"
    )
    assert told == []
    assert driver.state is RunState.WAITING


class _Counted(dict[str, RunDriver]):
    """Drivers that note when somebody wants to wake them."""

    def __init__(self, drivers: dict[str, RunDriver], told: list[int]) -> None:
        super().__init__(drivers)
        self._told = told

    def values(self):  # type: ignore[no-untyped-def]
        self._told.append(1)
        return super().values()


@pytest.mark.machine
@pytest.mark.parametrize(("kind", "wakes"), [("small", True), ("big", False)])
def test_what_came_into_stock_where_nothing_was_tried_hurries_the_next_pass(
    world: EngineWorld, kind: str, wakes: bool
) -> None:
    engine, driver = _waiting(world)
    stock_wait = driver.failover.stock_wait
    assert stock_wait.next_pass is not None
    far = stock_wait.next_pass
    elsewhere = replace(
        driver.view().attempts[0].candidate.offer, zone="elsewhere", instance_type=kind
    )
    pool = elsewhere.pool
    engine.stock_seen([Stock(engine.clock.now(), pool, StockLevel.NONE)], "test")
    engine.stock_seen([Stock(engine.clock.now(), pool, StockLevel.HIGH)], "test")
    world.do(engine, asyncio.sleep(0))  # what was handed to the engine's thread before is done then
    world.until(driver.context.queue.empty, "what it was told is taken in")
    if wakes:
        world.until(lambda: stock_wait.passes > 1, "a further pass")
    else:
        assert (stock_wait.passes, stock_wait.next_pass) == (1, far)


@pytest.mark.machine
def test_a_ledger_that_cannot_be_written_stops_no_probe(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, driver = _waiting(world)

    def full(*_: object) -> None:
        raise LedgerError("the disk is full")

    monkeypatch.setattr(engine.ledger.observations, "record_probes", full)
    pool = _pools(driver)[0]
    engine.stock_seen([Stock(engine.clock.now(), pool, StockLevel.NONE)])
    engine.stock_seen([Stock(engine.clock.now(), pool, StockLevel.HIGH)])
    world.until(lambda: driver.failover.stock_wait.passes > 1, "it is woken all the same")


def test_attempts_are_read_by_their_index(ledger: Ledger) -> None:
    query = (
        "EXPLAIN QUERY PLAN SELECT * FROM observations WHERE kind = 'attempt' AND at >= 0"
        " ORDER BY at DESC, id DESC LIMIT 5"
    )
    assert "observations_attempts" in str([tuple(row) for row in ledger.store.rows(query)])
