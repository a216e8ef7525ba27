"""The latest jobs and cells of a cluster, as its table shows them, and what they printed."""

from __future__ import annotations

import pytest
from tunnel_world import TunnelWorld, until

from nbprov.machines.recent_tasks import (
    CELL,
    JOB,
    MOST_TASKS,
    RecentTask,
    end_of_output,
    recent_tasks,
)
from nbprov.model.errors import NotFound

pytestmark = pytest.mark.machine


def tasks_of(world: TunnelWorld) -> list[RecentTask]:
    """What is listed now."""
    return world.session.services.remote.begin_attached("dev", recent_tasks).result(60)


def output_of(world: TunnelWorld, kind: str, id: str) -> str:
    """What one of them printed."""
    return world.session.services.remote.begin_attached(
        "dev", lambda live: end_of_output(live, kind, id)
    ).result(60)


def test_the_latest_jobs_and_cells_are_listed_with_what_they_printed(world: TunnelWorld) -> None:
    dev = world.up()
    assert tasks_of(world) == []
    dev.bash("printf 'from\\033[31m a cell\\033[0m\\n'")
    job = dev.submit("seq 500; exit 3", name="count")
    until(lambda: tasks_of(world)[0].ended, "the end of the job")
    last, first = tasks_of(world)
    assert (last.kind, last.id, first.kind) == (JOB, job.id, CELL)
    assert last.words.startswith("failed")
    assert first.words == "ok"
    assert output_of(world, CELL, first.id) == "from a cell"
    lines = output_of(world, JOB, job.id).splitlines()
    assert lines == [str(number) for number in range(301, 501)], "the end of it"
    with pytest.raises(NotFound):
        output_of(world, JOB, "nobody-1")


def test_no_more_are_listed_than_a_person_reads(world: TunnelWorld) -> None:
    dev = world.up(rest="\nsetup: echo there\n")
    for number in range(MOST_TASKS + 2):
        dev.submit("true", name=f"job{number}")
    listed = tasks_of(world)
    assert len(listed) == MOST_TASKS + 1
    assert listed[-1].id == "setup", "the set-up, however old it is"
    assert listed[0].id.startswith(f"job{MOST_TASKS + 1}-")
