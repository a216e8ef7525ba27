"""The agent's queue: who begins when, on which GPUs, and what becomes of it when something ends."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest

from nbprov.on_machine.agent.agent import Agent
from nbprov.on_machine.agent.tasks import job_queue
from nbprov.remote.agent.client import AgentClient
from nbprov.remote.agent.framing import AgentError
from nbprov.remote.agent.messages import TaskInfo
from nbprov.remote.agent.output_stream import END_ONLY

pytestmark = pytest.mark.machine

UNTIL_GO = 'until [ -e "$HOME/go-%s" ]; do sleep 0.02; done'


class Queue:
    """Jobs of one agent, each of which runs until it is told to go."""

    def __init__(self, machine: Any, client: AgentClient, gpus: int) -> None:
        self.machine, self.client, self.gpus = machine, client, gpus

    async def add(
        self, id: str, gpus: float | None = None, script: str = "", **more: Any
    ) -> TaskInfo:
        text = f"echo on $CUDA_VISIBLE_DEVICES; {script or UNTIL_GO % id}"
        return await self.client.submit_job(text, id, "n", gpus=gpus, gpus_told=self.gpus, **more)

    async def states(self) -> dict[str, str]:
        return {job.id: job.status or job.state for job in await self.client.jobs()}

    async def go(self, id: str) -> TaskInfo:
        (self.machine.home / f"go-{id}").touch()
        return await self.client.job_output(id, END_ONLY).wait()

    async def began(self, id: str) -> str:
        async for output in self.client.job_output(id):
            return output.text.strip()
        raise AssertionError("no output")


async def test_gpus_are_given_in_order_and_nobody_overtakes(machine: Any, agent_on: Any) -> None:
    async with agent_on(machine) as client:
        queue = Queue(machine, client, 4)
        for id, gpus in (("a", 2.0), ("b", 1.0), ("c", 2.0), ("d", 1.0), ("e", 0.0)):
            await queue.add(id, gpus)
        assert [await queue.began(id) for id in "abe"] == ["on 0,1", "on 2", "on -1"]
        assert await queue.states() == {
            "a": "running",
            "b": "running",
            "c": "queued",
            "d": "queued",
            "e": "running",
        }
        # There is a GPU for d, but c comes first.
        assert [(job.id, job.position) for job in await client.jobs() if job.position] == [
            ("c", 1),
            ("d", 2),
        ]
        assert (await queue.go("b")).status == "ok"
        assert await queue.began("c") == "on 2,3"
        await queue.go("a")
        assert await queue.began("d") == "on 0"
        assert next(job.devices for job in await client.jobs() if job.id == "c") == (2, 3)


async def test_all_is_the_whole_machine_and_shares_fill_one_gpu_first(
    machine: Any, agent_on: Any
) -> None:
    async with agent_on(machine) as client:
        queue = Queue(machine, client, 2)
        await queue.add("half", 0.5)
        await queue.add("third", 0.3)
        await queue.add("more", 0.3)
        assert [await queue.began(id) for id in ("half", "third", "more")] == [
            "on 0",
            "on 0",
            "on 1",
        ]
        await queue.add("all")
        for id in ("half", "third"):
            await queue.go(id)
        assert (await queue.states())["all"] == "queued"
        await queue.go("more")
        assert await queue.began("all") == "on 0,1"
        await queue.add("next")
        assert (await queue.states())["next"] == "queued"


async def test_without_gpus_jobs_run_one_after_the_other(machine: Any, agent_on: Any) -> None:
    async with agent_on(machine) as client:
        queue = Queue(machine, client, 0)
        await queue.add("one")
        await queue.add("two")
        await queue.add("beside", 0)
        assert await queue.began("beside") == "on"
        assert await queue.states() == {"one": "running", "two": "queued", "beside": "running"}
        with pytest.raises(
            AgentError, match="this node has no GPUs, the job asks for 1"
        ) as refused:
            await queue.add("gpu", 1)
        assert refused.value.code == "agent.too-many-gpus"
        await queue.go("one")
        assert await queue.began("two") == "on"


async def test_what_could_never_begin_is_refused_at_once(machine: Any, agent_on: Any) -> None:
    async with agent_on(machine) as client:
        queue = Queue(machine, client, 1)
        with pytest.raises(AgentError, match="this node has 1 GPU, the job asks for 2") as refused:
            await queue.add("two", 2)
        assert refused.value.code == "agent.too-many-gpus"
        for gpus in (1.5, -1, float("inf"), True, "some"):
            with pytest.raises(AgentError):
                await queue.add("odd", gpus)  # type: ignore[arg-type]
        assert await queue.states() == {}
        await queue.add("one", 1, script="true")
        with pytest.raises(AgentError) as taken:
            await client.submit_job("true", "one", "another")
        assert taken.value.code == "agent.taken"
        assert (await queue.add("one", 1)).id == "one", "the same request again"
        await queue.add("two", 1)
        await client.cancel_job("two", nonce="another")
        assert (await queue.states())["two"] != "cancelled"
        await client.cancel_job("two", nonce="n")
        assert (await client.job_output("two", END_ONLY).wait()).status == "cancelled"


async def test_cancelled_and_skipped_jobs_let_the_others_pass(machine: Any, agent_on: Any) -> None:
    async with agent_on(machine) as client:
        queue = Queue(machine, client, 1)
        for id in "abc":
            await queue.add(id)
        await queue.add("after", 0, after=["c"])
        await queue.began("a")
        await client.cancel_job("b")
        assert await queue.states() == {
            "a": "running",
            "b": "cancelled",
            "c": "queued",
            "after": "queued",
        }
        await client.cancel_job("a")
        await queue.began("c")
        await client.cancel_job("c")
        assert (await client.job_output("after").wait()).status == "skipped"
        assert await queue.states() == {
            "a": "cancelled",
            "b": "cancelled",
            "c": "cancelled",
            "after": "skipped",
        }


async def test_what_waits_for_another_job_keeps_nobody_waiting(machine: Any, agent_on: Any) -> None:
    async with agent_on(machine) as client:
        queue = Queue(machine, client, 2)
        await queue.add("long", 1)
        await queue.add("then", 2, after=["long"])
        await queue.add("other", 1)
        assert await queue.began("other") == "on 1"
        await queue.go("long")
        assert (await queue.states())["then"] == "queued"
        await queue.go("other")
        assert await queue.began("then") == "on 0,1"


async def test_jobs_wait_for_the_end_of_setup(machine: Any, agent_on: Any) -> None:
    async with agent_on(machine) as client:
        queue = Queue(machine, client, 1)
        await client.run_job(UNTIL_GO % "setup", id="setup", name="setup")
        await queue.add("run", after=["setup"])
        await queue.add("later", 0)
        assert await queue.states() == {"setup": "running", "run": "queued", "later": "queued"}
        await queue.go("setup")
        await queue.began("run")
        await queue.began("later")


async def test_a_held_job_keeps_its_place_until_it_is_released(machine: Any, agent_on: Any) -> None:
    async with agent_on(machine) as client:
        queue = Queue(machine, client, 1)
        await queue.add("gang", held=True, nodes=2)
        await queue.add("next")
        with pytest.raises(AgentError) as held:
            await queue.add("second", held=True, nodes=2)
        assert held.value.code == "agent.held"
        assert await queue.states() == {"gang": "queued", "next": "queued"}
        await client.release_job("gang")
        await queue.began("gang")
        assert (await queue.states())["next"] == "queued"


async def test_a_restarted_agent_says_what_was_lost(
    machine: Any, agent_on: Any, until: Any
) -> None:
    async with agent_on(machine) as client:
        queue = Queue(machine, client, 1)
        for id in ("runs", "waits"):
            await queue.add(id)
        await queue.began("runs")
        os.kill(
            json.loads((machine.agent_folder / "agent.json").read_text())["pid"], signal.SIGKILL
        )
        assert (await client.job_output("waits", END_ONLY).wait()).status == "lost"
        assert await queue.states() == {"runs": "lost", "waits": "lost"}
        said = [output.text async for output in client.job_output("waits") if output.kind == "note"]
        assert said == [
            "nbprov: the agent on the machine was restarted before this began; its script is"
            " kept nowhere, so submit it again\n"
        ]
        await queue.add("again", script="true")
        assert (await client.job_output("again").wait()).status == "ok"


async def test_queued_jobs_count_as_activity(machine: Any, agent_on: Any) -> None:
    async with agent_on(machine) as client:
        queue = Queue(machine, client, 1)
        await queue.add("gang", held=True, nodes=2)
        assert "job job" in (await client.status()).active


async def test_a_job_for_which_a_gpu_is_missing_keeps_nothing_awake(
    machine: Any, agent_on: Any
) -> None:
    async with agent_on(machine) as client:
        queue = Queue(machine, client, 2)
        await queue.add("runs", 1)
        await queue.add("both", 2)
        assert "job job" in (await client.status()).active
        # One of the two broke down, and the machine counts one from now on.
        await client.submit_job("true", "small", "n", gpus=0, gpus_told=1)
        await queue.go("runs")
        await client.job_output("small", END_ONLY).wait()
        await client.status()
        status = await client.status()
        assert (await queue.states())["both"] == "queued"
        assert not [what for what in status.active if what.startswith("job")]


async def test_a_place_that_nobody_releases_is_given_up(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_queue, "HOLD_SECONDS", 0.05)
    agent = Agent(tmp_path, 0o077)
    asked = {"nonce": "n", "code": "true", "name": "job", "env": {}}
    await agent.task_operations.submit(None, {**asked, "task": "gang", "held": True, "nodes": 2})
    await agent.task_operations.submit(None, {**asked, "task": "next"})
    assert [agent.tasks[id].meta["state"] for id in ("gang", "next")] == ["queued", "queued"]
    await agent.tasks["next"].done.wait()
    assert (agent.tasks["gang"].meta["status"], agent.tasks["next"].meta["status"]) == (
        "lost",
        "ok",
    )
