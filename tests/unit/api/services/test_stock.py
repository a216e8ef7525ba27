"""Stock before a launch, through session, engine and ledger.

Which clouds are asked, how long a plan waits, and what an answer changes.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from shelf_world import LONG, Shelf, only

import nbprov
from nbprov import api
from nbprov.api.launching.stock_order import reorder
from nbprov.clouds import registry
from nbprov.clouds.base import STOCK_SECONDS
from nbprov.model.clusters import RunState
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.money import usd
from nbprov.model.offers import Offer
from nbprov.model.stock import Pool, StockLevel
from nbprov.provisioning.run import events
from nbprov.provisioning.run.driver import RunDriver
from nbprov.provisioning.run.unavailable import Unavailable
from nbprov.provisioning.supervision.guard_enforcement import needs_kernel
from nbprov.runtime.waiting import wait_for

PLACES = ("IS", "NL", "CZ", "SE", "RO", "NO")
L40S = "resources:\n  cloud: runpod\n  accelerators: L40S:1\n  ordered:\n" + "".join(
    f"    - region: {r}\n" for r in PLACES
)
LAST = "EUR-NO-2"


def only_in_the_last(pool: Pool) -> bool:
    return pool.zone == LAST


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shelf]:
    made = Shelf(
        there=only_in_the_last,
        level=lambda pool: StockLevel.HIGH if only_in_the_last(pool) else StockLevel.NONE,
    )
    monkeypatch.setattr(registry, "_points", lambda: only(made))
    monkeypatch.setattr(registry, "_made", {})
    yield made
    made.telling.set()
    made.checking.set()


@pytest.fixture
def session(shelf: Shelf, nbprov_home: Path) -> Iterator[api.Session]:
    try:
        yield nbprov.session()
    finally:
        shelf.telling.set()
        api.close()


def made_run(session: api.Session, text: str = L40S) -> api.Run:
    run = session.provision(text, "dev")
    assert isinstance(run, api.Run)
    return run


def seen_out(run: api.Run) -> None:
    """End what was launched and see that nothing is left."""
    run.cancel()
    assert run.settled(LONG) in (RunState.CANCELLED, RunState.FAILED)


def until(session: api.Session, run: api.Run, holds: Callable[[], bool]) -> None:
    """Wait for a change of the run after which something holds."""
    changed = threading.Event()
    stop = run.subscribe(changed.set)
    try:
        end = time.monotonic() + LONG
        while not holds():
            assert changed.wait(max(0.0, end - time.monotonic())), "nothing changed any more"
            changed.clear()
    finally:
        stop()


# ---------------------------------------------------------------- stock that is sold out


def test_without_a_word_on_stock_the_written_order_takes_many_creates(
    session: api.Session, shelf: Shelf
) -> None:
    shelf.level = lambda pool: None
    run = made_run(session).launch()
    assert shelf.accepted.wait(LONG)
    assert len(shelf.creates) == len(run.plan.candidates) >= 9
    assert shelf.creates[-1].zone == LAST
    seen_out(run)


def test_the_place_that_has_stock_is_asked_first_and_once(
    session: api.Session, shelf: Shelf
) -> None:
    run = made_run(session)
    session.stock_order.order(run)
    assert run.plan.chosen is not None
    assert run.plan.chosen.offer.zone == LAST
    assert run.plan.chosen.stock is not None
    run.launch()
    assert shelf.accepted.wait(LONG)
    assert [pool.zone for pool in shelf.creates] == [LAST]
    seen_out(run)


# ---------------------------------------------------------------- who waits, and for how long


def warm_up(session: api.Session, shelf: Shelf) -> None:
    """Make a first plan, of other machines, and let no cloud answer after that.

    The time of its imports and of reading the prices is not what the tests measure.
    """
    session.plan("resources: {cloud: runpod, accelerators: H100:1}", wait=LONG)
    shelf.was_asked.clear()
    shelf.telling.clear()


def test_a_plan_is_there_at_once_and_the_next_one_knows(session: api.Session, shelf: Shelf) -> None:
    warm_up(session, shelf)
    begun = time.monotonic()
    first = session.plan(L40S)
    assert time.monotonic() - begun < STOCK_SECONDS, "a plan waits for nobody's stock"
    assert not any(c.stock for c in first.candidates)
    assert shelf.was_asked.wait(LONG)
    shelf.telling.set()
    made = session.plan(L40S, wait=LONG)  # it joins the question that is under way
    assert made.chosen is not None
    assert made.chosen.offer.zone == LAST
    assert sorted(c.offer.key for c in made.candidates) == sorted(
        c.offer.key for c in first.candidates
    )
    assert made.dearest == first.dearest or made.dearest.offer.hourly == first.dearest.offer.hourly  # type: ignore[union-attr]


def test_what_a_person_waits_for_is_there_after_the_deadline_all_the_same(
    session: api.Session, shelf: Shelf
) -> None:
    warm_up(session, shelf)
    begun = time.monotonic()
    made = session.plan(L40S, wait=0.3)
    assert 0.3 <= time.monotonic() - begun < STOCK_SECONDS
    assert made.candidates
    answers = session.ask_stock(made, 0.1)
    assert answers.late == ("runpod",)


def test_a_run_that_waits_for_launch_is_put_in_order_when_the_answer_comes(
    session: api.Session, shelf: Shelf
) -> None:
    shelf.telling.clear()
    run = made_run(session)
    before = run.plan
    consent = run.driver.consent
    assert before.chosen is not None
    assert before.chosen.offer.region == "IS"
    shelf.telling.set()
    until(session, run, lambda: run.plan is not before)
    assert run.plan.chosen is not None
    assert run.plan.chosen.offer.zone == LAST
    assert run.view().plan.made_at > before.made_at, "the panel is told by this"
    assert (run.driver.consent, run.plan.dearest) == (consent, before.dearest), (
        "what Launch agrees to is what was shown"
    )
    assert run.driver.failover.queue.candidates is run.plan.candidates
    run.cancel()


def test_a_place_that_comes_first_brings_what_should_be_known_of_it(
    session: api.Session, shelf: Shelf
) -> None:
    run = made_run(session)
    said = needs_kernel("runpod", replace(shelf.capabilities, poweroff_ends_bill=False))
    assert said
    assert said not in run.driver.notes
    shelf.capabilities = replace(shelf.capabilities, poweroff_ends_bill=False)
    for _ in range(2):
        wait_for(
            session.engine.thread.call(reorder(run.driver, session.planned(run.driver.spec))), LONG
        )
    assert run.driver.notes.count(said) == 1


def test_an_answer_between_the_plan_and_its_run_is_not_lost(
    session: api.Session, shelf: Shelf
) -> None:
    shelf.telling.clear()
    run = made_run(session)
    before = run.plan
    del session.runs["dev"]  # as if it were not there yet
    shelf.telling.set()
    session.ask_stock(before, LONG)
    session.services.stock._workers.submit(lambda: None).result(LONG)
    assert run.plan is before
    session.runs["dev"] = run
    session.stock_order.order_behind(run)
    until(session, run, lambda: run.plan is not before)
    assert run.plan.chosen is not None
    assert run.plan.chosen.offer.zone == LAST
    run.cancel()


def test_a_launch_goes_with_what_is_known_and_late_news_still_helps(
    session: api.Session, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.telling.clear()
    heard = threading.Event()
    refused: list[Pool] = []

    def there(pool: Pool) -> bool:
        refused.append(pool)
        if len(refused) == 1:
            shelf.telling.set()  # the answer comes while the first create is under way
            assert heard.wait(LONG)
        return only_in_the_last(pool)

    post = RunDriver.post

    def posted(driver: RunDriver, event: events.Event) -> None:
        post(driver, event)
        if isinstance(event, events.Replanned):
            heard.set()

    monkeypatch.setattr(RunDriver, "post", posted)
    shelf.there = there
    run = made_run(session)
    assert shelf.was_asked.wait(LONG)
    run.launch()
    assert shelf.accepted.wait(LONG)
    assert [pool.region for pool in shelf.creates] == ["IS", "NO"], (
        "the create that was sent at once, and then the one with stock"
    )
    seen_out(run)


def test_stock_that_cannot_be_told_changes_nothing(session: api.Session, shelf: Shelf) -> None:
    def broken(pool: Pool) -> StockLevel | None:
        raise CloudError(Failure(Cause.TRANSIENT, "HTTP 502"))

    shelf.level = broken
    run = made_run(session)
    before = run.plan
    session.stock_order.order(run)
    assert run.plan is before
    assert session.ask_stock(before).failed == {"runpod": "passing fault at the cloud: HTTP 502"}
    assert run.state is RunState.PLANNED
    run.cancel()


def test_with_none_anywhere_it_is_tried_all_the_same_and_ends_with_a_clear_word(
    session: api.Session, shelf: Shelf
) -> None:
    shelf.there, shelf.level = (lambda pool: False), (lambda pool: StockLevel.NONE)
    run = made_run(session)
    session.stock_order.order(run)
    assert run.plan.candidates, "stock never empties a plan"
    assert any("out of stock by their cloud's own word" in note for note in run.plan.notes)
    run.launch()
    with pytest.raises(Unavailable, match="out of stock"):
        run.wait(LONG)
    assert len(shelf.creates) == 1, "the word may be out of date, but hardly in every place"


def test_a_run_that_waits_is_woken_by_stock_that_came(
    session: api.Session, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Instead of once a minute, and of the half minute for which a refusal holds at least.
    often = 0.1
    for place in (
        "nbprov.api.services.stock.ASKED_AGAIN",
        "nbprov.market.stock_probe.ASKED_AGAIN",
        "nbprov.provisioning.ledger.blocks.LEAST_HELD",
    ):
        monkeypatch.setattr(place, often)
    monkeypatch.setattr("nbprov.provisioning.ledger.blocks.HELD_SHARE", 0.0)
    session.engine.runs.least_pause = often
    shelf.there, shelf.level = (lambda pool: False), (lambda pool: StockLevel.NONE)
    run = made_run(session, L40S + "wait: 1h\n").launch()
    until(session, run, lambda: run.state is RunState.WAITING)
    shelf.there, shelf.level = (
        only_in_the_last,
        lambda pool: StockLevel.HIGH if only_in_the_last(pool) else StockLevel.NONE,
    )
    assert shelf.accepted.wait(LONG), (
        "nothing but the clouds' word tells of it within the hour's first minutes"
    )
    assert shelf.creates[-1].zone == LAST
    seen_out(run)


# ---------------------------------------------------------------- what is kept


def test_a_wait_goes_on_being_asked_for_after_a_fault(
    session: api.Session,
    shelf: Shelf,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("nbprov.api.services.stock.ASKED_AGAIN", 0.1)
    session.plan(L40S, wait=LONG)
    desk, asked = session.services.stock, threading.Event()

    def broken(plan: object) -> list[Offer]:
        asked.set()
        raise KeyError("a slip")

    waits: Any = SimpleNamespace(state=RunState.WAITING, plan=None, spec=None, name="dev")
    monkeypatch.setattr(desk, "offers_of", broken)
    with monkeypatch.context() as patch:
        patch.setitem(session.engine.drivers, "r", waits)
        for _ in range(2):
            assert asked.wait(LONG)
            asked.clear()
    assert "asking for what dev waits for" in caplog.text


def test_each_answer_is_an_observation_in_the_ledger(session: api.Session, shelf: Shelf) -> None:
    made = session.plan(L40S, wait=LONG)

    async def later() -> None:
        """Ends once the worker thread of the stock service was told."""

    session.services.stock._workers.submit(lambda: None).result(LONG)
    wait_for(session.engine.thread.call(later()))
    kept = {stock.pool: stock.level for stock in session.engine.ledger.observations.probes(0.0)}
    assert kept == {
        c.offer.pool: StockLevel.HIGH if c.offer.zone == LAST else StockLevel.NONE
        for c in made.candidates
    }
    assert session.engine.ledger.observations.attempts(0.0) == [], "a probe is no attempt"


def test_a_pool_is_asked_about_once_a_minute(session: api.Session, shelf: Shelf) -> None:
    for _ in range(3):
        session.plan(L40S, wait=LONG)
    assert len(shelf.asked) == 1


def test_nobody_is_asked_for_clouds_that_are_only_assumed(
    session: api.Session, shelf: Shelf
) -> None:
    shelf.usable = lambda: Failure(Cause.CREDENTIALS, "no key")
    assert session.plan(L40S, assume=["runpod"], wait=LONG).candidates
    assert shelf.asked == []


# ---------------------------------------------------------------- prices


def test_prices_of_now_come_with_stock(session: api.Session, shelf: Shelf) -> None:
    prices = session.prices("L40S:1", live=True, cloud="runpod", max_hourly=usd(5))
    offers = prices.offers()
    assert {o.zone for o in offers if (s := prices.stock_of(o)) and s.level is StockLevel.HIGH} == {
        LAST
    }
    frame = prices.to_frame()
    assert frame.stock.value_counts().to_dict()["high"] == sum(o.zone == LAST for o in offers)
    assert frame.stock_age_s.between(0, LONG).sum() == frame.stock.notna().sum() > 0


def test_other_frames_have_no_stock(session: api.Session, shelf: Shelf) -> None:
    frame = session.prices("L40S:1", cloud="runpod").to_frame()
    assert not {"stock", "stock_age_s"} & set(frame.columns)
    assert shelf.asked == []


def test_a_cloud_that_tells_no_stock_is_named(session: api.Session, shelf: Shelf) -> None:
    def broken(pool: Pool) -> StockLevel | None:
        raise CloudError(Failure(Cause.RATE_LIMIT, "slow down"))

    shelf.level = broken
    prices = session.prices("L40S:1", live=True, cloud="runpod")
    assert "runpod: no answer about its stock: asked too often: slow down" in prices.remarks
    frame = prices.to_frame()
    assert frame.stock.isna().all()
    assert all(math.isnan(age) for age in frame.stock_age_s)
