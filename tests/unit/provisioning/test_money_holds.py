"""What was agreed to holds at every later moment.

A start after a stop, another kernel's wish, a spec that cannot be read, a second clock.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from engine_world import EngineWorld

from nbprov.model.clusters import ClusterState, RunState
from nbprov.model.errors import NbprovError, UsageError
from nbprov.model.guards import Autostop, Guards
from nbprov.model.money import usd
from nbprov.provisioning.engine import Engine
from nbprov.provisioning.ledger import ClusterRow
from nbprov.provisioning.run.driver import RunDriver
from nbprov.provisioning.supervision.guard_config import guards_known
from nbprov.spec import parse

SOLD_OUT = '[[stock]]\ntype = "small"\nleft = 0\n'
SMALL = "resources: {cloud: local, instance_type: small}\n"


def dearer(hourly: float) -> str:
    """The first place at another price."""
    return f'[[prices]]\nzone = "here-a"\nhourly = {hourly}\n'


def stopped(
    world: EngineWorld, engine: Engine, *, max_hourly: str = "", text: str = ""
) -> ClusterRow:
    """A cluster of $3.60/h that was stopped; Launch agreed to at most $5.40/h."""
    driver = world.prepare(engine, max_hourly=usd(max_hourly) if max_hourly else None, text=text)
    world.launch(engine, driver)
    assert world.finish(driver) is RunState.READY
    world.do(engine, engine.lifecycle.stop(engine.cluster("dev")))
    return engine.cluster("dev")


@pytest.mark.parametrize(
    ("hourly", "cap", "words"),
    [
        (5.5, "", "the price is $5.50/h now, above the $5.40/h that Launch agreed to"),
        (4.5, "4", "the price is $4.50/h a node now, above the cap of $4.00"),
    ],
)
def test_a_stopped_cluster_that_became_too_dear_stays_stopped(
    world: EngineWorld, hourly: float, cap: str, words: str
) -> None:
    engine = world.engine()
    row = stopped(world, engine, max_hourly=cap)
    world.market(dearer(hourly))
    with pytest.raises(UsageError, match="stays stopped") as caught:
        world.do(engine, engine.lifecycle.start(row))
    assert words in caught.value.message
    assert engine.cluster("dev").state is ClusterState.STOPPED
    assert [m["state"] for m in world.alive()] == ["stopped"]
    assert engine.ledger.prices.hourly_now(row.token) == 0


def test_a_start_within_what_was_agreed_to_runs_at_the_price_of_now(world: EngineWorld) -> None:
    engine = world.engine()
    row = stopped(world, engine, text="budget: 50")
    world.market(dearer(5.0))
    world.do(engine, engine.lifecycle.start(row))
    assert engine.ledger.prices.hourly_now(row.token) == usd("5")
    assert engine.cluster("dev").candidate.hourly == usd("5")
    told = engine.ledger.guards.get(row.run_id)
    assert told is not None
    assert told[0]["budget"]["hourly_micros"] == usd("5")


def test_who_agrees_to_the_price_of_now_pays_it_up_to_the_cap_of_the_spec_that_is_run(
    world: EngineWorld,
) -> None:
    engine = world.engine()
    row = stopped(world, engine)
    world.market(dearer(6.0))
    capped = parse("resources: {cloud: local, instance_type: small, max_price: 5.9}")
    with pytest.raises(UsageError, match=r"above the cap of \$5\.90"):
        world.do(engine, engine.lifecycle.start(row, spec=capped, agreed=True))
    world.do(engine, engine.lifecycle.start(row, spec=parse(SMALL), agreed=True))
    assert engine.ledger.prices.hourly_now(row.token) == usd("6")


def test_a_cluster_whose_budget_is_spent_is_not_started_until_it_is_raised(
    world: EngineWorld,
) -> None:
    engine = world.engine()
    row = stopped(world, engine, text="budget: 5")
    with engine.ledger.together() as db:
        db.execute(
            "UPDATE price_segments SET started = started - 4680 WHERE run_id = ?", (row.run_id,)
        )
    with pytest.raises(UsageError, match=r"a budget of \$5\.00, \$4\.(6|7)\d of it spent"):
        world.do(engine, engine.lifecycle.start(row))
    world.do(engine, engine.lifecycle.start(row, spec=parse(SMALL + "budget: 20")))
    known = guards_known(engine.ledger, row.run_id)
    assert known is not None
    assert known.budget == usd("20")
    assert engine.cluster("dev").state is ClusterState.RUNNING


# ---------------------------------------------------------------- another kernel


def wait_in_vain(world: EngineWorld, engine: Engine) -> RunDriver:
    """A launch that waits, since nothing is in stock."""
    world.market(SOLD_OUT)
    driver = world.launch(engine, world.prepare(engine, text="wait: 1h"))
    world.until(lambda: driver.state is RunState.WAITING, "the wait")
    return driver


def test_a_wait_ends_at_once_where_another_kernel_asks_for_it(world: EngineWorld) -> None:
    engine, other = world.engine(), world.engine()
    driver = wait_in_vain(world, engine)
    other.ledger.runs.request_cancel(driver.run_id)
    assert world.finish(driver) is RunState.CANCELLED
    row = other.ledger.runs.get(driver.run_id)
    assert row is not None
    assert row.state is RunState.CANCELLED


def test_a_wait_whose_spec_cannot_be_read_buys_nothing(world: EngineWorld) -> None:
    engine = world.engine()
    driver = wait_in_vain(world, engine)
    with engine.ledger.together() as db:
        db.execute(
            "UPDATE runs SET spec = 'resources: {of_a_later_release: 1}' WHERE run_id = ?",
            (driver.run_id,),
        )
    world.abandon(engine)
    world.market()
    second = world.engine()
    said = world.take_up(second)
    assert "its spec cannot be read by this release of nbprov, so its wait ends here" in said
    row = second.ledger.runs.get(driver.run_id)
    assert row is not None
    assert row.state is RunState.FAILED
    assert world.alive() == []


# ---------------------------------------------------------------- the second clock


def test_what_was_started_a_moment_ago_is_not_ended_by_its_second_clock(world: EngineWorld) -> None:
    engine = world.engine()
    driver = world.prepare(engine)
    driver.context.progress.spec = replace(
        driver.spec,
        guards=Guards(Autostop(3600.0, down=False, down_after=7200.0), is_default=False),
    )
    world.launch(engine, driver)
    world.finish(driver)
    world.do(engine, engine.lifecycle.stop(engine.cluster("dev")))
    row = engine.cluster("dev")
    seen = replace(row, confirmed=(row.confirmed or 0.0) - 7300.0)
    world.do(engine, engine.lifecycle.start(row))

    async def look() -> None:
        engine.lifecycle.controller(seen).watch_money(
            seen
        )  # as it was listed before somebody started it

    world.do(engine, look())
    assert engine.cluster("dev").state is ClusterState.RUNNING


# ---------------------------------------------------------------- the webhook


@pytest.mark.parametrize(
    "address",
    [
        "file:///etc/passwd",
        "http://[bad",
        "https://",
        "http://a b/",
        "ftp://host/x",
        "http://127.0.0.1:1/KEY",
    ],
)
def test_a_webhook_that_cannot_be_told_costs_nobody_the_machine(
    world: EngineWorld, address: str
) -> None:
    engine = world.engine()
    driver = world.prepare(engine, text="wait: 1h")
    driver.context.progress.spec = replace(
        driver.spec, wait=replace(driver.spec.wait, webhook=address)
    )
    world.launch(engine, driver)
    assert world.finish(driver) is RunState.READY
    line = world.until(
        lambda: [x for x in driver.runlog.path.read_text().splitlines() if "webhook" in x],
        "the line",
    )[0]
    assert "told" in line
    assert address not in line
    assert "KEY" not in line


def test_a_launch_that_ends_in_nothing_raises_an_error_of_ours(world: EngineWorld) -> None:
    engine = world.engine()
    driver = wait_in_vain(world, engine)
    engine.thread.soon(driver.cancel)
    with pytest.raises(NbprovError, match="cancelled; nothing is left on the bill"):
        driver.ready.result(120)
