"""What a budget counts when the machines' prices change, and agents that are told of it until they know."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from engine_world import MARKET, EngineWorld
from provisioning_samples import candidate, launch_row

from nbprov.clouds.base import Capabilities
from nbprov.model.clusters import AttemptState, ClusterState, RunState
from nbprov.model.launches import Instance, InstanceState, Launch
from nbprov.model.money import usd
from nbprov.model.places import Place
from nbprov.provisioning.ledger import Ledger, ReplacementRow
from nbprov.provisioning.replacement import node_loss
from nbprov.provisioning.supervision import cloud_watcher
from nbprov.provisioning.supervision.guard_sync import count_price, price_whole
from nbprov.provisioning.supervision.start_terms import start_terms
from nbprov.remote.agent.client import AgentClient
from nbprov.remote.agent.messages import GuardConfig
from nbprov.remote.errors import SshCode, SshError
from nbprov.runtime.clocks import ManualClock

TOKEN, RUN, HOUR = f"{1:032x}", "run-1", 3600.0


@pytest.mark.machine
def test_every_agent_is_told_the_price_of_a_dearer_machine_until_it_knows(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloud_watcher, "LEAST_WATCH", 0.05)
    monkeypatch.setattr(node_loss, "NOT_NOW_PAUSE", 0.2)
    engine = world.engine()
    driver = world.launch(
        engine, world.prepare(engine, nodes=2, text="engine: dask\nmax_lifetime: 10h\nbudget: 100")
    )
    assert world.finish(driver) is RunState.READY
    row = engine.cluster("dev")
    live = world.do(engine, engine.attach("dev"))
    config = GuardConfig.from_json(engine.ledger.guards.get(row.run_id)[0]).to_json()
    assert [node.told.to_json() for node in live.nodes] == [config] * 2, (
        "who was told when it started is not told again"
    )
    engine.ledger.store._connection.execute("UPDATE price_segments SET started = started - 7200")
    # Launch agreed to the dearest place, which is half as dear again.
    world.market("", base=MARKET.replace("hourly = 3.6", "hourly = 4.5"))
    set_guards, cut = AgentClient.set_guards, []

    async def told(agent: AgentClient, guards: GuardConfig) -> Any:
        if (
            guards.hourly == usd("8.1")
            and len(cut) < 3
            and agent is engine.live[row.run_id].nodes[0].agent
        ):
            cut.append(guards.spent)
            raise SshError(SshCode.LOST, "the line is down")
        return await set_guards(agent, guards)

    monkeypatch.setattr(AgentClient, "set_guards", told)
    (machine,) = [m for m in world.alive() if m["node"] == 1]
    engine.cloud("local").adapter.terminate([machine["id"]])

    def counted() -> list[dict[str, Any]]:
        homes = [
            world.folder / "i" / m["id"] / "home" / ".nbprov" / "guards.json"
            for m in sorted(world.alive(), key=lambda m: m["node"])
        ]
        return [json.loads(home.read_text()) for home in homes if home.exists()]

    world.until(
        lambda: (
            [c["config"].get("budget", {}).get("hourly_micros") for c in counted()]
            == [usd("8.1")] * 2
        ),
        "both agents' new price",
    )
    assert len(cut) == 3, "told again and again while its line was down"
    for one in counted():
        assert one["config"]["budget"]["spent_micros"] >= usd("14.4"), (
            "two hours of the old price stay counted"
        )
        assert one["carried"] >= usd("14.4")
    assert any(
        text.startswith("budget: its machines cost $8.10/h together from now on")
        for _, _, text in engine.ledger.events.of_run(row.run_id)
    )
    assert engine.ledger.prices.hourly_now(row.token) == usd("8.1")


def _cluster(ledger: Ledger) -> Any:
    wanted = candidate(count=2)
    ledger.runs.open(RUN, "dev", "", folder="", race=1, consent=0, state=RunState.LAUNCHING)
    ledger.launches.intend(launch_row(TOKEN, wanted))
    ledger.launches.accepted(TOKEN, ["i-0", "i-1"])
    ledger.clusters.hand_over(RUN, "dev", RUN, TOKEN, wanted)
    ledger.instances.seen([_machine("i-0", 0, ledger.owner), _machine("i-1", 1, ledger.owner)])
    config = GuardConfig(":", hourly=wanted.hourly, limit=usd(100))
    ledger.guards.set(RUN, 0, config.to_json() | {"warn": [0.5]}, {})
    return ledger.clusters.of_run(RUN)


def _machine(id: str, node: int, owner: str) -> Instance:
    return Instance(
        "aws",
        id,
        TOKEN,
        owner,
        Place("aws", "east", "east-a"),
        "gpu-1",
        InstanceState.RUNNING,
        "10.0.0.1",
        22,
        node=node,
    )


def _replacement(ledger: Ledger, launch: Launch) -> ReplacementRow:
    return ReplacementRow(
        TOKEN,
        1,
        RUN,
        1,
        AttemptState.INTENT,
        launch,
        None,
        "",
        None,
        0,
        ledger.clock.now(),
        ledger.clock.now(),
        None,
    )


def test_a_lost_machine_leaves_the_price_and_one_in_its_place_brings_its_own_from_when_it_was_made(
    ledger: Ledger, clock: ManualClock
) -> None:
    row = _cluster(ledger)
    each = row.candidate.offer.hourly
    assert price_whole(ledger, row) == 2 * each
    assert not count_price(ledger, row), "nothing changed"
    clock.advance(HOUR)
    ledger.replacements.lose_machines(TOKEN, [_machine("i-1", 1, ledger.owner)])
    assert not count_price(ledger, row), "it is to be whole again"
    offer = replace(row.candidate.offer, hourly=each + usd(1))
    launch = replace(
        ledger.launches.of_run(RUN)[0].launch,
        candidate=replace(row.candidate, offer=offer),
        nodes=(1,),
        count=1,
        part=1,
    )
    asked = _replacement(ledger, launch)
    assert ledger.replacements.intend(asked)
    assert price_whole(ledger, row) == 2 * each, "nothing is made yet"
    clock.advance(HOUR)
    ledger.replacements.made(asked, "i-2")
    assert count_price(ledger, row)
    assert not count_price(ledger, row), "once"
    told = GuardConfig.from_json(ledger.guards.get(RUN)[0])  # type: ignore[index]
    assert (told.hourly, told.limit, told.spent) == (2 * each + usd(1), usd(100), 3 * each)
    assert ledger.guards.get(RUN)[0]["warn"] == [0.5], "what nbprov itself watches stays"  # type: ignore[index]
    ledger.replacements.end(asked, AttemptState.GONE)
    clock.advance(HOUR)
    assert count_price(ledger, row), "one that did not come up has no price any more"
    assert GuardConfig.from_json(ledger.guards.get(RUN)[0]).hourly == 2 * each  # type: ignore[index]


def test_a_machine_that_is_told_of_after_its_cluster_has_ended_begins_no_price(
    ledger: Ledger,
) -> None:
    row = _cluster(ledger)
    ledger.replacements.lose_machines(TOKEN, [_machine("i-1", 1, ledger.owner)])
    asked = _replacement(
        ledger, replace(ledger.launches.of_run(RUN)[0].launch, nodes=(1,), count=1, part=1)
    )
    assert ledger.replacements.intend(asked)
    ledger.clusters.move(row.cluster_id, ClusterState.ENDED, "you ended it")
    assert not ledger.replacements.made(asked, "i-2")
    assert ledger.prices.hourly_now(TOKEN) == 0


def test_a_cluster_without_a_budget_is_told_of_no_price(ledger: Ledger) -> None:
    row = _cluster(ledger)
    ledger.guards.set(RUN, 0, GuardConfig(":", idle_seconds=60.0).to_json(), {})
    ledger.store._connection.execute("UPDATE price_segments SET hourly = 1")
    assert not count_price(ledger, row)


def test_a_start_at_the_price_of_the_launch_counts_it_again_where_a_dearer_machine_had_joined(
    ledger: Ledger,
) -> None:
    row = _cluster(ledger)
    each = row.candidate.offer.hourly
    ledger.store._connection.execute(
        "UPDATE price_segments SET hourly = hourly + 7 WHERE instance_id = 'i-1'"
    )
    assert count_price(ledger, row)
    cloud = cast("Any", SimpleNamespace(capabilities=Capabilities(stop=True), quote=_no_quote))
    asyncio.run(start_terms(ledger, cloud, row))
    assert GuardConfig.from_json(ledger.guards.get(RUN)[0]).hourly == 2 * each  # type: ignore[index]


async def _no_quote(wanted: object) -> None:
    return None
