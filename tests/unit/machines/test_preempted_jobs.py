"""Jobs of a machine that the cloud takes away without a word."""

from __future__ import annotations

import pytest
from life_world import market
from tunnel_world import TunnelWorld, until

from nbprov.machines.jobs import monitor
from nbprov.machines.jobs.archive import JobArchive

pytestmark = pytest.mark.machine

PREEMPTED = """\
spot = 0.05
[[faults]]
do = "preempt"
seconds = 20
"""


def test_jobs_of_a_preempted_machine_are_lost_with_the_end_of_their_logs(
    world: TunnelWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor, "KEEP_EVERY", 0.5)
    monkeypatch.setattr(monitor, "LOOK_EVERY", 0.5)
    market(world, PREEMPTED)
    dev = world.up(more=", use_spot: true")
    dev.submit("echo epoch 1; exec sleep 600", name="train")
    dev.submit("echo never", name="next")
    store = JobArchive(world.home)
    until(lambda: "epoch 1" in (store.log(dev.view().run_id, "train-1") or ""), "a copy of the log")
    until(lambda: not world.session.clusters(), "the end of the machine")
    jobs = {job.id: job.state for job in world.session.jobs("dev")}
    assert jobs == {"train-1": "lost", "next-1": "lost"}
    assert "epoch 1" in str(world.session.logs("dev", "train-1"))
