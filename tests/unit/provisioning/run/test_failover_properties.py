"""Properties of the failover under any order of answers.

There are never two clusters, a lost machine, an attempt on a blocked place, or an endless run.
"""

from __future__ import annotations

import random

import pytest
from failover_world import EPOCH, World
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from provisioning_samples import candidate

from nbprov.model.blocks import Block
from nbprov.model.failures import Cause, Failure, Scope
from nbprov.model.offers import Candidate
from nbprov.model.places import Market
from nbprov.provisioning.run.events import BlocksRead, Restocked

FAILURES = st.builds(
    Failure,
    cause=st.sampled_from([c for c in Cause if c is not Cause.UNKNOWN_OUTCOME]),
    message=st.just("no"),
    scope=st.none() | st.sampled_from(Scope),
    retry_after=st.none() | st.floats(0, 90),
    limit_is_zero=st.booleans(),
)
MACHINE_FAILURES = st.builds(
    Failure,
    cause=st.sampled_from(
        [
            Cause.UNHEALTHY,
            Cause.TIMEOUT,
            Cause.SPOT,
            Cause.TRANSIENT,
            Cause.UNKNOWN,
            Cause.BAD_REQUEST,
        ]
    ),
)


@st.composite
def candidate_lists(draw: st.DrawFn) -> list[Candidate]:
    """Up to eight distinct offers in up to two clouds, tiers in rising order."""
    count = draw(st.integers(1, 3))
    keys = draw(
        st.lists(
            st.tuples(
                st.sampled_from("ab"),
                st.sampled_from("en"),
                st.sampled_from("xyz"),
                st.sampled_from("gc"),
                st.sampled_from(Market),
            ),
            min_size=1,
            max_size=8,
            unique=True,
        )
    )
    tiers = sorted(draw(st.lists(st.integers(0, 2), min_size=len(keys), max_size=len(keys))))
    return [
        candidate(
            i,
            cloud=cloud,
            region=region,
            zone=region + zone,
            kind=kind,
            family=kind,
            market=market,
            count=count,
            tier=tier,
        )
        for i, ((cloud, region, zone, kind, market), tier) in enumerate(
            zip(keys, tiers, strict=True)
        )
    ]


BLOCKS = st.lists(
    st.builds(
        Block,
        cloud=st.sampled_from(["", "a"]),
        region=st.sampled_from(["", "e"]),
        zone=st.sampled_from(["", "ex"]),
        instance_type=st.sampled_from(["g", "c"]),
        min_count=st.integers(0, 3),
        expires=st.floats(EPOCH, EPOCH + 100),
    ),
    max_size=2,
)


RARELY = st.sampled_from([False] * 6 + [True])
"""What ends a run must not end most of them in their first steps."""


