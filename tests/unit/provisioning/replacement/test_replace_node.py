"""A lost machine of a cluster with an engine: taken out, replaced, never two for one, nothing left
behind. Real machines of the `local` cloud.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from engine_world import MARKET, WAIT_SECONDS, EngineWorld

from nbprov.clouds.local.client import DaemonClient
from nbprov.clouds.local.provisioner import LocalCloud
from nbprov.model.clusters import AttemptState, ClusterState, RunState
from nbprov.model.events import NODE_EVENTS
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import CreateOperation, Launch, Pending, PollResult
from nbprov.model.money import usd
from nbprov.provisioning.engine import Engine
from nbprov.provisioning.ledger import ClusterRow
from nbprov.provisioning.live_cluster import LiveCluster, NodeMissing, check_there
from nbprov.provisioning.replacement import node_replacer, policy
from nbprov.provisioning.replacement.node_bring_up import NodeBringUp
from nbprov.provisioning.replacement.replacement_create import ReplacementCreate
from nbprov.provisioning.supervision import cloud_watcher
from nbprov.runtime.waiting import wait_for

pytestmark = pytest.mark.machine

ENGINE = "engine: dask\nmax_lifetime: 10h\nbudget: 100"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud_watcher, "LEAST_WATCH", 0.05)
    monkeypatch.setattr(policy, "FIRST_PAUSE", 0.3)
    monkeypatch.setattr(node_replacer, "NOT_NOW_PAUSE", 0.2)


class Watched(LocalCloud):
    """Counts its creates, and how many machines are billed at once."""

    launches: list[Launch]
    most = 0
    on_submit: Callable[[Launch], None] = staticmethod(lambda launch: None)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.launches = []

    def submit(self, launch: Launch) -> CreateOperation:
        self.launches.append(launch)
        self.on_submit(launch)
        return super().submit(launch)

    def list(self, owner: str) -> Any:
        found = super().list(owner)
        self.most = max(self.most, sum(i.state.is_billed for i in found))
        return found


def up(
    world: EngineWorld,
    nodes: int = 3,
    text: str = ENGINE,
    kind: type[Watched] = Watched,
    **changes: Any,
) -> tuple[Engine, ClusterRow, Watched]:
    engine = world.engine(kind, **changes)
    driver = world.launch(engine, world.prepare(engine, nodes=nodes, text=text))
    assert world.finish(driver) is RunState.READY
    adapter = engine.cloud("local").adapter
    assert isinstance(adapter, Watched)
    return engine, engine.cluster("dev"), adapter


def take(world: EngineWorld, node: int) -> str:
    """The cloud takes a machine back."""
    (machine,) = [m for m in world.alive() if m["node"] == node]
    DaemonClient(world.folder).call("terminate", {"ids": [machine["id"]]}, timeout=WAIT_SECONDS)
    return str(machine["id"])


def whole(world: EngineWorld, engine: Engine, row: ClusterRow, nodes: int = 3) -> bool:
    there = [m for m in world.alive() if m["state"] == "running"]
    return len(engine.ledger.launches.ids_of(row.token)) == nodes and sorted(
        m["node"] for m in there
    ) == list(range(nodes))


def said(engine: Engine, row: ClusterRow) -> list[str]:
    return [
        event.text for event in engine.ledger.events.of_run(row.run_id) if event.kind in NODE_EVENTS
    ]


def live_of(engine: Engine, row: ClusterRow) -> LiveCluster:
    return engine.live[row.run_id]


def test_a_lost_worker_is_replaced_under_the_same_token_with_its_number(world: EngineWorld) -> None:
    engine, row, cloud = up(world)
    before = engine.ledger.instances.members(row.token)
    lost = take(world, 1)
    world.until(lambda: whole(world, engine, row), "another machine")
    after = engine.ledger.instances.members(row.token)
    assert [i.node for i in after] == [0, 1, 2]
    assert (after[0].id, after[2].id) == (before[0].id, before[2].id)
    assert after[1].id != lost
    assert {i.token for i in after} == {row.token}
    assert {i.place for i in after} == {before[1].place}
    assert cloud.most == 3, "never more billed than the cluster has"
    assert [(x.part, x.numbers, x.count) for x in cloud.launches] == [
        (0, (0, 1, 2), 3),
        (1, (1,), 1),
    ]
    words = said(engine, row)
    assert "node 1 was lost" in words[0]
    assert "2 of 3 machines work, and another is asked for" in words[0]
    assert words[-1].endswith("3 of 3 machines")
    # One price a machine, and none for the lost one.
    assert engine.ledger.prices.hourly_now(row.token) == 3 * row.candidate.offer.hourly
    live = live_of(engine, row)
    world.until(
        lambda: live.nodes[1].instance.id == after[1].id and not live.nodes[1].missing,
        "its connection",
    )

    async def states() -> list[Any]:
        return [(await n.agent.status()).guards for n in live.nodes if n.agent is not None] + [
            await live.nodes[0].agent.gang.peers()
        ]  # type: ignore[union-attr]

    *guards, heard = world.do(engine, states())
    assert len(guards) == 3
    assert sorted(p.node for p in heard if p.heard is not None) == [1, 2], (
        "all agents know each other anew"
    )
    # Another kernel finds it whole, with the guards of each node as they are.
    other = world.engine(Watched)
    again = world.do(other, other.attach("dev"))
    assert [n.instance.id for n in again.nodes] == [i.id for i in after]
    world.do(engine, engine.lifecycle.down(engine.cluster("dev")))
    assert world.alive() == []
    assert engine.ledger.prices.hourly_now(row.token) == 0


def test_a_new_machine_is_told_the_rest_of_lifetime_and_budget(world: EngineWorld) -> None:
    engine, row, _ = up(world, nodes=2)
    engine.ledger.store._connection.execute("UPDATE launches SET created = created - 7200")
    engine.ledger.store._connection.execute("UPDATE price_segments SET started = started - 7200")
    take(world, 1)
    world.until(lambda: whole(world, engine, row, 2), "another machine")

    def told() -> dict[str, Any]:
        (machine,) = [m for m in world.alive() if m["node"] == 1]
        return dict(
            json.loads(
                (
                    world.folder / "i" / machine["id"] / "home" / ".nbprov" / "guards.json"
                ).read_text()
            )["config"]
        )

    first = told()
    assert 8 * 3600 - 120 < first["max_lifetime_seconds"] <= 8 * 3600
    assert first["budget"]["spent_micros"] > 2 * 2 * 3_000_000
    # Whoever attaches anew tells it the same again, and begins no count anew.
    other = world.engine(Watched)
    world.do(other, other.attach("dev"))
    assert told() == first


@pytest.mark.parametrize("kind", ["head", "no engine", "by itself"])
def test_what_cannot_go_on_without_it_ends_as_a_whole(world: EngineWorld, kind: str) -> None:
    engine, row, cloud = up(
        world, nodes=2, text="max_lifetime: 10h" if kind == "no engine" else ENGINE
    )
    if kind == "by itself":
        (machine,) = [m for m in world.alive() if m["node"] == 1]
        (world.folder / "i" / machine["id"] / "poweroff").write_text("terminate\nidle for 60 min\n")
    else:
        take(world, 0 if kind == "head" else 1)
    world.until(
        lambda: engine.ledger.clusters.of_run(row.run_id).state is ClusterState.ENDED, "its end"
    )  # type: ignore[union-attr]
    assert world.alive() == []
    assert len(cloud.launches) == 1
    ended: Any = engine.ledger.clusters.of_run(row.run_id)
    assert "one of its machines is gone" in ended.reason


def test_a_refusal_is_said_and_asked_again_and_the_cluster_goes_on(world: EngineWorld) -> None:
    engine, row, cloud = up(world)
    world.market('[[stock]]\nzone = "here-a"\nleft = 2\n')
    take(world, 2)
    world.until(lambda: sum(x.part > 0 for x in cloud.launches) >= 2, "a second request")
    assert engine.cluster("dev").state is ClusterState.RUNNING
    live = live_of(engine, row)
    with pytest.raises(NodeMissing, match="node 2 was lost"):
        check_there(live.nodes[2])
    assert [n.instance.node for n in live.present] == [0, 1]
    from nbprov.provisioning.supervision.guard_config import cluster_notes, guards_known

    guards: Any = guards_known(engine.ledger, row.run_id)
    (note,) = cluster_notes(engine.ledger, row, guards)
    assert note.startswith("2 of 3 machines: node 2 is not replaced yet: out of stock")
    assert sum("not replaced yet" in text for text in said(engine, row)) == 1, "said once"
    assert engine.ledger.blocks.standing()
    assert engine.ledger.replacements.of_launch(row.token)[0].state is AttemptState.REFUSED
    # Attaching anew copes with the gap.
    other = world.engine(Watched)
    again = world.do(other, other.attach("dev"))
    assert [n.missing for n in again.nodes] == [False, False, True]
    assert (again.notes, again.unheard) == ([], set()), "who is missing is waited for by nobody"
    world.market()
    world.until(lambda: whole(world, engine, row), "another machine")
    assert cloud.most == 3
    assert len({x.key for x in cloud.launches}) == len(cloud.launches)


def test_a_lost_answer_makes_one_machine(world: EngineWorld) -> None:
    engine, row, cloud = up(world, replayable=False)
    world.market(world.fault(do="lose_answer", first=1))
    take(world, 1)
    world.until(lambda: whole(world, engine, row), "another machine")
    assert sum(x.part > 0 for x in cloud.launches) == 1
    assert cloud.most == 3


class Unpriced(Watched):
    """Its listing does not tell what machines cost, as with most clouds.

    Attributes
    ----------
    lost
        How many creates are not carried out, and have no answer.
    """

    lost = 0

    def submit(self, launch: Launch) -> CreateOperation:
        if self.lost:
            self.lost -= 1
            self.launches.append(launch)
            self.on_submit(launch)
            raise CloudError(Failure(Cause.UNKNOWN_OUTCOME, "no answer"))
        return super().submit(launch)

    def list(self, owner: str) -> Any:
        return [replace(i, hourly=0) for i in super().list(owner)]


def test_a_create_that_is_sent_again_is_booked_at_the_dearest_price_at_which_it_was_sent(
    world: EngineWorld,
) -> None:
    engine, row, cloud = up(world, nodes=2, kind=Unpriced)
    prices = iter(("4.5", "4.0"))

    def change_price(launch: Launch) -> None:
        if (hourly := next(prices, None)) is not None:
            world.market("", base=MARKET.replace("hourly = 3.6", f"hourly = {hourly}"))

    assert isinstance(cloud, Unpriced)
    cloud.lost, cloud.on_submit = 2, change_price
    take(world, 1)
    world.until(lambda: whole(world, engine, row, 2), "another machine")
    (asked,) = engine.ledger.replacements.of_launch(row.token)
    sent = [x.candidate.offer.hourly for x in cloud.launches if x.part == 1]
    assert sent == [usd("3.6"), usd("4.5"), usd("4.5")]
    assert asked.launch.candidate.offer.hourly == usd("4.5")
    assert engine.ledger.prices.hourly_now(row.token) == usd("8.1")
    guards = engine.ledger.guards.get(row.run_id)
    assert guards is not None
    assert guards[0]["budget"]["hourly_micros"] == usd("8.1")


def test_machines_that_do_not_come_up_are_ended_and_after_three_no_more_are_asked_for(
    world: EngineWorld,
) -> None:
    engine, row, cloud = up(world, nodes=2, ssh_deadline=0.5)
    world.market(world.fault(do="no_ssh"))
    take(world, 1)
    world.until(
        lambda: any("no more are asked for" in text for text in said(engine, row)), "giving up"
    )
    assert [r.state for r in engine.ledger.replacements.of_launch(row.token)] == [
        AttemptState.GONE
    ] * 3
    assert [m["node"] for m in world.alive()] == [0]
    assert engine.ledger.prices.hourly_now(row.token) == row.candidate.offer.hourly
    assert engine.cluster("dev").state is ClusterState.RUNNING
    assert cloud.most == 2


class Undecided(Watched):
    """Notes a machine that replaces a lost one, and decides on it when the test says so."""

    withheld: Launch | None = None
    is_holding = True
    asked = 0

    def submit(self, launch: Launch) -> CreateOperation:
        if launch.part == 0 or not self.is_holding:
            return super().submit(launch)
        self.launches.append(launch)
        self.withheld = launch
        return CreateOperation(self.name, launch.token, f"op-{launch.key}", {"key": launch.key})

    def poll(self, operation: CreateOperation) -> PollResult:
        if self.withheld is None or operation.data["key"] != self.withheld.key:
            return super().poll(operation)
        self.asked += 1
        return Pending()

    def decide(self) -> None:
        assert self.withheld is not None
        self.is_holding = False
        LocalCloud.submit(self, self.withheld)
        self.withheld = None


@pytest.mark.parametrize("verb", ["down", "stop"])
def test_down_and_stop_take_what_is_under_way_along(world: EngineWorld, verb: str) -> None:
    engine, row, cloud = up(world, nodes=2, kind=Undecided, submit_seconds=WAIT_SECONDS)
    assert isinstance(cloud, Undecided)
    take(world, 1)
    world.until(
        lambda: [
            r for r in engine.ledger.replacements.of_launch(row.token) if r.operation is not None
        ],
        "a request",
    )
    assert sum(x.part > 0 for x in cloud.launches) == 1
    lifecycle, ledger = engine.lifecycle, engine.ledger
    work = engine.thread.call(lifecycle.down(row) if verb == "down" else lifecycle.stop(row))
    if verb == "down":
        world.until(lambda: engine.cluster("dev").state is ClusterState.ENDING, "the end begins")
    else:
        world.until(
            lambda: ledger.replacements.of_launch(row.token)[0].state is AttemptState.ENDING,
            "the stop begins",
        )
    asked = cloud.asked
    world.until(lambda: cloud.asked > asked, "a question whether the machine may come yet")
    assert not work.done(), "what the cloud has not decided on is waited for"
    cloud.decide()
    if verb == "down":
        key = cloud.launches[-1].key
        world.until(
            lambda: (
                DaemonClient(world.folder).call("poll", {"token": key}, timeout=WAIT_SECONDS)[
                    "state"
                ]
                != "pending"
            ),
            "the decision of its create",
        )
        # Its create may be sent again until the deadline, which is over now.
        ledger.store._connection.execute("UPDATE replacements SET deadline = ?", (time.time(),))
        wait_for(work, WAIT_SECONDS)
        assert world.alive() == [], "what the cloud decided on late is taken along"
        assert {r.state for r in ledger.replacements.of_launch(row.token)} <= {AttemptState.GONE}
        assert ledger.prices.hourly_now(row.token) == 0
        return
    wait_for(work, WAIT_SECONDS)
    assert [(m["node"], m["state"]) for m in world.alive()] == [(0, "stopped")]
    world.do(engine, lifecycle.start(engine.cluster("dev")))
    world.until(lambda: whole(world, engine, row, 2), "another machine after the start")


def test_what_comes_too_late_is_ended(world: EngineWorld) -> None:
    engine, row, cloud = up(world, nodes=2)
    launch = engine.ledger.launches.of_run(row.run_id)[0].launch
    from dataclasses import replace

    from nbprov.remote.boot.user_data import template_values

    keys = live_of(engine, row).keys
    cloud.submit(
        replace(
            launch,
            part=7,
            nodes=(1,),
            count=1,
            answer_by=0.0,
            template_values=template_values(keys),
        )
    )
    world.until(lambda: len(world.alive()) == 3, "a machine too many")
    world.until(lambda: len(world.alive()) == 2, "its end")
    assert {m["id"] for m in world.alive()} == set(engine.ledger.launches.ids_of(row.token))
    assert any("made too late" in text for text in said(engine, row))


def test_a_dearer_price_and_a_guard_that_is_due_keep_it_from_being_asked_for(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, row, cloud = up(world, nodes=2)
    world.market("", base=MARKET.replace("hourly = 3.6", "hourly = 7.3"))
    take(world, 1)
    world.until(
        lambda: any("that Launch agreed to" in text for text in said(engine, row)), "the reason"
    )
    world.market()
    engine.ledger.store._connection.execute("UPDATE launches SET created = created - 35800")
    world.until(
        lambda: any("its lifetime is over in" in text for text in said(engine, row)), "the reason"
    )
    assert len(cloud.launches) == 1


@pytest.mark.parametrize("moment", ["intent", "up"])
def test_a_kernel_that_dies_leaves_it_to_the_next(
    world: EngineWorld, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, row, _ = up(world, nodes=2)
    reached = asyncio.Event()

    async def hang(*args: Any, **options: Any) -> Any:
        reached.set()
        await asyncio.Event().wait()

    targets: dict[str, tuple[type, str]] = {
        "intent": (ReplacementCreate, "_send"),
        "up": (NodeBringUp, "connect"),
    }
    with monkeypatch.context() as patch:
        patch.setattr(*targets[moment], hang)
        take(world, 1)
        world.until(reached.is_set, moment)
        world.abandon(engine)
    world.engines.remove(engine)
    other = world.engine(Watched)
    world.take_up(other)
    world.until(lambda: whole(world, other, row, 2), "the machine of the next kernel")
    assert len(other.ledger.replacements.of_launch(row.token)) == 1
    assert other.cloud("local").adapter.most <= 2  # type: ignore[attr-defined]


def test_two_kernels_replace_it_once(world: EngineWorld) -> None:
    engine, row, cloud = up(world, nodes=2)
    other = world.engine(Watched)
    there = world.do(other, other.attach("dev"))
    world.do(other, _watch(other))
    take(world, 1)
    world.until(lambda: whole(world, engine, row, 2), "another machine")
    second = other.cloud("local").adapter
    assert isinstance(second, Watched)
    assert len(cloud.launches) + len(second.launches) == 2
    assert max(cloud.most, second.most) == 2
    new = engine.ledger.instances.members(row.token)[1].id
    world.until(
        lambda: there.nodes[1].instance.id == new and there.nodes[1].agent is not None,
        "the other kernel's connection",
    )


async def _watch(engine: Engine) -> None:
    engine.lifecycle.watch()


def test_the_pause_doubles_and_starts_anew_after_a_success() -> None:
    from nbprov.provisioning.ledger import ReplacementRow

    def row(state: AttemptState, cause: Cause | None = Cause.CAPACITY) -> ReplacementRow:
        failure = None if cause is None else Failure(cause, "x")
        launch: Any = None
        return ReplacementRow("t", 1, "r", 1, state, launch, None, "", failure, 0, 0.0, 0.0, 100.0)

    refused, broken = row(AttemptState.REFUSED), row(AttemptState.GONE, Cause.UNHEALTHY)
    first, last = policy.FIRST_PAUSE, policy.LAST_PAUSE
    due = policy.due_at
    assert due([]) == 0.0
    assert [due([refused] * n) for n in (1, 2, 3)] == [
        100 + first,
        100 + 2 * first,
        100 + 4 * first,
    ]
    assert due([refused] * 60) == 100 + last
    assert due([refused] * 5 + [row(AttemptState.READY, None)]) == 0.0
    assert due([row(AttemptState.REFUSED, Cause.PERMISSION)]) == 100 + policy.SELDOM
    assert due([broken, refused, broken]) is not None
    assert due([broken, refused, broken, broken]) is None
    assert due([broken, broken, broken, row(AttemptState.READY, None)]) == 0.0
    assert due([row(AttemptState.GONE, Cause.CANCELLED)] * 4) == 0.0
