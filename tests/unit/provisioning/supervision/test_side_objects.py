"""Side objects of launches: written down, removed when they are nobody's, and kept otherwise."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pytest
from engine_world import EngineWorld
from manual_clock import ManualClock
from odd_clouds import CloudWithSides
from provisioning_samples import candidate, launch_row

from nbprov.model.clusters import AttemptState, RunState
from nbprov.model.events import EventKind
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import CreateOperation, Instance, InstanceState, Launch, SideObject
from nbprov.provisioning import orphans
from nbprov.provisioning.engine import Engine
from nbprov.provisioning.ledger import Ledger, SideState
from nbprov.provisioning.ledger.side_objects import DOUBT_SECONDS, REMOVED_KEPT
from nbprov.provisioning.live_rows import has_live_rows
from nbprov.provisioning.run.driver import RunDriver
from nbprov.provisioning.supervision import side_objects as module
from nbprov.provisioning.supervision.side_objects import UNKNOWN_SECONDS

machine = pytest.mark.machine


def _world(world: EngineWorld) -> tuple[Engine, CloudWithSides]:
    engine = world.engine(CloudWithSides)
    cloud = engine.cloud("local").adapter
    assert isinstance(cloud, CloudWithSides)
    return engine, cloud


def _up(world: EngineWorld, engine: Engine) -> RunDriver:
    driver = world.launch(engine, world.prepare(engine))
    assert world.finish(driver) is RunState.READY
    return driver


def _states(engine: Engine) -> dict[str, SideState]:
    return {row.object.id: row.state for row in engine.ledger.side_objects.listed(all_of_them=True)}


# ---------------------------------------------------------------- on a cloud


@machine
def test_what_a_launch_leaves_is_written_down_and_goes_with_its_cluster(world: EngineWorld) -> None:
    engine, cloud = _world(world)
    driver = _up(world, engine)
    disk = f"disk-{driver.view().attempts[0].token[:8]}"
    world.until(lambda: set(_states(engine)) == {disk, "group"}, "both are in the ledger")
    assert [row.object.id for row in engine.side_objects.left()] == [disk]
    world.do(engine, engine.lifecycle.down(engine.cluster("dev")))
    world.until(lambda: _states(engine)[disk] is SideState.REMOVED, "the list shows it no more")
    assert cloud.removed == [disk]
    assert _states(engine)["group"] is SideState.THERE, "it serves all launches"
    assert not has_live_rows(engine.ledger.store.path)
    assert (EventKind.SIDE_OBJECT_REMOVED, f"disk {disk} is removed") in [
        (e.kind, e.text) for e in engine.ledger.events.of_run(driver.run_id)
    ]


@machine
def test_what_a_refused_launch_left_goes_at_the_end_of_the_run(world: EngineWorld) -> None:
    engine, cloud = _world(world)
    world.market('[[stock]]\nzone = "here-a"\nleft = 0\n')
    driver = _up(world, engine)
    refused, won = (f"disk-{a.token[:8]}" for a in driver.view().attempts)
    world.until(lambda: _states(engine).get(refused) is SideState.REMOVED, "it is gone")
    assert won in cloud.objects


@machine
def test_the_list_of_another_account_tells_nothing(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbprov.provisioning.async_cloud.ACCOUNT_KEPT", 0.0)
    engine, cloud = _world(world)
    driver = _up(world, engine)
    disk = f"disk-{driver.view().attempts[0].token[:8]}"
    world.until(lambda: disk in _states(engine), "it is in the ledger")
    cloud.account = "other"
    world.do(engine, engine.side_objects.look("local"))
    assert _states(engine)[disk] is SideState.THERE
    cloud.account = ""
    cloud.objects.pop(disk)
    world.do(engine, engine.side_objects.look("local"))
    assert _states(engine)[disk] is SideState.REMOVED


@machine
def test_who_may_not_list_them_has_none_or_is_told(world: EngineWorld) -> None:
    engine, cloud = _world(world)
    cloud.not_listed = Failure(Cause.PERMISSION, "not with this key")
    assert world.do(engine, engine.side_objects.look("local")).is_done
    cloud.not_listed = None
    _up(world, engine)
    world.until(lambda: _states(engine), "they are in the ledger")
    cloud.not_listed = Failure(Cause.PERMISSION, "not with this key")
    with pytest.raises(CloudError, match="not with this key"):
        world.do(engine, engine.side_objects.look("local"))


@machine
def test_what_is_in_use_is_tried_again(world: EngineWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, cloud = _world(world)
    driver = _up(world, engine)
    disk = f"disk-{driver.view().attempts[0].token[:8]}"
    cloud.held.add(disk)
    world.do(engine, engine.lifecycle.down(engine.cluster("dev")))
    world.until(lambda: _states(engine).get(disk) is SideState.IN_USE, "it cannot be removed yet")
    assert has_live_rows(engine.ledger.store.path)
    assert [row.reason for row in engine.side_objects.left()] == ["still in use"]
    monkeypatch.setattr(module, "MOST_PAUSE", 0.1)
    cloud.held.clear()
    world.until(lambda: _states(engine)[disk] is SideState.REMOVED, "it is gone")


@machine
def test_a_refusal_is_told_at_load_and_does_not_keep_the_rest_from_it(world: EngineWorld) -> None:
    engine, cloud = _world(world)
    driver = _up(world, engine)
    disk = f"disk-{driver.view().attempts[0].token[:8]}"
    cloud.refusal = Failure(Cause.PERMISSION, "ec2:DeleteVolume is not allowed")
    world.do(engine, engine.lifecycle.down(engine.cluster("dev")))
    world.until(
        lambda: [r.reason for r in engine.side_objects.left()] == [cloud.refusal.sentence()],
        "why it is there still",
    )  # type: ignore[union-attr]
    world.abandon(engine)
    second = world.engine(lambda _: cloud)
    told = world.take_up(second)
    assert f"disk {disk} in here (permission missing: ec2:DeleteVolume is not allowed)" in told
    cloud.refusal = None
    world.take_up(second)
    world.until(lambda: _states(second)[disk] is SideState.REMOVED, "it is gone")


@machine
def test_a_kernel_that_is_killed_before_it_looked_leaves_nothing(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, cloud = _world(world)
    monkeypatch.setattr(engine.side_objects, "soon", lambda name: None)
    monkeypatch.setattr(engine.side_objects, "now_and_then", lambda *_: None)
    driver = world.launch(engine, _deaf(world.prepare(engine)))
    assert world.finish(driver) is RunState.READY
    world.do(engine, engine.lifecycle.down(engine.cluster("dev")))
    assert list(cloud.objects) == [f"disk-{driver.view().attempts[0].token[:8]}", "group"]
    assert has_live_rows(engine.ledger.store.path), "there may be something that nobody has listed"
    world.abandon(engine)
    second = world.engine(lambda _: cloud)
    world.take_up(second)
    world.until(lambda: list(cloud.objects) == ["group"], "it is removed")
    world.until(lambda: not has_live_rows(second.ledger.store.path), "and the ledger knows")


def _deaf(driver: RunDriver) -> RunDriver:
    driver.context.listeners.on_side_objects = lambda cloud, is_over: None
    return driver


@machine
def test_what_no_launch_of_the_ledger_made_is_left_alone_for_ten_minutes(
    world: EngineWorld,
) -> None:
    engine, cloud = _world(world)
    stray = cloud.make(engine.ledger.owner, "stray", "f" * 32)
    strangers = cloud.make("somebody-else", "theirs", "e" * 32)
    nameless = cloud.make(engine.ledger.owner, "nameless", "")
    found = world.do(engine, engine.side_objects.look("local"))
    assert (found.asked, set(found.later)) == ((), {stray, nameless})
    with engine.ledger.store.transaction() as db:
        db.execute("UPDATE side_objects SET since = since - ?", (UNKNOWN_SECONDS,))
    assert set(world.do(engine, engine.side_objects.look("local")).asked) == {stray, nameless}
    assert list(cloud.objects.values()) == [("somebody-else", strangers)]


@machine
def test_what_names_no_launch_may_serve_one_that_lives(world: EngineWorld) -> None:
    engine, cloud = _world(world)
    _up(world, engine)
    nameless = cloud.make(engine.ledger.owner, "nameless", "")
    world.do(engine, engine.side_objects.look("local"))
    with engine.ledger.store.transaction() as db:
        db.execute("UPDATE side_objects SET since = since - ?", (UNKNOWN_SECONDS,))
    assert world.do(engine, engine.side_objects.look("local")).later == (nameless,)


@machine
def test_what_a_launch_that_lives_uses_is_never_asked_for(world: EngineWorld) -> None:
    engine, cloud = _world(world)
    driver = _up(world, engine)
    with engine.ledger.store.transaction() as db:
        db.execute("UPDATE side_objects SET since = 0")
    other = world.engine(lambda _: cloud)
    assert world.do(other, other.side_objects.look("local")).is_done
    assert cloud.removed == []
    assert driver.view().attempts[0].state is AttemptState.READY


@machine
def test_many_creates_cost_one_look(world: EngineWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = _world(world)
    asked: list[str] = []
    monkeypatch.setattr(engine.side_objects, "soon", asked.append)

    async def story() -> None:
        for _ in range(5):
            engine.side_objects.told("local", False)
            engine.side_objects._looked["local"] = engine.clock.elapsed()
        engine.side_objects.now_and_then("local")
        assert asked == ["local"]
        engine.side_objects.told("local", True)
        assert asked == ["local", "local"], "the end of a run is always looked at"

    world.do(engine, story())


@machine
def test_a_cloud_that_leaves_nothing_is_never_listed_for_it(world: EngineWorld) -> None:
    engine = world.engine()
    driver = _up(world, engine)
    assert not engine.cloud("local").leaves_side_objects
    assert engine.ledger.side_objects.listed() == []
    world.do(engine, engine.lifecycle.down(engine.cluster(driver.name)))
    assert not has_live_rows(engine.ledger.store.path)


# ---------------------------------------------------------------- in the ledger


def _thing(id: str = "vol-1", token: str = "t1", **more: Any) -> SideObject:
    return SideObject("aws", "east", "volume", id, token, **more)


def test_what_comes_back_after_it_was_removed_begins_anew(
    ledger: Ledger, clock: ManualClock
) -> None:
    ledger.side_objects.seen("aws", [_thing()])
    clock.advance(60)
    ledger.side_objects.seen("aws", [])
    assert ledger.side_objects.listed() == []
    clock.advance(60)
    ledger.side_objects.seen("aws", [_thing()])
    (row,) = ledger.side_objects.listed()
    assert (row.state, row.since) == (SideState.THERE, clock.now())


def test_a_listing_of_one_cloud_says_nothing_of_another(ledger: Ledger) -> None:
    ledger.side_objects.seen("aws", [_thing()])
    ledger.side_objects.seen("gcp", [])
    assert [row.object for row in ledger.side_objects.listed("aws")] == [_thing()]
    assert ledger.side_objects.clouds() == {"aws"}


def test_what_is_being_removed_stays_so_while_the_list_still_shows_it(ledger: Ledger) -> None:
    ledger.side_objects.seen("aws", [_thing(), _thing("vol-2")])
    ledger.side_objects.tried(
        {_thing(): (SideState.REMOVING, ""), _thing("vol-2"): (SideState.IN_USE, "still in use")}
    )
    ledger.side_objects.seen("aws", [_thing(), _thing("vol-2")])
    assert {r.object.id: (r.state, r.reason) for r in ledger.side_objects.listed()} == {
        "vol-1": (SideState.REMOVING, ""),
        "vol-2": (SideState.IN_USE, "still in use"),
    }


def test_what_was_removed_is_forgotten_after_a_week(ledger: Ledger, clock: ManualClock) -> None:
    ledger.side_objects.seen("aws", [_thing()])
    ledger.side_objects.seen("aws", [])
    clock.advance(REMOVED_KEPT + 1)
    ledger.side_objects.seen("aws", [_thing("vol-2")])
    assert [row.object.id for row in ledger.side_objects.listed(all_of_them=True)] == ["vol-2"]


def test_a_launch_is_remembered_until_a_list_was_made_after_its_end(ledger: Ledger) -> None:
    ledger.runs.open(
        "run-1", "dev", "name: dev", folder="", race=1, consent=5, state=RunState.LAUNCHING
    )
    ledger.launches.intend(launch_row("t1", candidate()))
    ledger.side_objects.expect("aws", "t1")
    assert ledger.side_objects.over("aws") == set()
    ledger.side_objects.seen("aws", [], ledger.side_objects.over("aws"))
    assert ledger.side_objects.clouds() == {"aws"}, "it lives, and may leave something yet"
    ledger.launches.failed("t1", Failure(Cause.CAPACITY, "none left"), AttemptState.REFUSED)
    ledger.side_objects.seen("aws", [], ledger.side_objects.over("aws"))
    assert ledger.side_objects.clouds() == set()


# ---------------------------------------------------------------- creates that make something late


class LateCloud(CloudWithSides):
    """Loses the answer of a create, and does not list its machine before the test says so."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.is_hidden = True
        self.is_lossy = True

    def submit(self, launch: Launch) -> CreateOperation:
        made = super().submit(launch)
        if self.is_lossy:
            self.is_lossy = False
            raise CloudError(Failure(Cause.UNKNOWN_OUTCOME, "the answer was lost"))
        return made

    def list(self, owner: str) -> builtins.list[Instance]:
        return [] if self.is_hidden else super().list(owner)

    def find(self, owner: str) -> builtins.list[Instance]:
        """What there is, whether it is listed or not."""
        return [
            i
            for i in super().list(owner)
            if i.state not in (InstanceState.GONE, InstanceState.ENDING)
        ]


