"""Waits, budgets and second clocks on the `local` cloud.

What the ledger keeps of them, and what another kernel makes of it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from engine_world import EngineWorld

from nbprov.model.clusters import AttemptState, ClusterState, RunState
from nbprov.model.events import BUDGET_EVENTS
from nbprov.model.guards import Autostop, Guards
from nbprov.model.money import usd
from nbprov.model.offers import Plan
from nbprov.provisioning.engine import Engine
from nbprov.provisioning.run.driver import RunDriver
from nbprov.provisioning.supervision.guard_config import cluster_notes, guards_known
from nbprov.spec import parse

SOLD_OUT = '[[stock]]\ntype = "small"\nleft = 0\n'
WAIT = "wait: 1h"


def engine_that_plans(world: EngineWorld) -> Engine:
    """An engine that can plan again, as a session's can."""
    engine = world.engine()
    engine.hooks.replan = lambda spec, blocks: _plan(world, engine, spec, blocks)
    engine.runs.least_pause = 0.05
    return engine


def _plan(world: EngineWorld, engine: Engine, spec: Any, blocks: Any) -> Plan:
    made = world.plan(engine)[1].candidates
    left = [
        replace(c, request=spec.requests[0])
        for c in made
        if not any(b.is_live(engine.clock.now()) and b.matches(c) for b in blocks)
    ]
    return Plan(spec, left)


def wait_in_vain(world: EngineWorld, engine: Engine, text: str = WAIT) -> RunDriver:
    """A launch that waits, since nothing is in stock."""
    world.market(SOLD_OUT)
    driver = world.launch(engine, world.prepare(engine, text=text))
    world.until(lambda: driver.state is RunState.WAITING, "the wait")
    return driver


def test_a_wait_stands_in_the_ledger_with_its_deadline(world: EngineWorld) -> None:
    engine = engine_that_plans(world)
    driver = wait_in_vain(world, engine)
    row = engine.ledger.runs.get(driver.run_id)
    assert row is not None
    assert row.state is RunState.WAITING
    assert row.wait_deadline == pytest.approx(row.created + 3600.0, abs=5.0)
    assert row.consent == usd("5.4"), "the dearest place that Launch showed"
    view = driver.view()
    assert view.waiting is not None
    assert view.waiting.next_pass is not None
    assert view.cost == 0


def test_cleared_blocks_and_stock_end_it(world: EngineWorld) -> None:
    engine = engine_that_plans(world)
    driver = wait_in_vain(world, engine)
    world.market()
    assert engine.clear_blocks() == 3
    assert world.finish(driver) is RunState.READY
    assert [a.state for a in driver.view().attempts][-1] is AttemptState.READY
    assert driver.view().attempts[-1].candidate.rank == -1, (
        "it is of another plan than the one that is shown"
    )


def test_stock_that_returns_is_found_though_the_blocks_of_the_run_still_hold(
    world: EngineWorld,
) -> None:
    engine = engine_that_plans(world)
    driver = wait_in_vain(world, engine)
    assert len(engine.ledger.blocks.standing()) == 3
    world.market()
    assert world.finish(driver) is RunState.READY


def test_an_engine_without_a_planner_tries_the_same_places_again(world: EngineWorld) -> None:
    engine = world.engine()
    engine.runs.least_pause = 0.05
    driver = wait_in_vain(world, engine)
    world.market()
    engine.clear_blocks()
    assert world.finish(driver) is RunState.READY


def test_while_no_cloud_answers_the_same_places_are_tried_again(world: EngineWorld) -> None:
    engine = engine_that_plans(world)
    engine.hooks.replan = lambda spec, blocks: Plan(spec, [], silent=("local",))
    driver = wait_in_vain(world, engine)
    world.market()
    engine.clear_blocks()
    assert world.finish(driver) is RunState.READY


