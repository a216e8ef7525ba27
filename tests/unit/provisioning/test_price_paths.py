"""On no path is anything bought or kept that costs more than was agreed to.

The `local` cloud quotes what the test says, and its listing charges what the test says.
"""

from __future__ import annotations

import ast
import builtins
from dataclasses import replace
from pathlib import Path

import pytest
from engine_world import EngineWorld
from provisioning_samples import launch

import nbprov.provisioning
from nbprov.clouds.local.provisioner import LocalCloud
from nbprov.model.clusters import ClusterState, RunState
from nbprov.model.errors import UsageError
from nbprov.model.events import EventKind
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import CreateOperation, Instance, Launch, Quote
from nbprov.model.money import Micros, usd
from nbprov.model.offers import Candidate
from nbprov.provisioning.engine import Engine
from nbprov.provisioning.replacement import node_replacer, policy
from nbprov.provisioning.run.actions import partial_gang
from nbprov.provisioning.run.pricing import price_check
from nbprov.provisioning.run.pricing.price_check import PriceCheck, TooDear
from nbprov.provisioning.supervision import cloud_watcher, price_guard

pytestmark = pytest.mark.machine

CHEAP, DEAR = usd("0.11"), usd(5)
AGREED = CHEAP
"""What Launch agreed to for each node: the plan's places all cost this."""