def _lost(world: EngineWorld, monkeypatch: pytest.MonkeyPatch) -> tuple[Engine, LateCloud]:
    """A run cancelled after its create was concluded to have made nothing; its machine runs."""
    monkeypatch.setattr(orphans, "LATE_PAUSES", (0.05,))
    # Long enough to begin, and to be seen as unknown, on a busy machine, before it counts as gone.
    engine = world.engine(LateCloud, settle=2.0, submit_seconds=2.0, replayable=False)
    cloud = engine.cloud("local").adapter
    assert isinstance(cloud, LateCloud)
    driver = world.launch(engine, world.prepare(engine))
    world.until(
        lambda: [a.state for a in driver.failover.attempts.values()][:1] == [AttemptState.UNKNOWN],
        "the answer is lost",
    )
    engine.thread.soon(driver.cancel)
    assert world.finish(driver) is RunState.CANCELLED
    assert [a.state for a in driver.failover.attempts.values()] == [AttemptState.ABSENT]
    assert len(cloud.find(engine.ledger.owner)) == 1
    return engine, cloud


@machine
def test_a_machine_that_comes_after_its_create_was_given_up_is_ended(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, cloud = _lost(world, monkeypatch)
    cloud.is_hidden = False
    world.until(
        lambda: not cloud.find(engine.ledger.owner), "it is found and ended by the same kernel"
    )


@machine
def test_the_next_kernel_looks_for_a_machine_that_may_come_late(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, cloud = _lost(world, monkeypatch)
    world.until(lambda: "local" in first.side_objects._looked, "its side objects were looked at")
    world.abandon(first)
    cloud.is_hidden = False
    assert has_live_rows(world.home / "ledger.sqlite3"), "a load looks"
    second = world.engine()
    assert "its launch counts as over: ended, confirmed" in world.take_up(second)
    assert cloud.find(second.ledger.owner) == []


def test_what_a_doubtful_launch_left_is_kept_until_the_doubt_is_over(
    ledger: Ledger, clock: ManualClock
) -> None:
    ledger.runs.open(
        "run-1", "dev", "name: dev", folder="", race=1, consent=5, state=RunState.LAUNCHING
    )
    ledger.launches.intend(launch_row("t1", candidate()))
    ledger.side_objects.expect("aws", "t1")
    ledger.launches.move("t1", AttemptState.ABSENT)
    assert (
        ledger.side_objects.doubted("aws"),
        ledger.side_objects.doubted("gcp"),
        ledger.side_objects.over("aws"),
    ) == (
        {"t1"},
        set(),
        set(),
    )
    ledger.side_objects.seen("aws", [], ledger.side_objects.over("aws"))
    assert ledger.side_objects.clouds() == {"aws"}
    clock.advance(DOUBT_SECONDS + 1)
    assert (ledger.side_objects.doubted("aws"), ledger.side_objects.over("aws")) == (set(), {"t1"})
