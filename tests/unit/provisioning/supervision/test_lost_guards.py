"""A real machine that lost its guards: a kernel sets them again, else it ends itself."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from engine_world import EngineWorld

from nbprov.clouds.local.daemon import processes
from nbprov.model.clusters import ClusterState, RunState
from nbprov.model.events import EventKind
from nbprov.model.guards import Autostop
from nbprov.model.launches import InstanceState
from nbprov.model.money import usd
from nbprov.provisioning.engine import Engine
from nbprov.provisioning.supervision import cloud_watcher
from nbprov.provisioning.supervision.guard_config import cluster_notes, guards_known

pytestmark = pytest.mark.machine

STATES = ("guards.json", "guards.copy.json")
HOUR = 3600.0


def _ready(world: EngineWorld, engine: Engine) -> Path:
    """A running cluster with all three guards; the folder of its agent."""
    spec, plan = world.plan(engine, text="max_lifetime: 10h\nbudget: 50")
    guards = replace(spec.guards, autostop=Autostop(2 * HOUR, down=False))
    spec = replace(spec, guards=guards)
    driver = engine.prepare_run("dev", spec, replace(plan, spec=spec))
    assert world.finish(world.launch(engine, driver)) is RunState.READY
    (machine,) = world.alive()
    return world.folder / "i" / str(machine["id"]) / "home" / ".nbprov"


def _end_agent(folder: Path, meanwhile: Callable[[], None]) -> None:
    """End the agent, which comes back by itself, and do something while it does not run."""
    ours = [p.pid for p in processes.of_machine(folder.parent.parent.name)]
    agents = [pid for pid in ours if _is_agent(pid)]
    assert agents
    for number, then in ((signal.SIGSTOP, meanwhile), (signal.SIGKILL, lambda: None)):
        for pid in agents:
            os.kill(pid, number)
        then()


def _is_agent(pid: int) -> bool:
    words = Path(f"/proc/{pid}/cmdline").read_bytes()
    return b"nbprov-agent" in words and b"connect" not in words.split(b"\0")


def _damage(folder: Path) -> None:
    for name in STATES:
        (folder / name).write_text('{"age": 12, "config"')


def _let_an_hour_pass(folder: Path) -> None:
    for name in STATES:
        saved = _saved(folder)
        (folder / name).write_text(json.dumps({**saved, "running": saved["running"] + HOUR}))


def _is_unset(folder: Path) -> bool:
    return _saved(folder).get("unset_since") is not None


def _saved(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / "guards.json").read_text())
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _reports(engine: Engine) -> list[str]:
    row = engine.cluster("dev")
    events = engine.ledger.events.of_run(row.run_id)
    return [e.text for e in events if e.kind is EventKind.GUARDS_SET_AGAIN]


def _spend(engine: Engine, hours: float) -> None:
    engine.ledger.store._connection.execute(
        "UPDATE price_segments SET started = started - ?", (hours * HOUR,)
    )


def test_the_kernel_that_is_connected_sets_lost_guards_again_and_says_so_once(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloud_watcher, "LEAST_WATCH", 0.05)
    engine = world.engine()
    folder = _ready(world, engine)
    config = _saved(folder)["config"]
    assert _reports(engine) == [], "the guards of a new machine were not lost"
    _spend(engine, 2)
    _end_agent(folder, partial(_damage, folder))
    world.until(lambda: _saved(folder).get("config"), "guards")
    again = _saved(folder)
    spent = again["config"]["budget"].pop("spent_micros")
    assert again["config"] == {
        **config,
        "budget": {k: v for k, v in config["budget"].items() if k != "spent_micros"},
    }
    assert again["carried"] == spent >= usd("7.2"), "what was spent before the loss stays counted"
    world.until(lambda: _reports(engine), "the report")
    row = engine.cluster("dev")
    guards = guards_known(engine.ledger, row.run_id)
    assert guards is not None
    (note,) = cluster_notes(engine.ledger, row, guards)
    assert _reports(engine) == [note]
    assert note.startswith("a machine of it had lost its guards (seen ")
    assert note.endswith(f"; they are set again: {guards.words()}")
    assert "\n" not in note


def test_the_next_kernel_that_connects_sets_them_again_from_the_ledger(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloud_watcher, "LEAST_WATCH", 0.05)
    first = world.engine()
    folder = _ready(world, first)
    _spend(first, 2)
    world.abandon(first)
    _end_agent(folder, partial(_damage, folder))
    second = world.engine()
    world.until(lambda: _is_unset(folder), "an agent without guards")
    assert _saved(folder)["config"] == {}
    world.do(second, second.attach("dev"))
    assert _saved(folder)["config"]["max_lifetime_seconds"] == 36_000
    assert _saved(folder)["carried"] >= usd("7.2")
    world.take_up(second)
    world.until(lambda: len(_reports(second)) == 1, "the report")
    world.abandon(second)
    third = world.engine()
    world.do(third, third.attach("dev"))
    world.take_up(third)
    assert len(_reports(third)) == 1, "they were there"


def test_a_machine_that_nobody_comes_to_stops_itself_as_its_guards_would(
    world: EngineWorld,
) -> None:
    engine = world.engine()
    folder = _ready(world, engine)
    world.abandon(engine)
    _end_agent(folder, partial(_damage, folder))
    world.until(lambda: _is_unset(folder), "an agent without guards")
    _end_agent(folder, partial(_let_an_hour_pass, folder))
    second = world.engine()
    (machine,) = world.until(
        lambda: [m for m in world.alive() if m["state"] == InstanceState.STOPPED.value], "the stop"
    )
    assert machine["reason"] == ("powered itself off: unset: no kernel set its guards for 3600 s")
    world.take_up(second)
    assert second.cluster("dev").state is ClusterState.STOPPED
    world.do(second, second.lifecycle.start(second.cluster("dev")))
    assert _saved(folder)["config"]["max_lifetime_seconds"] == 36_000
    assert _reports(second) == [], "a start sets guards in any case"
