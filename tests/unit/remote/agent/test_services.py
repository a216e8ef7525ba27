"""Services of the agent: jobs that wait for work, and by themselves keep no machine from being
idle.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nbprov.on_machine.agent.agent import Agent
from nbprov.on_machine.agent.system import boottime
from nbprov.on_machine.agent.tasks.task import Task

pytestmark = pytest.mark.machine


async def test_a_service_is_no_activity_and_a_job_is(machine: Any, agent_on: Any) -> None:
    async with agent_on(machine) as client:
        service = await client.run_job(
            "sleep 300", name="scheduler", id="scheduler", service=True, rest=0.1
        )
        assert service.service
        assert not any("scheduler" in words for words in (await client.status()).active)
        job = await client.run_job("sleep 300", name="train", id="train")
        assert not job.service
        active = (await client.status()).active
        assert "job train" in active
        assert not any("scheduler" in words for words in active)
        await client.cancel_job("train")
        await client.job_output("train").wait()
        await client.cancel_job("scheduler")
        assert (await client.job_output("scheduler").wait()).status == "cancelled"
        assert not any("scheduler" in words for words in (await client.status()).active)


def test_what_services_use_at_rest_is_no_activity(tmp_path: Path) -> None:
    agent = Agent(tmp_path, 0o077)
    meta = {"kind": "job", "name": "dask", "state": "running", "service": True, "rest": 0.5}
    agent.tasks["dask"] = Task(tmp_path / "tasks" / "dask", {**meta, "id": "dask"}, 1 << 20)
    agent.activity.sessions = 0
    said = []
    for cores in (0.6, 0.8):
        agent.activity.cores = cores
        said.append(agent.watch.what_is_active())
    agent.tasks["dask"].end("ok")
    agent.activity.cores = 0.6
    agent.guards.now = boottime()
    assert (*said, agent.watch.what_is_active()) == ([], ["cpu 0.8"], ["cpu 0.6"])


async def test_only_jobs_can_be_services(machine: Any, agent_on: Any) -> None:
    async with agent_on(machine) as client:
        answer = await client.transport.ask(
            "start", task="s", kind="shell", code="sleep 60", env={}, service=True
        )
        assert "service" not in answer["task"]
        assert any("shell" in words for words in (await client.status()).active)