class LyingCloud(LocalCloud):
    """A cloud whose quote and whose bill the test sets.

    Attributes
    ----------
    quoted, charged
        What a quote says, and what the listing says that machines cost.
    bought
        The quote that held at each create and each start.
    lost
        How many creates are not carried out, and have no answer.
    rises, risen
        The quote becomes `risen` right after the next request of this kind.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.quoted: Micros = CHEAP
        self.charged: Micros = CHEAP
        self.bought: builtins.list[Micros] = []
        self.lost, self.rises, self.risen = 0, "", DEAR

    def quote(self, candidate: Candidate) -> Quote | None:
        try:
            return Quote(self.quoted, "test", 0.0)
        finally:
            self._rise("quote")

    def submit(self, launch: Launch) -> CreateOperation:
        self.bought.append(self.quoted)
        try:
            if self.lost:
                self.lost -= 1
                raise CloudError(Failure(Cause.UNKNOWN_OUTCOME, "no answer"))
            return super().submit(launch)
        finally:
            self._rise("submit")

    def start(self, ids: object) -> None:
        self.bought.append(self.quoted)
        super().start(ids)  # type: ignore[arg-type]
        self._rise("start")

    def list(self, owner: str) -> builtins.list[Instance]:
        return [replace(i, hourly=self.charged) for i in super().list(owner)]

    def _rise(self, when: str) -> None:
        if self.rises == when:
            self.quoted = self.risen


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud_watcher, "LEAST_WATCH", 0.05)
    monkeypatch.setattr(policy, "FIRST_PAUSE", 0.3)
    monkeypatch.setattr(node_replacer, "NOT_NOW_PAUSE", 0.2)
    monkeypatch.setattr(partial_gang, "HOLD_SECONDS", 5.0)
    monkeypatch.setattr(partial_gang, "ASK_EVERY", 0.2)


CHEAP_MARKET = "[[prices]]\nhourly = 0.11\n"


def kernel(world: EngineWorld, more: str = "") -> tuple[Engine, LyingCloud]:
    """A kernel on a cloud that sells everything for $0.11."""
    world.market(CHEAP_MARKET + more)
    engine = world.engine(LyingCloud, submit_seconds=2.0)
    adapter = engine.cloud("local").adapter
    assert isinstance(adapter, LyingCloud)
    return engine, adapter


def up(world: EngineWorld, nodes: int = 1, text: str = "") -> tuple[Engine, LyingCloud]:
    """A running cluster of $0.11 a node."""
    engine, cloud = kernel(world)
    driver = world.launch(engine, world.prepare(engine, nodes=nodes, text=text))
    assert world.finish(driver) is RunState.READY
    return engine, cloud


def create_again(world: EngineWorld) -> LyingCloud:
    """The answer to a create is lost, and the price rises before it is sent again."""
    engine, cloud = kernel(world)
    cloud.lost, cloud.rises = 1, "submit"
    driver = world.launch(engine, world.prepare(engine))
    assert world.finish(driver) is RunState.FAILED
    return cloud


def rest_of_a_gang(world: EngineWorld) -> LyingCloud:
    """A part of a gang is made, and the price rises before the rest is asked for."""
    part = '[[stock]]\nleft = 2\n[[faults]]\ndo = "partial"\nmessage = "part"\n'
    engine, cloud = kernel(world, part)
    cloud.rises = "submit"
    driver = world.launch(engine, world.prepare(engine, nodes=3))
    assert world.finish(driver) is RunState.FAILED
    assert any(
        "2 of 3 machines were made, and the price is $15.00/h now" in e.text
        for e in engine.ledger.events.of_run(driver.run_id)
    )
    return cloud


def start(world: EngineWorld) -> LyingCloud:
    """A stopped cluster became dear."""
    engine, cloud = up(world)
    world.do(engine, engine.lifecycle.stop(engine.cluster("dev")))
    cloud.quoted = DEAR
    with pytest.raises(UsageError, match="stays stopped"):
        world.do(engine, engine.lifecycle.start(engine.cluster("dev")))
    return cloud


def start_taken_up(world: EngineWorld) -> LyingCloud:
    """A start whose kernel died before it asked the cloud; the price rose meanwhile."""
    engine, cloud = up(world)
    world.do(engine, engine.lifecycle.stop(engine.cluster("dev")))
    row = engine.cluster("dev")
    assert engine.ledger.clusters.move(row.cluster_id, ClusterState.STARTING, "you started it")
    engine.ledger.leases.take(row.run_id)
    world.abandon(engine)
    world.engines.remove(engine)
    second, next_cloud = kernel(world)
    next_cloud.quoted = DEAR
    said = world.take_up(second)
    assert "could not be: dev stays stopped: the price is $5.00/h now" in said
    next_cloud.bought += cloud.bought
    return next_cloud


def replacement(world: EngineWorld) -> LyingCloud:
    """A machine of a gang is lost; the answer to the create of another one is lost too."""
    engine, cloud = up(world, 2, "engine: dask\nmax_lifetime: 10h\nbudget: 100")
    cloud.lost, cloud.rises = 1, "submit"
    lost = next(m["id"] for m in world.alive() if m["node"] == 1)
    cloud.terminate([lost])
    token = engine.cluster("dev").token
    world.until(
        lambda: any(r.state.is_final for r in engine.ledger.replacements.of_launch(token)),
        "the replacement is given up",
    )
    return cloud


@pytest.mark.parametrize("path", [create_again, rest_of_a_gang, start, start_taken_up, replacement])
def test_nothing_is_bought_at_a_price_that_was_not_agreed_to(
    world: EngineWorld, path: object
) -> None:
    cloud = path(world)  # type: ignore[operator]
    assert cloud.bought, "the path buys something before the price rises"
    assert all(price <= AGREED for price in cloud.bought), cloud.bought


def test_a_price_that_rose_since_it_was_asked_is_booked_before_anything_is_bought(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(price_check, "MOST_AGE", -1.0)
    engine, cloud = kernel(world)
    cloud.rises, cloud.risen = "quote", usd("0.12")
    spec, plan = world.plan(engine)
    spec = replace(spec, requests=(replace(spec.requests[0], max_hourly=usd(1)),))
    driver = engine.prepare_run("dev", spec, replace(plan, spec=spec), agreed=True)
    booked, submit = [], cloud.submit

    def look(launch: Launch) -> CreateOperation:
        booked.append(engine.ledger.launches.of_run(driver.run_id)[-1].launch.candidate.hourly)
        return submit(launch)

    monkeypatch.setattr(cloud, "submit", look)
    done = world.finish(world.launch(engine, driver))
    assert done is RunState.READY, [e.text for e in engine.ledger.events.of_run(driver.run_id)]
    assert cloud.bought == booked == [usd("0.12")]


def test_a_price_that_rises_while_the_ledger_is_locked_is_asked_again(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was within what was agreed to when its booking began, and is beyond it afterwards."""
    monkeypatch.setattr(price_check, "MOST_AGE", -1.0)
    engine, cloud = kernel(world)
    _, plan = world.plan(engine)
    chosen = plan.candidates[0]
    booked = []

    async def buy() -> None:
        check = await PriceCheck.ask(engine.cloud("local"), chosen, usd(1))
        cloud.quoted = usd("0.12")

        async def book(candidate: Candidate) -> None:
            booked.append(candidate.hourly)
            cloud.quoted = DEAR

        await check.submit(launch("0" * 32, chosen), book)

    with pytest.raises(TooDear, match=r"\$5\.00/h"):
        world.do(engine, buy())
    assert (booked, cloud.bought) == ([usd("0.12")], [])


@pytest.mark.parametrize("is_confirmed", [False, True])
def test_a_price_that_moved_by_more_than_half_is_bought_only_where_it_is_confirmed(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch, is_confirmed: bool
) -> None:
    """Launch agreed to it; without a quote of the cloud that is not enough."""
    engine, cloud = kernel(world)
    if not is_confirmed:
        monkeypatch.setattr(cloud, "quote", lambda candidate: None)
    spec, plan = world.plan(engine)
    moved = [replace(one, offer=replace(one.offer, moved_from=usd(1))) for one in plan.candidates]
    driver = engine.prepare_run("dev", spec, replace(plan, candidates=tuple(moved)), agreed=True)
    done = world.finish(world.launch(engine, driver))
    said = {a.failure.message for a in driver.view().attempts if a.failure}
    if is_confirmed:
        assert (done, cloud.bought) == (RunState.READY, [CHEAP])
        return
    assert (done, cloud.bought, world.alive()) == (RunState.FAILED, [], [])
    assert said
    assert all("moved from $1.00/h to $0.11/h" in words for words in said)