def test_a_wait_whose_kernel_was_killed_goes_on_in_the_next_at_the_price_agreed_to(
    world: EngineWorld,
) -> None:
    engine = engine_that_plans(world)
    driver = wait_in_vain(world, engine)
    world.abandon(engine)
    dearer = '[[prices]]\nzone = "here-a"\nhourly = 5.41\n[[stock]]\nzone = "here-b"\nleft = 0\n'
    world.market(dearer)
    second = engine_that_plans(world)
    told = world.take_up(second)
    assert "waited for stock" in told
    assert "at most $5.40/h as agreed" in told
    resumed = second.drivers[driver.run_id]
    assert len(resumed.view().attempts) == 3
    world.until(lambda: resumed.state is RunState.WAITING, "the wait in the second kernel")
    second.clear_blocks()
    assert world.finish(resumed) is RunState.READY
    tried = resumed.view().attempts[3:]
    assert "here-a" not in [a.candidate.offer.zone for a in tried], (
        "dearer than agreed, though it is in stock"
    )
    assert tried[-1].candidate.offer.zone == "there-a"
    assert [a.number for a in resumed.view().attempts] == list(
        range(1, len(resumed.view().attempts) + 1)
    )


def test_a_wait_that_was_cancelled_by_another_kernel_is_not_taken_up(world: EngineWorld) -> None:
    engine = engine_that_plans(world)
    driver = wait_in_vain(world, engine)
    engine.ledger.runs.request_cancel(driver.run_id)
    world.abandon(engine)
    second = engine_that_plans(world)
    world.take_up(second)
    row = second.ledger.runs.get(driver.run_id)
    assert row is not None
    assert row.state is RunState.CANCELLED


def test_a_deadline_that_passed_while_no_kernel_was_there_ends_the_run(world: EngineWorld) -> None:
    engine = engine_that_plans(world)
    driver = wait_in_vain(world, engine)
    with engine.ledger.together() as db:
        db.execute("UPDATE runs SET wait_deadline = 1 WHERE run_id = ?", (driver.run_id,))
    world.abandon(engine)
    second = engine_that_plans(world)
    assert "nothing is left on the bill" in world.take_up(second)
    row = second.ledger.runs.get(driver.run_id)
    assert row is not None
    assert row.state is RunState.FAILED


def test_a_wait_that_comes_to_nothing_says_how_often_it_tried(world: EngineWorld) -> None:
    engine = engine_that_plans(world)
    engine.runs.least_pause = 60.0
    driver = wait_in_vain(world, engine)
    engine.clear_blocks()
    world.until(
        lambda: len(driver.failover.attempts) == 6 and driver.state is RunState.WAITING,
        "the second pass",
    )

    async def give_up() -> None:
        driver.failover.stock_wait.until = engine.clock.now()
        driver.look()

    world.do(engine, give_up())
    assert world.finish(driver) is RunState.FAILED
    assert "no machine in 6 attempts and 2 passes: out of stock (6)" in driver.message


# ---------------------------------------------------------------- the webhook


@pytest.fixture
def service() -> Iterator[tuple[str, list[dict[str, str]], threading.Event]]:
    """A service on loopback that takes messages."""
    heard: list[dict[str, str]] = []
    told = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response({"/T0/KEY": 204, "/T0/MOVED": 302}.get(self.path, 410))
            if self.path == "/T0/MOVED":
                self.send_header("Location", "/T0/KEY")
            self.end_headers()
            told.set()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", heard, told
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("/T0/KEY", "webhook: told (204)"),
        ("/T0/OLD", "webhook: could not be told: it answered 410"),
        ("/T0/MOVED", "webhook: could not be told: it answered 302"),
    ],
)
def test_the_end_of_a_wait_is_posted_once_and_its_address_stored_nowhere(
    world: EngineWorld,
    service: tuple[str, list[dict[str, str]], threading.Event],
    path: str,
    line: str,
) -> None:
    address, heard, told = service
    engine = engine_that_plans(world)
    world.market()
    driver = world.prepare(engine, text=WAIT)
    text = "resources: {cloud: local, instance_type: small}\nwait: {for: 1h, notify: $hook}"
    driver.context.progress.spec = parse(text, variables={"hook": address + path})
    world.launch(engine, driver)
    assert world.finish(driver) is RunState.READY
    assert told.wait(120)
    world.until(lambda: line in driver.runlog.path.read_text(), "the line")
    assert [(h["name"], h["state"]) for h in heard] == [("dev", "ready")]
    assert heard[0]["text"].startswith("dev is ready after")
    stored = b"".join(p.read_bytes() for p in engine.home.glob("ledger*"))
    assert path.encode() not in stored
    assert path not in driver.runlog.path.read_text()


