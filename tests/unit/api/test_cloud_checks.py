"""Checks of clouds: asked in parallel, remembered, and never waited for long."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from shelf_world import LONG, Shelf, only

import nbprov
from nbprov import api
from nbprov.api.cloud_checks import (
    ASKED_AGAIN,
    CHEAP,
    FAULT_COUNTS,
    PATIENCE,
    USABLE_FOR,
    CloudChecks,
)
from nbprov.clouds import registry
from nbprov.clouds.base import CHECK_SECONDS
from nbprov.model.blocks import block_after
from nbprov.model.failures import CHECKED, Cause, Failure
from nbprov.model.launches import CheckResult

TURNS = 50
"""More turns of the event loop than it takes to ask two clouds."""
A100S = "resources: {accelerators: A100:8}"


class World:
    """Clouds that answer when and what the test says, by a clock that the test moves."""

    def __init__(self) -> None:
        self.time = 0.0
        self.asked: list[str] = []
        self.usable: dict[str, bool] = {}
        self.takes: dict[str, float] = {}
        self.gates: dict[str, asyncio.Event] = {}
        self.problems: dict[str, list[Failure]] = {}
        self.checks = CloudChecks(self.ask, self)

    def now(self) -> float:
        return self.time

    def elapsed(self) -> float:
        return self.time

    async def ask(self, name: str) -> CheckResult:
        self.asked.append(name)
        if name in self.gates:
            await self.gates[name].wait()
        self.time += self.takes.get(name, 2 * CHEAP)
        usable = self.usable.get(name, True)
        if self.problems.get(name):
            return CheckResult(name, enabled=False, problem=self.problems[name].pop())
        return CheckResult(
            name, usable, problem=None if usable else Failure(Cause.CREDENTIALS, "no key")
        )

    async def enabled(self, *names: str, first: float = LONG, again: float = LONG) -> list[bool]:
        return [
            result.enabled for result in await self.checks.at_hand(names, first=first, again=again)
        ]


def run(story: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    async def told() -> None:
        await story(World())

    asyncio.run(asyncio.wait_for(told(), LONG))


def test_an_adapter_that_breaks_its_word_is_one_cloud_that_cannot_be_used() -> None:
    async def story(world: World) -> None:
        async def ask(name: str) -> CheckResult:
            if name == "odd":
                raise ImportError("no module called odd_sdk")
            return await world.ask(name)

        checks = CloudChecks(ask, world)
        odd, aws = await checks.anew(["odd", "aws"])
        assert (odd.enabled, aws.enabled) == (False, True)
        assert odd.problem is not None
        assert odd.problem.message == "ImportError: no module called odd_sdk"
        assert [result.enabled for result in await checks.at_hand(["odd", "aws"])] == [False, True]

    run(story)


def test_a_cloud_that_can_be_used_is_asked_again_after_five_minutes() -> None:
    async def story(world: World) -> None:
        assert await world.enabled("aws", "gcp") == [True, True]
        await world.enabled("aws", "gcp")
        assert world.asked == ["aws", "gcp"]
        world.time += USABLE_FOR
        await world.enabled("aws")
        assert world.asked == ["aws", "gcp", "aws"]

    run(story)


def test_a_cloud_that_refused_is_asked_again_after_a_minute() -> None:
    async def story(world: World) -> None:
        world.usable["aws"] = False
        for _ in range(3):
            assert await world.enabled("aws") == [False]
        assert world.asked == ["aws"]
        world.time += ASKED_AGAIN
        world.usable["aws"] = True
        assert await world.enabled("aws") == [True]

    run(story)


def test_one_garbled_answer_disables_no_cloud() -> None:
    async def story(world: World) -> None:
        world.problems["aws"] = [Failure(Cause.TRANSIENT, "the answer is not as documented")]
        assert await world.enabled("aws") == [True]
        assert world.asked == ["aws", "aws"]

    run(story)


def test_a_passing_fault_counts_for_seconds() -> None:
    async def story(world: World) -> None:
        world.problems["aws"] = [Failure(Cause.TRANSIENT, "502")] * 2
        assert await world.enabled("aws") == [False]
        assert await world.enabled("aws") == [False]
        world.time += FAULT_COUNTS
        assert await world.enabled("aws") == [True]

    run(story)


def test_a_check_that_a_refused_create_calls_into_doubt_is_made_again_after_a_minute() -> None:
    async def story(world: World) -> None:
        passed: list[tuple[str, float]] = []
        world.checks = CloudChecks(world.ask, world, lambda r, at: passed.append((r.cloud, at)))
        await world.enabled("aws")
        await world.checks.at_hand(["aws"], doubted={"aws"})
        assert passed == [("aws", 0.0)]
        world.time = ASKED_AGAIN + 1
        await world.checks.at_hand(["aws"], doubted={"aws"})
        assert passed == [("aws", 0.0), ("aws", ASKED_AGAIN + 1)]

    run(story)


def test_a_cloud_without_credentials_is_looked_at_every_time() -> None:
    async def story(world: World) -> None:
        world.usable["aws"], world.takes["aws"] = False, CHEAP / 10
        await world.enabled("aws")
        world.usable["aws"] = True
        assert await world.enabled("aws") == [True], "the person has set it up meanwhile"

    run(story)


def test_all_are_asked_before_any_has_answered() -> None:
    async def story(world: World) -> None:
        world.gates |= {name: asyncio.Event() for name in ("aws", "gcp")}
        told = asyncio.create_task(world.checks.anew(["aws", "gcp"]))
        for _ in range(TURNS):
            await asyncio.sleep(0)
        assert world.asked == ["aws", "gcp"]
        for gate in world.gates.values():
            gate.set()
        assert [result.enabled for result in await told] == [True, True]

    run(story)


def test_a_silent_cloud_delays_one_plan_and_no_more() -> None:
    async def story(world: World) -> None:
        world.gates["aws"] = asyncio.Event()
        assert await world.enabled("aws", "gcp", first=0.2) == [False, True]
        told = world.checks.known("aws")
        assert told is not None
        assert told.problem is not None
        assert (told.problem.cause, told.problem.message) == (
            Cause.TIMEOUT,
            "no answer within 0.2 s",
        )
        begun = time.monotonic()
        assert await world.enabled("aws", "gcp", first=LONG, again=LONG) == [False, True]
        assert time.monotonic() - begun < LONG / 2, "its silence is remembered"
        assert world.checks.silent_since("aws") == 0.0
        assert world.checks.silent_since("gcp") is None
        late = world.checks._under_way["aws"]
        world.gates["aws"].set()
        await late
        assert await world.enabled("aws") == [True], "its late answer counts"
        assert world.checks.silent_since("aws") is None
        assert world.asked == ["aws", "gcp"]

    run(story)


def test_an_earlier_answer_stands_while_a_cloud_is_slow_to_confirm_it() -> None:
    async def story(world: World) -> None:
        await world.enabled("aws")
        world.time += USABLE_FOR
        world.gates["aws"] = asyncio.Event()
        assert await world.enabled("aws", again=0.05) == [True]
        world.usable["aws"] = False
        world.gates["aws"].set()
        assert await world.enabled("aws") == [False]

    run(story)


def test_asking_anew_asks_all_whatever_is_known() -> None:
    async def story(world: World) -> None:
        await world.enabled("aws")
        world.usable["aws"] = False
        assert [r.enabled for r in await world.checks.anew(["aws", "gcp"])] == [False, True]
        assert await world.enabled("aws") == [False]

    run(story)


# ---------------------------------------------------------------- through a session


@pytest.fixture
def shelves(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Shelf]]:
    made = {name: Shelf(name=name, level=lambda pool: None) for name in ("aws", "gcp")}
    monkeypatch.setattr(registry, "_points", lambda: only(*made.values()))
    monkeypatch.setattr(registry, "_made", {})
    yield made
    for shelf in made.values():
        shelf.checking.set()


@pytest.fixture
def session(shelves: dict[str, Shelf], nbprov_home: Path) -> Iterator[api.Session]:
    try:
        yield nbprov.session()
    finally:
        for shelf in shelves.values():
            shelf.checking.set()
        api.close()


def test_no_cloud_waits_for_the_thread_of_another(
    session: api.Session, shelves: dict[str, Shelf]
) -> None:
    met = threading.Event()
    both = threading.Barrier(2, action=met.set)

    def meet() -> None:
        both.wait(LONG)  # neither answers before the other was asked

    for shelf in shelves.values():
        shelf.usable = meet
    session.check()  # on a busy machine it may give up before they meet, but never if they cannot
    assert met.wait(LONG)


def test_only_what_can_be_used_is_planned_for_and_the_others_say_why(
    session: api.Session, shelves: dict[str, Shelf]
) -> None:
    shelves["aws"].usable = lambda: Failure(Cause.CREDENTIALS, "the key …beef is not known to AWS")
    made = session.plan(A100S)
    assert {c.offer.cloud for c in made.candidates} == {"gcp"}
    assert {u.offer.cloud: u.reason for u in made.unusable}[
        "aws"
    ] == "the key …beef is not known to AWS"
    assert any(
        d.rule.name == "disabled:aws" and "the key …beef is not known to AWS" in d.words
        for d in made.dropped
    )
    only_aws = session.plan("resources: {accelerators: A100:8, infra: aws}")
    assert only_aws.chosen is None
    assert any(
        "aws is not set up: the key …beef is not known to AWS" in note for note in only_aws.notes
    )


def test_a_request_without_a_cloud_is_for_all_also_beside_one_that_names_one(
    session: api.Session, shelves: dict[str, Shelf]
) -> None:
    made = session.plan(
        "resources: {any_of: [{accelerators: A100:8, infra: aws}, {accelerators: H100:8}]}"
    )
    assert {c.offer.cloud for c in made.candidates} == {"aws", "gcp"}
    before = shelves["gcp"].checks
    session.check(["gcp"])
    assert shelves["gcp"].checks == before + 1


def test_clouds_that_a_spec_does_not_mean_are_not_asked(
    session: api.Session, shelves: dict[str, Shelf]
) -> None:
    session.plan("resources: {accelerators: A100:8, infra: aws}")
    assert (shelves["aws"].checks, shelves["gcp"].checks) == (1, 0)


def test_why_not_is_told_of_all_that_have_prices(
    session: api.Session, shelves: dict[str, Shelf]
) -> None:
    shelves["aws"].usable = lambda: Failure(Cause.CREDENTIALS, "no key")
    told = session.why_not(seconds=LONG)
    assert told["aws"] == "no key"
    assert "gcp" not in told
    assert told["runpod"] == "no adapter yet"
    assert set(told) == {"aws", *session.without_adapter()}


def test_why_not_waits_for_nobody_longer_than_told(
    session: api.Session, shelves: dict[str, Shelf]
) -> None:
    shelves["gcp"].checking.clear()
    begun = time.monotonic()
    assert "gcp" not in session.why_not(seconds=0.2), (
        "a cloud that is merely slow is not called unusable"
    )
    assert time.monotonic() - begun < CHECK_SECONDS


def test_one_silent_cloud_holds_plans_of_the_others_once(
    session: api.Session, shelves: dict[str, Shelf]
) -> None:
    shelves["gcp"].checking.clear()
    begun = time.monotonic()
    first = session.plan(A100S)
    waited = time.monotonic() - begun
    assert CHECK_SECONDS - 0.1 <= waited < CHECK_SECONDS * 3, "once, and not again for the prices"
    assert {c.offer.cloud for c in first.candidates} == {"aws"}
    (dropped,) = [d for d in first.dropped if d.rule.name == "silent:gcp"]
    assert dropped.words.startswith("gcp could not be asked since ")
    assert "no answer within 5 s; %nbprov check gcp asks it now" in dropped.words
    (unusable,) = [u for u in first.unusable if u.offer.cloud == "gcp"]
    assert unusable.silent
    begun = time.monotonic()
    session.plan(A100S)
    assert time.monotonic() - begun < CHECK_SECONDS - PATIENCE


@pytest.mark.parametrize("cause", sorted(CHECKED))
def test_a_check_that_passes_ends_blocks_of_credentials_and_balance(
    session: api.Session, shelves: dict[str, Shelf], cause: Cause
) -> None:
    engine = session.engine
    blocks = engine.ledger.blocks
    chosen = session.plan(A100S).candidates[0]
    other = replace(chosen, offer=replace(chosen.offer, cloud="elsewhere"))
    for candidate in (chosen, other):
        block = block_after(candidate, Failure(cause, "refused"), engine.ledger.clock.now())
        assert block is not None
        blocks.remember(block)
    shelves[chosen.offer.cloud].usable = lambda: Failure(cause, "still refused")
    session.check([chosen.offer.cloud])
    assert len(blocks.standing()) == 2, "a check that fails ends nothing"
    shelves[chosen.offer.cloud].usable = lambda: None
    session.check([chosen.offer.cloud])
    assert [block.cloud for block in blocks.standing()] == ["elsewhere"]


class Unloadable:
    """An entry point of a package whose SDK is not installed."""

    module = __name__

    def load(self) -> None:
        raise ImportError("no module called odd_sdk")


def test_an_adapter_that_cannot_be_loaded_breaks_no_plan(
    nbprov_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points: Any = {**only(Shelf()), "odd": Unloadable()}
    monkeypatch.setattr(registry, "_points", lambda: points)
    monkeypatch.setattr(registry, "_made", {})
    session = api.Session()
    try:
        made = session.plan("resources: {accelerators: L40S:1}")
        assert made.chosen is not None
        (odd,) = session.check(["odd"])
        assert (odd.enabled, odd.problem and odd.problem.message) == (
            False,
            "ImportError: no module called odd_sdk",
        )
        assert session.why_not(seconds=LONG)["odd"]
        assert session.relax("resources: {accelerators: L40S:1, cloud: odd}") is not None
        assert len(session.prices("L40S", live=True)) > 0
    finally:
        session.close()