def test_only_one_module_asks_a_cloud_for_machines() -> None:
    """Every create and every start goes through `PriceCheck`, which asks the price."""
    allowed = {"price_check.py", "async_cloud.py"}
    root = Path(nbprov.provisioning.__file__).parent
    found = []
    for file in sorted(root.rglob("*.py")):
        if file.name in allowed:
            continue
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            owner = ast.unparse(call.func.value)
            if call.func.attr in ("submit", "start") and owner.endswith(("cloud", "adapter")):
                found.append(f"{file.name}:{call.lineno} {owner}.{call.func.attr}")
    assert found == []


# ---------------------------------------------------------------- what the listing charges


def test_what_the_listing_charges_is_booked_from_the_beginning(world: EngineWorld) -> None:
    engine, cloud = kernel(world)
    cloud.charged = usd("0.12")
    driver = world.launch(engine, world.prepare(engine, text="budget: 10"))
    assert world.finish(driver) is RunState.READY
    row = engine.cluster("dev")
    world.until(lambda: engine.ledger.prices.running(row.token) != {}, "the price")
    assert set(engine.ledger.prices.last(row.token).values()) == {usd("0.12")}
    assert engine.ledger.prices.by_launch(row.run_id)[row.token] > 0
    segments = engine.ledger.store.rows("SELECT hourly FROM price_segments")
    assert [s["hourly"] for s in segments] == [usd("0.12")]
    cloud.charged = usd("0.10")
    world.until(lambda: engine.ledger.prices.hourly_now(row.token) == usd("0.10"), "the new price")
    segments = engine.ledger.store.rows("SELECT hourly FROM price_segments ORDER BY id")
    assert [s["hourly"] for s in segments] == [usd("0.12"), usd("0.10")]


def test_a_new_machine_that_is_charged_more_than_was_agreed_to_is_ended(
    world: EngineWorld,
) -> None:
    engine, cloud = kernel(world)
    cloud.charged = DEAR
    driver = world.launch(engine, world.prepare(engine))
    assert world.finish(driver) is RunState.FAILED
    words = "its cloud charges $5.00/h, above the $0.11/h that was agreed to"
    assert {a.failure.message for a in driver.view().attempts if a.failure} == {words}
    assert world.alive() == []
    prices = engine.ledger.store.rows("SELECT hourly, ended FROM price_segments")
    assert {p["hourly"] for p in prices} == {DEAR}
    assert all(p["ended"] is not None for p in prices)


def test_a_started_machine_that_is_charged_more_is_stopped_again(world: EngineWorld) -> None:
    engine, cloud = up(world)
    world.do(engine, engine.lifecycle.stop(engine.cluster("dev")))
    cloud.charged = DEAR
    with pytest.raises(UsageError, match=r"its cloud charges \$5\.00/h"):
        world.do(engine, engine.lifecycle.start(engine.cluster("dev")))
    world.until(lambda: [m["state"] for m in world.alive()] == ["stopped"], "it is stopped")


def test_a_running_cluster_that_becomes_dearer_is_said_at_once_and_ended_later(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, cloud = up(world)
    run_id = engine.cluster("dev").run_id
    cloud.charged = DEAR
    event = world.until(
        lambda: next(
            (
                e
                for e in engine.ledger.events.of_run(run_id)
                if e.kind is EventKind.PRICE_ABOVE_AGREED
            ),
            None,
        ),
        "the report",
    )
    assert "its cloud charges $5.00/h, above the $0.11/h that was agreed to" in event.text
    assert "run its %%provision cell with --yes" in event.text
    assert engine.ledger.prices.hourly_now(engine.cluster("dev").token) == DEAR
    assert engine.cluster("dev").state is ClusterState.RUNNING
    monkeypatch.setattr(price_guard, "PRICE_GRACE", 0.0)
    world.until(lambda: world.alive() == [], "its end")


def test_who_agrees_to_the_new_price_keeps_the_cluster(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nbprov.api.launching.cluster_reuse import agree_to_price

    engine, cloud = up(world)
    row = engine.cluster("dev")
    cloud.charged = DEAR
    world.until(lambda: engine.ledger.events.has(row.run_id, EventKind.PRICE_ABOVE_AGREED), "it")
    spec, _ = world.plan(engine)
    agree_to_price(engine, row, spec)
    world.until(lambda: engine.ledger.events.has(row.run_id, EventKind.PRICE_AGREED), "its end")
    monkeypatch.setattr(price_guard, "PRICE_GRACE", 0.0)
    world.do(engine, engine.lifecycle.observe(engine.cloud("local")))
    assert engine.cluster("dev").state is ClusterState.RUNNING
