"""What must never happen, whatever the order of answers: two clusters, a lost machine, an attempt on a blocked place, a run without an end."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from failover_world import EPOCH, World
from nbprov.model.causes import Cause, Failure, Scope
from nbprov.model.offers import Block, Candidate
from nbprov.model.places import Market
from provisioning_samples import candidate

FAILURES = st.builds(
    Failure,
    cause=st.sampled_from([c for c in Cause if c is not Cause.UNKNOWN_OUTCOME]),
    message=st.just("no"),
    scope=st.none() | st.sampled_from(Scope),
    retry_after=st.none() | st.floats(0, 90),
    limit_is_zero=st.booleans(),
)
MACHINE_FAILURES = st.builds(
    Failure, cause=st.sampled_from([Cause.UNHEALTHY, Cause.TIMEOUT, Cause.SPOT, Cause.TRANSIENT, Cause.UNKNOWN, Cause.BAD_REQUEST])
)


@st.composite
def candidate_lists(draw: st.DrawFn) -> list[Candidate]:
    """Up to eight distinct offers in up to two clouds, tiers in rising order."""
    count = draw(st.integers(1, 3))
    keys = draw(
        st.lists(
            st.tuples(st.sampled_from("ab"), st.sampled_from("en"), st.sampled_from("xyz"), st.sampled_from("gc"), st.sampled_from(Market)),
            max_size=8,
            unique=True,
        )
    )
    tiers = sorted(draw(st.lists(st.integers(0, 2), min_size=len(keys), max_size=len(keys))))
    return [
        candidate(i, cloud=cloud, region=region, zone=region + zone, kind=kind, family=kind, market=market, count=count, tier=tier)
        for i, ((cloud, region, zone, kind, market), tier) in enumerate(zip(keys, tiers, strict=True))
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


class FailoverInAnyOrder(RuleBasedStateMachine):
    """Every order of answers, failures, cancels, deadlines and deaths. `World` checks after each step."""

    @initialize(candidates=candidate_lists(), race=st.integers(1, 3), hedge=st.sampled_from([0.0, 5.0]), blocks=BLOCKS)
    def begin(self, candidates: list[Candidate], race: int, hedge: float, blocks: list[Block]) -> None:
        self.world = World(candidates, race=race, hedge=hedge, blocks=blocks)
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

    @precondition(lambda self: [t for t in self._doing("follow") if not self.world.deeds[t].decided])
    @rule(data=st.data(), failure=FAILURES)
    def refuse_later(self, data: st.DataObject, failure: Failure) -> None:
        waiting = [t for t in self._doing("follow") if not self.world.deeds[t].decided]
        self.world.refuse(data.draw(st.sampled_from(waiting)), failure)

    @precondition(lambda self: any(not d.decided for d in self.world.deeds.values()))
    @rule(data=st.data(), whole=st.booleans())
    def make(self, data: st.DataObject, whole: bool) -> None:
        token = data.draw(st.sampled_from([t for t, d in self.world.deeds.items() if not d.decided]))
        self.world.make(token, None if whole else data.draw(st.integers(0, self.world.deeds[token].candidate.count)))

    @precondition(lambda self: self._doing("follow", "resolve", "end", "booting", "ssh", "agent"))
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        self.world.answer(data.draw(st.sampled_from(self._doing("follow", "resolve", "end", "booting", "ssh", "agent"))))

    @precondition(lambda self: self._doing("booting", "ssh", "agent"))
    @rule(data=st.data(), failure=MACHINE_FAILURES)
    def break_down(self, data: st.DataObject, failure: Failure) -> None:
        self.world.answer(data.draw(st.sampled_from(self._doing("booting", "ssh", "agent"))), failure)

    @rule(seconds=st.sampled_from([0.0, 0.5, 4.0, 25.0, 70.0, 700.0]))
    def pass_time(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @precondition(lambda self: self.world.late)
    @rule(data=st.data())
    def an_abandoned_task_speaks_up(self, data: st.DataObject) -> None:
        self.world.tell(self.world.late.pop(data.draw(st.integers(0, len(self.world.late) - 1))))

    @rule()
    def cancel(self) -> None:
        self.world.cancel()

    @precondition(lambda self: not self.world.machine.finished)
    @rule(seen_sent=st.booleans())
    def the_kernel_dies(self, seen_sent: bool) -> None:
        self.world.crash(seen_sent)

    @invariant()
    def nothing_is_lost(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.play_out()
            assert self.world.machine.finished


TestFailoverInAnyOrder = FailoverInAnyOrder.TestCase
