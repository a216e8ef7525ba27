"""Services of the agent: jobs that wait for work, and by themselves keep no machine from being idle."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.machine


async def test_a_service_is_no_activity_and_a_job_is(machine: Any, agent_on: Any) -> None:
    async with agent_on(machine) as client:
        service = await client.run_job("sleep 300", name="scheduler", id="scheduler", service=True)
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


async def test_only_jobs_can_be_services(machine: Any, agent_on: Any) -> None:
    async with agent_on(machine) as client:
        answer = await client._ask("start", task="s", kind="shell", code="sleep 60", env={}, service=True)
        assert "service" not in answer["task"]
        assert any("shell" in words for words in (await client.status()).active)