class FailoverInAnyOrder(RuleBasedStateMachine):
    """Any order of answers, failures, cancels, deadlines and deaths; `World` checks each step."""

    @initialize(
        candidates=candidate_lists(),
        race=st.integers(1, 3),
        hedge=st.sampled_from([0.0, 5.0]),
        blocks=BLOCKS,
        until_ready=st.booleans(),
        wait=st.sampled_from([0.0, 0.0, 500.0, 4000.0]),
        checked=st.booleans(),
    )
    def begin(
        self,
        candidates: list[Candidate],
        race: int,
        hedge: float,
        blocks: list[Block],
        until_ready: bool,
        wait: float,
        checked: bool,
    ) -> None:
        self.world = World(
            candidates,
            race=race,
            hedge=hedge,
            blocks=blocks,
            until_ready=until_ready,
            wait=wait,
            checked=checked,
        )
        self.world.start()

    def _doing(self, *tasks: str) -> list[str]:
        return [token for token, deed in self.world.deeds.items() if deed.task in tasks]

    @precondition(lambda self: self._doing("submit"))
    @rule(data=st.data())
    def take_note(self, data: st.DataObject) -> None:
        self.world.take_note(data.draw(st.sampled_from(self._doing("submit"))))

    @precondition(lambda self: self._doing("submit"))
    @rule(data=st.data(), failure=FAILURES)
    def refuse_at_once(self, data: st.DataObject, failure: Failure) -> None:
        self.world.refuse(data.draw(st.sampled_from(self._doing("submit"))), failure)

    @precondition(lambda self: self._doing("submit"))
    @rule(data=st.data(), arrived=st.booleans())
    def lose_the_answer(self, data: st.DataObject, arrived: bool) -> None:
        self.world.lose(data.draw(st.sampled_from(self._doing("submit"))), arrived=arrived)

    @precondition(lambda self: self._doing("submit"))
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        self.world.withdraw(data.draw(st.sampled_from(self._doing("submit"))))

    @precondition(
        lambda self: [t for t in self._doing("follow") if not self.world.deeds[t].decided]
    )
    @rule(data=st.data(), failure=FAILURES)
    def refuse_later(self, data: st.DataObject, failure: Failure) -> None:
        waiting = [t for t in self._doing("follow") if not self.world.deeds[t].decided]
        self.world.refuse(data.draw(st.sampled_from(waiting)), failure)

    @precondition(lambda self: any(not d.decided for d in self.world.deeds.values()))
    @rule(data=st.data(), whole=st.booleans())
    def make(self, data: st.DataObject, whole: bool) -> None:
        token = data.draw(
            st.sampled_from([t for t, d in self.world.deeds.items() if not d.decided])
        )
        self.world.make(
            token,
            None if whole else data.draw(st.integers(0, self.world.deeds[token].candidate.count)),
        )

    @precondition(
        lambda self: self._doing("follow", "resolve", "end", "booting", "ssh", "agent", "health")
    )
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        self.world.answer(
            data.draw(
                st.sampled_from(
                    self._doing("follow", "resolve", "end", "booting", "ssh", "agent", "health")
                )
            )
        )

    @precondition(lambda self: self._doing("booting", "ssh", "agent", "health"))
    @rule(data=st.data(), failure=MACHINE_FAILURES)
    def break_down(self, data: st.DataObject, failure: Failure) -> None:
        self.world.answer(
            data.draw(st.sampled_from(self._doing("booting", "ssh", "agent", "health"))), failure
        )

    @rule(seconds=st.sampled_from([0.0, 0.5, 4.0, 25.0, 70.0, 700.0]))
    def pass_time(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @precondition(lambda self: hasattr(self, "world"))
    @rule(ended=st.booleans())
    def stock_comes(self, ended: bool) -> None:
        if ended:
            self.world.blocks[:] = [b for b in self.world.blocks if b.cause is not Cause.CAPACITY]
            self.world.tell(BlocksRead(tuple(self.world.blocks)))
        self.world.tell(Restocked())

    @precondition(lambda self: self.world.late)
    @rule(data=st.data())
    def an_abandoned_task_speaks_up(self, data: st.DataObject) -> None:
        self.world.tell(self.world.late.pop(data.draw(st.integers(0, len(self.world.late) - 1))))

    @rule(now=RARELY)
    def cancel(self, now: bool) -> None:
        if now:
            self.world.cancel()

    @precondition(lambda self: not self.world.machine.finished)
    @rule(now=RARELY, seen_sent=st.booleans())
    def the_kernel_dies(self, now: bool, seen_sent: bool) -> None:
        if now:
            self.world.crash(seen_sent)

    @precondition(lambda self: self.world.busy())
    @rule(data=st.data())
    def go_on(self, data: st.DataObject) -> None:
        token = data.draw(st.sampled_from(self.world.busy()))
        if self.world.deeds[token].task == "submit":
            self.world.take_note(token)
        else:
            if not self.world.deeds[token].decided:
                self.world.make(token)
            self.world.answer(token)

    @invariant()
    def nothing_is_lost(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.play_out()
            assert self.world.machine.finished


TestFailoverInAnyOrder = FailoverInAnyOrder.TestCase
TestFailoverInAnyOrder.settings = settings(stateful_step_count=40)


CAUSES = [c for c in Cause if c is not Cause.UNKNOWN_OUTCOME]
WALK_STEPS = 80


def _step(world: World, dice: random.Random) -> None:
    """One thing that may happen now, likelier the more ordinary it is."""
    busy = world.busy()
    luck = dice.random()
    if luck < 0.01:
        world.cancel()
    elif luck < 0.025 and not world.machine.finished:
        world.crash(dice.random() < 0.5)
    elif luck < 0.15:
        world.pass_time(dice.choice([0.5, 4.0, 25.0, 70.0]))
    elif luck < 0.18 and world.late:
        world.tell(world.late.pop(dice.randrange(len(world.late))))
    elif luck < 0.3 and (open_ := [t for t, d in world.deeds.items() if not d.decided]):
        token = dice.choice(open_)
        world.make(
            token,
            None if dice.random() < 0.6 else dice.randint(0, world.deeds[token].candidate.count),
        )
    elif busy:
        _answer(world, dice.choice(busy), dice)


def _answer(world: World, token: str, dice: random.Random) -> None:
    deed, luck = world.deeds[token], dice.random()
    failure = Failure(
        dice.choice(CAUSES),
        "no",
        scope=dice.choice([None, *Scope]),
        retry_after=dice.choice([None, 0.0, 7.0]),
    )
    if deed.task == "submit":
        if luck < 0.5:
            world.take_note(token)
        elif luck < 0.7:
            world.lose(token, arrived=dice.random() < 0.5)
        elif luck < 0.92:
            world.refuse(token, failure)
        else:
            world.withdraw(token)
    elif deed.task == "follow" and not deed.decided and luck < 0.4:
        world.refuse(token, failure)
    else:
        world.answer(
            token,
            failure if deed.task in ("booting", "ssh", "agent", "health") and luck < 0.3 else None,
        )


@pytest.mark.parametrize("race", [1, 2, 3])
def test_long_walks_lose_nothing_and_end(race: int) -> None:
    kept = ended = 0
    for seed in range(400):
        dice = random.Random(seed * 3 + race)
        count = dice.randint(1, 3)
        places = [(r + z, kind) for r in "en" for z in "xyz" for kind in "gc"]
        dice.shuffle(places)
        offers = [
            candidate(
                i,
                region=zone[0],
                zone=zone,
                kind=kind,
                family=kind,
                count=count,
                tier=i // dice.randint(2, 9),
            )
            for i, (zone, kind) in enumerate(places[: dice.randint(1, 9)])
        ]
        world = World(
            sorted(offers, key=lambda c: c.request.tier),
            race=race,
            hedge=dice.choice([0.0, 5.0]),
            until_ready=dice.random() < 0.5,
            wait=dice.choice([0.0, 900.0]),
        )
        world.start()
        for _ in range(WALK_STEPS):
            _step(world, dice)
        world.play_out()
        kept += world.ready
        ended += world.ready == 0
    assert kept > 30, "the walks are to reach what they check"
    assert ended > 30