# ---------------------------------------------------------------- budgets and second clocks


def test_a_share_of_the_budget_that_is_spent_is_told_once(world: EngineWorld) -> None:
    engine = world.engine()
    world.market()
    driver = world.prepare(engine, text="budget: {total: 5, warn: [50%, 80%]}")
    world.launch(engine, driver)
    world.finish(driver)
    row = engine.cluster("dev")
    with engine.ledger.together() as db:
        db.execute(
            "UPDATE price_segments SET started = started - 3000 WHERE run_id = ?", (row.run_id,)
        )

    def told() -> list[str]:
        return [
            event.text
            for event in engine.ledger.events.of_run(row.run_id)
            if event.kind in BUDGET_EVENTS
        ]

    world.until(told, "the warning")
    assert [text.partition(" (")[0] for text in told()] == ["budget: 50% of $5.00 spent"]
    for _ in range(2):

        async def look() -> None:
            engine.lifecycle.controller(engine.cluster("dev")).watch_money(engine.cluster("dev"))

        world.do(engine, look())
    assert len(told()) == 1
    guards = guards_known(engine.ledger, row.run_id)
    assert guards is not None
    assert cluster_notes(engine.ledger, row, guards) == tuple(told())


def test_a_stopped_cluster_is_ended_after_its_second_clock(world: EngineWorld) -> None:
    engine = world.engine()
    world.market()
    driver = world.prepare(engine)
    driver.context.progress.spec = replace(
        driver.spec,
        guards=Guards(Autostop(3600.0, down=False, down_after=7200.0), is_default=False),
    )
    world.launch(engine, driver)
    world.finish(driver)
    world.do(engine, engine.lifecycle.stop(engine.cluster("dev")))
    row = engine.cluster("dev")
    guards = guards_known(engine.ledger, row.run_id)
    assert guards is not None
    assert (
        "while none runs it stays, and its disk on the bill"
        in cluster_notes(engine.ledger, row, guards)[0]
    )
    with engine.ledger.together() as db:
        db.execute(
            "UPDATE clusters SET confirmed = confirmed - 7300 WHERE run_id = ?", (row.run_id,)
        )
    world.until(
        lambda: engine.ledger.clusters.of_run(row.run_id).state is ClusterState.ENDED, "its end"
    )  # type: ignore[union-attr]
    ended = engine.ledger.clusters.of_run(row.run_id)
    assert ended is not None
    assert "(down_after)" in ended.reason
    assert world.alive() == []


def test_what_the_losers_cost_is_of_the_winners_budget(world: EngineWorld) -> None:
    engine = world.engine()
    world.market("", base=_slow_end())
    driver = world.prepare(engine, race=2, text="budget: 50")
    world.launch(engine, driver)
    assert world.finish(driver) is RunState.READY
    loser = next(a for a in driver.view().attempts if a.state is AttemptState.GONE)
    assert loser.cost > 0
    told = engine.ledger.guards.get(driver.run_id)
    assert told is not None
    assert told[0]["budget"]["spent_micros"] >= loser.cost


def _slow_end() -> str:
    from engine_world import MARKET

    return MARKET.replace("end = 0.02", "end = 0.5").replace("boot = 0.02", "boot = 0.3")
