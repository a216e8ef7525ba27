"""The real engine over Google Cloud's double with real machines.

Power-offs, stops that meet them, ends that fail, and another project.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "contract"))
sys.path.insert(0, str(Path(__file__).parents[2] / "doubles"))

from clouds_under_test import own_folder
from gcp_double import OTHER_PROJECT, GcpDouble

from nbprov.api.launching.cluster_start import NoRoom, start_cluster
from nbprov.catalog import Query, default_catalog
from nbprov.clouds.gcp import make
from nbprov.clouds.gcp.provisioner import GcpCloud
from nbprov.model.clusters import ClusterState
from nbprov.model.offers import Candidate, Plan
from nbprov.provisioning.engine import Engine
from nbprov.provisioning.ledger import ClusterRow
from nbprov.provisioning.reconcile import ReconcileReport, reconcile
from nbprov.runtime.waiting import wait_for
from nbprov.spec import parse

pytestmark = pytest.mark.machine

WAIT_SECONDS = 120.0
SPEC = "resources: {infra: gcp/us-central1, accelerators: L4}"


class World:
    """One double, one home, and engines that use them."""

    def __init__(self, home: Path, double: GcpDouble) -> None:
        self.home, self.double = home, double
        self.engines: list[Engine] = []

    def engine(self, **changes: Any) -> Engine:
        cloud = make()
        assert isinstance(cloud, GcpCloud)
        quick = {"settle": 0.5, "submit_seconds": 30.0, "poll_every": 0.05} | changes
        cloud.capabilities = replace(cloud.capabilities, **quick)
        made = Engine(self.home, clouds=lambda _: cloud, lease_seconds=4.0)
        self.engines.append(made)
        return made

    def do(self, engine: Engine, work: Coroutine[Any, Any, Any]) -> Any:
        return wait_for(engine.thread.call(work), WAIT_SECONDS)

    def launch(self, engine: Engine, text: str = "", market: str = "on-demand") -> ClusterRow:
        spec = parse(f"{SPEC}\n{text}")
        request = spec.requests[0]
        offers = default_catalog().offers(
            Query(cloud=("gcp",), region=("us-central1",), accelerator=("L4",), count=1)
        )
        chosen = next(o for o in offers if o.market.value == market and o.zone == "us-central1-a")
        candidate = Candidate(chosen, request, 0, 1, engine.cloud("gcp").adapter.check().account)
        driver = engine.prepare_run("dev", spec, Plan(spec, [candidate], dearest=candidate))
        self.do(engine, engine.launch(driver, folder=""))
        wait_for(driver.finished, WAIT_SECONDS)
        return engine.cluster("dev")

    def machine(self, engine: Engine) -> str:
        (found,) = {i.id for i in engine.ledger.instances.of_launch(engine.cluster("dev").token)}
        return found

    def state(self, engine: Engine, row: ClusterRow) -> ClusterState:
        found = engine.ledger.clusters.of_run(row.run_id)
        assert found is not None
        return found.state

    def power_off(self, engine: Engine) -> None:
        """What a guard does from inside.

        Nobody asks Google, whose record alone tells what happened.
        """
        self.double.tell("poweroff", id=self.machine(engine))

    def machines(self) -> list[str]:
        return [m["name"] for m in self.double.tell("state")["machines"]]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    folder = own_folder("ge")
    with GcpDouble(folder) as double:
        for name, value in double.env.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("NBPROV_CATALOG_REFRESH", "off")
        made = World(Path(os.environ["NBPROV_HOME"]), double)
        try:
            yield made
        finally:
            for engine in made.engines:
                engine.shut_down()
        assert double.problems == []


def eventually(look: Callable[[], Any], seconds: float = WAIT_SECONDS) -> float:
    """Seconds until something is so."""
    began = time.monotonic()
    while not look():
        assert time.monotonic() - began < seconds, "not in time"
        time.sleep(0.02)
    return time.monotonic() - began


def test_machine_that_powers_itself_off_ends_its_cluster(world: World) -> None:
    engine = world.engine()
    row = world.launch(engine)
    world.power_off(engine)
    eventually(lambda: world.state(engine, row) is ClusterState.ENDED)
    assert world.machines() == []
    assert world.double.tell("state")["disks"] == []


def test_stop_that_meets_a_power_off_ends_in_a_state_that_holds(world: World) -> None:
    engine = world.engine()
    row = world.launch(engine)
    world.power_off(engine)
    verb = engine.thread.call(engine.lifecycle.stop(engine.cluster("dev")))
    eventually(lambda: verb.done())
    eventually(lambda: world.state(engine, row) in (ClusterState.ENDED, ClusterState.STOPPED))
    if world.state(engine, row) is ClusterState.STOPPED:
        assert len(world.machines()) == 1
        world.do(engine, engine.lifecycle.down(engine.cluster("dev")))
    assert world.machines() == []


def test_power_off_while_no_kernel_lives_is_finished_by_the_next(world: World) -> None:
    engine = world.engine()
    row = world.launch(engine)
    world.power_off(engine)
    engine.shut_down()
    again = world.engine()
    world.do(again, reconcile(again, ReconcileReport()))
    eventually(lambda: world.state(again, row) is ClusterState.ENDED)
    assert world.machines() == []


def test_machine_in_another_project_than_the_notebooks_is_not_given_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = world.engine()
    row = world.launch(engine)
    engine.shut_down()
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", OTHER_PROJECT)
    other = world.engine()
    for _ in range(2):  # what is missing twice, a while apart, counts as gone
        world.do(other, reconcile(other, ReconcileReport()))
        world.do(other, other.lifecycle.observe(other.cloud("gcp")))
        time.sleep(0.6)
    assert world.state(other, row) is ClusterState.RUNNING
    assert len(world.machines()) == 1
    world.do(other, other.lifecycle.down(other.cluster("dev")))
    assert world.machines() == []


def test_a_start_without_room_stays_in_its_zone_and_gets_room_there_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbprov.api.launching.cluster_start.FIRST_PAUSE", 0.05)
    engine = world.engine()
    row = world.launch(engine)
    world.do(engine, engine.lifecycle.stop(engine.cluster("dev")))
    world.double.add_fault(call="start", do="capacity")
    said: list[str] = []

    def start(wait: float) -> Coroutine[Any, Any, None]:
        current = engine.cluster("dev")
        return start_cluster(
            engine,
            current,
            spec=None,
            agreed=False,
            wait=wait,
            say=said.append,
            given_up=asyncio.Event(),
        )

    with pytest.raises(
        NoRoom, match="dev stays stopped: its disk is in gcp/us-central1/us-central1-a"
    ):
        world.do(engine, start(0.0))
    assert world.state(engine, row) is ClusterState.STOPPED
    world.double.add_fault(call="start", do="capacity")
    world.do(engine, start(WAIT_SECONDS))
    assert len(said) == 1
    (machine,) = world.double.tell("state")["machines"]
    assert machine["zone"].endswith("us-central1-a")
    world.do(engine, engine.lifecycle.down(engine.cluster("dev")))
    assert world.machines() == []
