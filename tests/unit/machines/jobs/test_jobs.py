"""Jobs through a cluster's handle: one machine with GPUs, several nodes, and the archive."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tunnel_world import MARKET, TunnelWorld, until

from nbprov import api
from nbprov.api.services.job_handle import JobHandle
from nbprov.api.steps import run_sync
from nbprov.machines.jobs import monitor
from nbprov.machines.jobs.archive import JobArchive
from nbprov.machines.jobs.jobs import Job, JobError
from nbprov.model.errors import NotFound, UsageError
from nbprov.model.secret import Secret
from nbprov.provisioning.live_cluster import agent_of
from nbprov.remote.agent.config import GuardConfig

pytestmark = pytest.mark.machine

GPUS = """
[[types]]
name = "gpu"
accelerator = "A100"
count = 2
hourly = 2.0
vcpus = 4
memory_gib = 16
"""
UNTIL_GO = 'until [ -e "$HOME/go" ]; do sleep 0.02; done'


@pytest.fixture
def up(world: TunnelWorld) -> Callable[..., api.Cluster]:
    """Starts clusters with two GPUs on each node."""
    (world.home / "local" / "market.toml").write_text(MARKET + GPUS, encoding="utf-8")

    def make(rest: str = "", name: str = "dev") -> api.Cluster:
        run = world.session.provision(
            "resources: {cloud: local, instance_type: gpu}\n" + rest, name
        )
        assert isinstance(run, api.Run)
        return run.launch().wait(120)

    return make


def states(cluster: api.Cluster) -> dict[str, str]:
    return {job.id: job.state for job in cluster.jobs()}


def go(cluster: api.Cluster) -> None:
    cluster.bash('touch "$HOME/go"', nodes="all")


def tasks_of(cluster: api.Cluster) -> list[Any]:
    """Return what each node's agent says about its jobs."""

    async def ask(live: Any) -> list[Any]:
        return [await agent_of(node).jobs() for node in live.nodes]

    return run_sync(cluster._services.remote.call_attached(cluster.name, ask))


def test_jobs_take_the_gpus_they_ask_for_and_tell_how_they_ended(
    up: Callable[..., api.Cluster],
) -> None:
    dev = up("run: |\n  echo the run has $CUDA_VISIBLE_DEVICES")
    one = dev.submit(
        f"echo $CUDA_VISIBLE_DEVICES of $NBPROV_NUM_GPUS_PER_NODE; {UNTIL_GO}", gpus=1, name="train"
    )
    two = dev.submit(f"echo $CUDA_VISIBLE_DEVICES; {UNTIL_GO}; exit 3", gpus=1, name="train")
    whole = dev.submit("echo $CUDA_VISIBLE_DEVICES; kill -9 $$", env={"X": "1"})
    assert (one.id, two.id, whole.id) == ("train-1", "train-2", "job-1")
    until(lambda: states(dev)["train-2"] == "running", "both run")
    assert states(dev) == {
        "run": "ok",
        "train-1": "running",
        "train-2": "running",
        "job-1": "queued",
    }
    assert dev.job("job-1").position == 1
    assert repr(one) == "<JobHandle train-1 on dev: under way>"
    go(dev)
    assert (one.wait(120).ok, two.wait(120).exit_code, whole.wait(120).exit_code) == (True, 3, -9)
    assert [dev.logs(id) for id in ("run", "train-1", "train", "job-1")] == [
        "the run has 0,1\n",
        "0 of 1\n",
        "1\n",
        "0,1\n",
    ]
    assert dev.wait_job("train-2") == 3
    assert repr(whole) == "<JobHandle job-1 on dev: failed>"


def test_what_could_never_run_is_refused_by_name(up: Callable[..., api.Cluster]) -> None:
    dev = up()
    cases: dict[str, dict[str, Any]] = {
        "job.too-many-gpus": {"gpus": 3},
        "job.gpus": {"gpus": 1.5},
        "job.nodes": {"nodes": 2},
        "job.name": {"name": "run"},
        "job.env": {"env": {"A B": "1"}},
        "job.after": {"nodes": "all", "after": "x"},
        "job.empty": {"script": " \n"},
    }
    for code, asked in cases.items():
        with pytest.raises(JobError) as refused:
            dev.submit(**{"script": "true", **asked})
        assert refused.value.code == code
    assert "this node has 2 GPUs, the job asks for 3" in str(_refused(dev, gpus=3))
    with pytest.raises(NotFound, match="dev has no job 'nothing'") as missing:
        dev.submit("true", after="nothing")
    assert missing.value.code == "job.not-found"
    assert dev.jobs() == []


