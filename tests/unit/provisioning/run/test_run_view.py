"""What a display is told of a launch: phases, deadlines and what comes next."""

from __future__ import annotations

import pytest
from engine_world import EngineWorld
from provisioning_samples import zones

from nbprov.model.blocks import block_after
from nbprov.model.clusters import AttemptState, RunState
from nbprov.model.failures import Cause, Failure
from nbprov.provisioning.ledger import Ledger
from nbprov.provisioning.run.candidate_queue import CandidateQueue
from nbprov.provisioning.run.racing.usual_times import LEAST_SAMPLES, usual_ready


def test_the_place_that_follows_is_neither_tried_nor_blocked() -> None:
    first, blocked, third = zones("a", "b", "c")
    queue = CandidateQueue([first, blocked, third])
    assert queue.following(0.0) is first
    queue.take(first)
    assert queue.following(0.0) is blocked
    block = block_after(blocked, Failure(Cause.CAPACITY), 0.0)
    assert block is not None
    queue.blocks.append(block)
    assert queue.following(1.0) is third
    queue.take(third)
    queue.take(third)
    assert queue.following(1.0) is None


@pytest.mark.machine
def test_phases_and_usual_times_come_from_the_ledger(world: EngineWorld) -> None:
    engine = world.engine()
    world.market(world.fault(do="refuse", zone="here-a", code="InsufficientCapacity"))
    driver = world.launch(engine, world.prepare(engine))
    assert world.finish(driver) is RunState.READY
    refused, kept = driver.view().attempts
    assert [phase.state for phase in refused.phases] == [AttemptState.INTENT, AttemptState.REFUSED]
    states = [phase.state for phase in kept.phases]
    assert states[0] is AttemptState.INTENT
    assert AttemptState.BOOTING in states
    assert states[-1] is AttemptState.READY
    times = [phase.since for phase in kept.phases]
    assert times == sorted(times)
    assert kept.cut_off is None, "what is ready is not given up"
    assert driver.view().following is None
    (seconds,) = engine.ledger.clusters.ready_seconds("local", 10)
    assert 0 < seconds <= times[-1] - kept.started + 1


def test_few_clusters_say_nothing_of_a_cloud(ledger: Ledger) -> None:
    assert usual_ready(ledger, "aws") is None
    with ledger.together() as db:
        for number in range(LEAST_SAMPLES):
            token = f"{number:032x}"
            db.execute(
                "INSERT INTO runs (run_id, name, state, spec, folder, outputs_to, race, consent,"
                " created, updated) VALUES (?, '', 'ready', '', '', '', 1, 0, 0, 0)",
                (token,),
            )
            db.execute(
                "INSERT INTO launches (token, run_id, number, slot, cloud, account, state,"
                " candidate, launch, keys, hourly, created)"
                " VALUES (?, ?, 1, 0, 'aws', '', 'ready', '', '', '', 0, 1000)",
                (token, token),
            )
            db.execute(
                "INSERT INTO clusters (cluster_id, name, run_id, token, state, desired_state,"
                " candidate, started) VALUES (?, ?, ?, ?, 'ended', 'ended', '', ?)",
                (token, token, token, token, 1040.0 + number),
            )
    assert usual_ready(ledger, "aws") == 43.0
    assert usual_ready(ledger, "gcp") is None
