"""`down_after` with outputs on the disk: the start that is made for them is not an end for whoever starts the cluster meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest
from replacing_world import RUN, World, launched

from nbprov.model.clusters import ClusterState
from nbprov.provisioning.ledger import ClusterRow


@pytest.mark.parametrize("is_used", [False, True])
def test_who_starts_a_cluster_while_it_is_started_for_its_outputs_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_used: bool
) -> None:
    world = World(tmp_path, [], [], 0, True)
    launched(world)
    world.ledger.clusters.move(RUN, ClusterState.STOPPED, "you stopped it")
    gone_on: list[str] = []

    async def start(row: ClusterRow, **_: Any) -> None:
        world.ledger.clusters.move(RUN, ClusterState.RUNNING, "started")
        if is_used:
            world.lifecycle.take_back(row)

    async def go_on(row: ClusterRow, *, outputs: bool) -> None:
        gone_on.append(row.reason)

    monkeypatch.setattr(world.lifecycle, "start", start)
    monkeypatch.setattr(world.lifecycle, "_go_on_ending", go_on)
    asyncio.run(
        cast("Any", world.lifecycle)._bring_and_end(
            world.row(), "it was stopped for 1 h (down_after)"
        )
    )
    assert (world.row().reason, gone_on == []) == ("started", True) if is_used else gone_on != []
    world.ledger.close()
