"""Asking clouds for their stock: all at once, within a deadline, each pool once a minute.

An answer that comes late is there for the next look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from nbprov.market import Stock, StockLevel
from nbprov.market.stock_index import REMEMBERED
from nbprov.market.stock_probe import ASKED_AGAIN, POOLS_PER_CLOUD, StockProbe, by_cloud
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.offers import Offer
from nbprov.model.places import Market

LONG = 30.0


class Hands:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.time = 1_800_000_000.0

    def now(self) -> float:
        return self.time

    def elapsed(self) -> float:
        return self.time


class Clouds:
    """Clouds that answer when the test says so, and remember what they were asked."""

    def __init__(self, clock: Hands) -> None:
        self.clock = clock
        self.asked: list[tuple[str, list[str], int]] = []
        self.levels: dict[str, StockLevel] = {}
        self.gates: dict[str, asyncio.Event] = {}
        self.reached: dict[str, asyncio.Event] = {}
        self.errors: dict[str, Exception] = {}

    def hold(self, cloud: str) -> asyncio.Event:
        """Keep a cloud from answering until the event is set."""
        self.gates[cloud], self.reached[cloud] = asyncio.Event(), asyncio.Event()
        return self.gates[cloud]

    async def ask(self, cloud: str, offers: Sequence[Offer], count: int) -> Sequence[Stock]:
        self.asked.append((cloud, [o.zone for o in offers], count))
        if cloud in self.gates:
            self.reached[cloud].set()
            await self.gates[cloud].wait()
        if cloud in self.errors:
            raise self.errors[cloud]
        return [
            Stock(self.clock.now(), o.pool, self.levels.get(cloud, StockLevel.HIGH)) for o in offers
        ]


def offer(cloud: str = "runpod", zone: str = "a") -> Offer:
    return Offer(cloud, "r", zone, "t", "L40S", 1, 8, 32, Market.ON_DEMAND, 1_000_000)


Story = Callable[[StockProbe, Clouds, Hands], Coroutine[Any, Any, None]]


def run(story: Story, tell: Callable[[str, Sequence[Stock], int], None] = lambda *_: None) -> None:
    async def told() -> None:
        clock = Hands()
        clouds = Clouds(clock)
        await story(StockProbe(clouds.ask, clock, tell), clouds, clock)

    asyncio.run(asyncio.wait_for(told(), LONG))


def test_clouds_are_asked_at_once_and_what_they_say_is_known() -> None:
    told: list[tuple[str, int]] = []

    async def story(probe: StockProbe, clouds: Clouds, clock: Hands) -> None:
        gate = clouds.hold("aws")
        clouds.hold("runpod").set()
        look = asyncio.create_task(
            probe.look([offer("aws"), offer("runpod"), offer("runpod", "b")], 2, seconds=LONG)
        )
        await clouds.reached["aws"].wait()
        await clouds.reached["runpod"].wait()  # while aws has not answered
        gate.set()
        answers = await look
        assert {s.pool.cloud for s in answers.stock} == {"aws", "runpod"}
        assert (answers.late, answers.failed) == ((), {})
        assert len(probe.known(2)) == 3
        assert probe.known(1) == (), "what is said of two machines says nothing of one"

    run(story, lambda cloud, stock, count: told.append((cloud, len(stock) * count)))
    assert sorted(told) == [("aws", 2), ("runpod", 4)]


def test_what_is_late_is_left_out_and_known_once_it_comes() -> None:
    async def story(probe: StockProbe, clouds: Clouds, clock: Hands) -> None:
        gate = clouds.hold("aws")
        answers = await probe.look([offer("aws"), offer("runpod")], seconds=0.2)
        assert answers.late == ("aws",)
        assert [s.pool.cloud for s in answers.stock] == ["runpod"]
        gate.set()
        later = await probe.look(
            [offer("aws")], seconds=LONG
        )  # joins the question that is under way
        assert [s.pool.cloud for s in later.stock] == ["aws"]
        assert [cloud for cloud, _, _ in clouds.asked] == ["aws", "runpod"]

    run(story)


def test_a_pool_is_asked_about_once_a_minute_whatever_came_of_it() -> None:
    async def story(probe: StockProbe, clouds: Clouds, clock: Hands) -> None:
        await probe.look([offer()])
        await probe.look([offer(), offer(zone="b")])
        assert [zones for _, zones, _ in clouds.asked] == [["a"], ["b"]]
        await probe.look([offer()], 4)
        assert clouds.asked[-1] == ("runpod", ["a"], 4)
        clouds.errors["runpod"] = CloudError(Failure(Cause.RATE_LIMIT, "slow down"))
        clock.time += ASKED_AGAIN
        failed = await probe.look([offer()])
        assert failed.failed == {"runpod": "asked too often: slow down"}
        assert [s.level for s in failed.stock] == [StockLevel.HIGH, StockLevel.HIGH], (
            "what was said a minute ago is still known"
        )
        asked = len(clouds.asked)
        await probe.look([offer()])
        assert len(clouds.asked) == asked

    run(story)


def test_the_last_word_replaces_an_earlier_one_and_old_ones_go() -> None:
    async def story(probe: StockProbe, clouds: Clouds, clock: Hands) -> None:
        await probe.look([offer(), offer(zone="b")])
        clock.time += ASKED_AGAIN
        clouds.levels["runpod"] = StockLevel.NONE
        await probe.look([offer()])
        assert {s.pool.zone: s.level for s in probe.known()} == {
            "a": StockLevel.NONE,
            "b": StockLevel.HIGH,
        }
        clock.time += REMEMBERED
        assert probe.known() == ()

    run(story)


@pytest.mark.parametrize("error", [ValueError("not JSON"), KeyError("availability")])
def test_a_fault_of_one_cloud_is_the_others_no_matter(error: Exception) -> None:
    async def story(probe: StockProbe, clouds: Clouds, clock: Hands) -> None:
        clouds.errors["aws"] = error
        answers = await probe.look([offer("aws"), offer("runpod")], seconds=LONG)
        assert [s.pool.cloud for s in answers.stock] == ["runpod"]
        assert answers.failed is not None
        assert type(error).__name__ in answers.failed["aws"]

    run(story)


def test_a_cloud_speaks_for_itself_only() -> None:
    async def story(probe: StockProbe, clouds: Clouds, clock: Hands) -> None:
        async def boastful(cloud: str, offers: Sequence[Offer], count: int) -> Sequence[Stock]:
            return [
                Stock(clock.now(), offer("aws").pool, StockLevel.NONE),
                Stock(clock.now(), offer().pool, StockLevel.LOW),
            ]

        answers = await StockProbe(boastful, clock).look([offer()])
        assert [(s.pool.cloud, s.level) for s in answers.stock] == [("runpod", StockLevel.LOW)]

    run(story)


def test_who_is_told_cannot_lose_what_was_said() -> None:
    def broken(cloud: str, stock: Sequence[Stock], count: int) -> None:
        raise RuntimeError("the ledger is locked")

    async def story(probe: StockProbe, clouds: Clouds, clock: Hands) -> None:
        assert len((await probe.look([offer()])).stock) == 1

    run(story, broken)


def test_the_best_pools_are_asked_about_and_no_more_than_a_launch_needs() -> None:
    offers = [offer(zone=str(n)) for n in range(POOLS_PER_CLOUD + 50)] + [
        offer("aws"),
        offer("aws"),
    ]
    found = by_cloud(offers)
    assert [o.zone for o in found["runpod"]] == [str(n) for n in range(POOLS_PER_CLOUD)]
    assert len(found["aws"]) == 1