def _refused(dev: api.Cluster, **asked: Any) -> JobError:
    with pytest.raises(JobError) as refused:
        dev.submit("true", **asked)
    return refused.value


def test_cancel_ends_what_runs_and_what_waits(up: Callable[..., api.Cluster]) -> None:
    dev = up()
    begun, waiting = dev.submit("sleep 611 & sleep 612"), dev.submit("echo never")
    until(lambda: states(dev)["job-1"] == "running", "it runs")
    assert dev.cancel_jobs() == ["job-1", "job-2"]
    assert [job.wait(120).state for job in (begun, waiting)] == ["cancelled", "cancelled"]
    assert dev.logs("job-2") == ""
    assert dev.cancel_jobs() == []
    assert "sleep 61" not in dev.bash("ps x -o args= | grep '^sleep 61' || true").text


def test_a_job_of_several_nodes_has_ranks_and_ends_as_one(
    up: Callable[..., api.Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor, "GANG_GRACE", 0.5)
    monkeypatch.setattr(monitor, "LOOK_EVERY", 0.2)
    pair = up("num_nodes: 2\nrun: echo rank $SKYPILOT_NODE_RANK of $SKYPILOT_NUM_NODES", "pair")
    assert pair.wait_job("run", 60) == 0
    assert [pair.logs("run", node=node) for node in (0, 1)] == ["rank 0 of 2\n", "rank 1 of 2\n"]
    # Jobs submitted at once have the same order on both nodes, so that no two wait for each other.
    with ThreadPoolExecutor() as threads:
        gangs = list(
            threads.map(
                lambda _: pair.submit("sleep 0.1", nodes="all", gpus=2, name="gang"), range(4)
            )
        )
    assert sorted(job.id for job in gangs) == ["gang-1", "gang-2", "gang-3", "gang-4"]
    assert [job.wait(120).parts for job in gangs] == [(("ok", 0), ("ok", 0))] * 4
    begun = [
        sorted((task.started, task.id) for task in tasks if task.name == "gang")
        for tasks in tasks_of(pair)
    ]
    assert [id for _, id in begun[0]] == [id for _, id in begun[1]]
    alone = pair.submit("echo $NBPROV_NUM_NODES")
    assert alone.wait(120).nodes == 1
    assert alone.logs() == "1\n"
    # One part fails, and the other would wait for it for ever.
    broken = pair.submit(
        '[ "$NBPROV_NODE_RANK" = 0 ] && exec sleep 613; exit 7', nodes=2, name="broken"
    )
    ended = broken.wait(120)
    assert (ended.state, ended.exit_code) == ("failed", 7)
    assert [state for state, _ in ended.parts] == ["cancelled", "failed"]
    with pytest.raises(UsageError):
        pair.logs("run", node=2)


def test_logs_and_states_outlive_the_machine(
    up: Callable[..., api.Cluster], world: TunnelWorld
) -> None:
    dev = up()
    run_id = dev.view().run_id
    hidden = {"TOKEN": Secret("canary-1234"), "PLAIN": "x"}
    done = dev.submit(
        "for n in $(seq 5); do echo line $n $TOKEN; done; exit 4", name="train", env=hidden
    )
    assert done.wait(120).exit_code == 4
    dev.submit(f"echo so far; {UNTIL_GO}", name="long")
    dev.submit("echo never", name="waits")
    until(lambda: dev.logs("long"), "it runs")
    dev.down().wait(120)
    session = world.session
    assert {job.id: (job.state, job.exit_code) for job in session.jobs("dev")} == {
        "train-1": ("failed", 4),
        "long-1": ("lost", None),
        "waits-1": ("lost", None),
    }
    assert session.logs("dev", "train", last=2) == "line 4 ***\nline 5 ***\n"
    assert session.logs(run_id, "long") == "so far\n"
    assert dev.logs("train-1").count("***") == 5, "the old handle reads them too"
    with pytest.raises(NotFound, match="dev has no job 'nothing'"):
        session.logs("dev", "nothing")
    kept = world.home / "jobs" / run_id
    for path in kept.iterdir():
        assert "canary" not in path.read_text()
        assert sys.platform == "win32" or stat.S_IMODE(path.stat().st_mode) == 0o600
    told = {
        row["job_id"]: (row["state"], row["exit_code"])
        for row in session.engine.ledger.jobs.of_run(run_id)
    }
    assert told["train-1"] == ("failed", 4)
    # A later cluster of that name has its own jobs; the old ones are found by their run's id.
    up()
    assert session.jobs("dev") == []
    assert session.logs(run_id, "long") == "so far\n"


def test_after_a_stop_and_start_what_ran_is_lost_and_says_so(
    up: Callable[..., api.Cluster],
) -> None:
    dev = up()
    assert dev.submit("echo done").wait(120).ok
    dev.submit(f"echo began; {UNTIL_GO}")
    dev.submit("echo never")
    until(lambda: states(dev)["job-2"] == "running" and dev.logs("job-2"), "it runs")
    dev.stop().wait(120)
    assert states(dev) == {"job-1": "ok", "job-2": "lost", "job-3": "lost"}
    assert dev.logs("job-2") == "began\n"
    dev.start().wait(120)
    assert states(dev) == {"job-1": "ok", "job-2": "lost", "job-3": "lost"}
    assert dev.logs("job-2").endswith(
        "the agent on the machine was restarted; this was lost with it\n"
    )
    assert "submit it again" in dev.logs("job-3")
    assert dev.submit("true").id == "job-4"


async def _nothing(*_: object) -> None:
    pass


def test_logs_are_kept_when_the_guards_end_the_machine(
    up: Callable[..., api.Cluster], world: TunnelWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is kept of a job that runs must come from the end that the guards announce.
    monkeypatch.setattr(monitor.JobMonitor, "_keep_so_far", _nothing)
    dev = up()
    row = dev._row()
    handle = dev.submit(f"echo so far; {UNTIL_GO}")
    until(lambda: dev.logs("job"), "it runs")
    assert world.session.services.archive.store.log(row.run_id, "job-1") is None

    async def end_soon(live: Any) -> None:
        agent = agent_of(live.head)
        known = world.session.engine.ledger.guards.get(row.run_id)
        assert known is not None
        config = GuardConfig.from_json(
            {**known[0], "max_lifetime_seconds": (await agent.status()).age + 0.2}
        )
        await agent.set_guards(config)

    run_sync(world.session.services.remote.call_attached("dev", end_soon))
    until(
        lambda: world.session.services.archive.store.log(row.run_id, "job-1") == "so far\n",
        "its log is kept",
    )
    dev.down().wait(120)
    assert handle.wait(120).state == "lost"
    assert world.session.logs("dev", "job") == "so far\n"


def test_logs_for_which_there_is_no_room_are_named_at_the_end(
    up: Callable[..., api.Cluster], world: TunnelWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    dev, real = up(), os.open

    def full(path: Any, *args: Any, **options: Any) -> int:
        if str(path).startswith(str(world.home / "jobs")):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return real(path, *args, **options)

    monkeypatch.setattr(os, "open", full)
    assert dev.submit("echo result; exit 3", name="train").wait(120).exit_code == 3
    end = dev.down()
    end.wait(120)
    said = "the log of train-1 was not kept here: No space left on device"
    assert list(end.remarks) == [said]
    assert said in world.session.clusters(ended=True)[0].notes
    assert [(job.id, job.state, job.exit_code) for job in dev.jobs()] == [("train-1", "failed", 3)]
    with pytest.raises(NotFound, match="the log of train-1 is not kept here"):
        dev.logs("train")


def test_old_logs_are_not_looked_through_for_each_log_that_is_kept(
    up: Callable[..., api.Cluster], world: TunnelWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    prune = JobArchive.prune

    def counted(archive: JobArchive) -> None:
        looked.append(1)
        prune(archive)

    monkeypatch.setattr(JobArchive, "prune", counted)
    dev = up()
    for job in [dev.submit(f"echo {n}", gpus=0) for n in range(6)]:
        job.wait(120)
    end = dev.down()
    end.wait(120)
    assert not end.remarks
    assert len(world.session.jobs("dev")) == 6
    assert len(looked) <= 1


def test_an_end_does_not_wait_for_a_machine_that_does_not_answer(
    up: Callable[..., api.Cluster], world: TunnelWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    dev = up()
    dev.submit(UNTIL_GO)
    monkeypatch.setattr(monitor, "LAST_SECONDS", 0.5)

    async def never(*_: Any, **__: Any) -> list[Job]:
        import asyncio

        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(monitor, "list_jobs", never)
    end = dev.down()
    end.wait(120)
    assert not world.session.clusters()
    (said,) = end.remarks
    assert said.startswith("the log of job-1 was not kept here: ")


def test_handles_can_be_awaited(up: Callable[..., api.Cluster]) -> None:
    import asyncio

    async def both(job: JobHandle) -> Job:
        return await job

    assert asyncio.run(both(up().submit("echo ok"))).ok
