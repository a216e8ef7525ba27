"""Jobs of several nodes with nobody connected.

Where one part fails, is cancelled or is lost, the agents end the others.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbprov.on_machine.agent.agent import Agent
from nbprov.on_machine.agent.gang import jobs as gang_jobs
from nbprov.on_machine.agent.gang.messages import (
    MESSAGE_BYTES,
    MESSAGE_ROWS,
    PART_FAILURES,
    encode_message,
    part_key,
    rows_of,
)
from nbprov.on_machine.agent.system import boottime
from nbprov.on_machine.agent.tasks.journal import Cursor

SECRET = "ab" * 32
FOREVER = "exec sleep 614"


class Net:
    """Carries words between the agents of a cluster. What is cut off says and hears nothing."""

    def __init__(self, folder: Path, size: int) -> None:
        self.folder, self.size = folder, size
        self.carried: list[tuple[bytes, Any]] = []
        self.cut: set[int] = set()
        self.agents = [self.agent(rank) for rank in range(size)]

    def agent(self, rank: int, name: str = "") -> Agent:
        folder = self.folder / (name or f"node{rank}")
        folder.mkdir(exist_ok=True)
        made = Agent(folder, 0o077)
        made.gang.set(
            {
                "rank": rank,
                "nodes": [[f"10.0.0.{n + 1}", 29500] for n in range(self.size)],
                "secret": SECRET,
            }
        )
        made.gang.transport = Line(self, rank)  # type: ignore[assignment]
        return made

    def send(self, rank: int, data: bytes, address: Any) -> None:
        self.carried.append((data, address))
        there = int(address[0].rpartition(".")[2]) - 1
        if not {rank, there} & self.cut:
            self.agents[there].gang.datagram_received(data, None)

    def talk(self) -> None:
        """A round of words, and what they are answered."""
        for agent in self.agents:
            agent.gang.send_all()


class Line:
    """As a transport has it."""

    def __init__(self, net: Net, rank: int) -> None:
        self.net, self.rank = net, rank

    def sendto(self, data: bytes, address: Any) -> None:
        self.net.send(self.rank, data, address)

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Net]:
    monkeypatch.setattr(gang_jobs, "GRACE_SECONDS", 0.1)

    def make(size: int = 3) -> Net:
        made = Net(tmp_path, size)
        made.talk()
        return made

    return make


async def submit(
    net: Net,
    *scripts: str,
    id: str = "train-1",
    nonce: str = "n",
    nodes: int | None = None,
    **more: Any,
) -> list[Any]:
    """One script a node, as a kernel submits a job of several nodes; their tasks, once all of them
    run.
    """
    count = len(scripts) if nodes is None else nodes
    asked = {
        "name": "train",
        "env": {},
        "gpus": 0,
        "nodes": count,
        "nonce": nonce,
        "task": id,
        **more,
    }
    for agent, script in zip(net.agents, scripts, strict=False):
        await agent.task_operations.submit(None, {**asked, "code": script})  # type: ignore[arg-type]
    tasks = [agent.tasks[id] for agent in net.agents[: len(scripts)]]
    while any(task.meta["state"] == "queued" for task in tasks):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return tasks


def ends(tasks: list[Any]) -> list[tuple[str, int | None]]:
    return [(task.meta.get("status", ""), task.meta.get("exit_code")) for task in tasks]


def log(task: Any) -> str:
    return "".join(entry.get("text", "") for entry in Cursor(task.journal, 0).read())


async def over(*tasks: Any) -> None:
    await asyncio.gather(*(task.done.wait() for task in tasks))


async def cleared(*tasks: Any) -> None:
    for task in tasks:
        if task.is_live:
            task.cancel()
    await over(*tasks)


async def test_where_one_part_fails_the_others_end_and_say_why(net: Any) -> None:
    cluster = net()
    ready = cluster.folder / "ready"
    ending = f'trap "echo in my own words; exit 5" TERM; touch {ready}; sleep 614 & wait'
    tasks = await submit(
        cluster, FOREVER, f"until [ -e {ready} ]; do sleep 0.02; done; exit 3", ending
    )
    await over(*tasks)
    assert ends(tasks)[:2] == [("cancelled", -15), ("failed", 3)]
    assert ends(tasks)[2][0] == "cancelled"
    assert [task.meta.get("reason") for task in tasks] == [
        "ended: its part on node 1 failed with exit code 3",
        None,
        "ended: its part on node 1 failed with exit code 3",
    ]
    assert "nbprov: ended: its part on node 1 failed with exit code 3\n" in log(tasks[0])
    assert "in my own words" in log(tasks[2])
    assert all(len(data) <= MESSAGE_BYTES for data, _ in cluster.carried)


async def test_a_part_that_fails_by_itself_in_time_keeps_its_own_exit_code(
    net: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gang_jobs, "GRACE_SECONDS", 30.0)
    tasks = await submit(net(2), "sleep 0.3; echo lost the other one; exit 9", "exit 3")
    await over(*tasks)
    assert ends(tasks) == [("failed", 9), ("failed", 3)]
    assert "reason" not in tasks[0].meta


async def test_what_ended_well_ends_nothing_and_other_jobs_are_not_touched(net: Any) -> None:
    cluster = net()
    good = await submit(cluster, FOREVER, "true", FOREVER, id="good-1")
    alone = await submit(cluster, FOREVER, id="alone-1", nodes=1)
    again = await submit(cluster, FOREVER, FOREVER, id="train-1", nonce="a")
    other = await submit(cluster, FOREVER, "exit 1", id="train-11", nonce="a")
    await over(other[0])
    cluster.talk()
    # The same id of another submission: of a cluster that was there before, perhaps.
    cluster.agents[0].gang.jobs.receive(cluster.agents[1].gang.here, _word("train-1", "b"), 0)
    await asyncio.sleep(0.15)
    assert [task.meta["state"] for task in (good[0], good[2], alone[0], *again)] == ["running"] * 5
    await cleared(*good, *alone, *again)


def _word(id: str, nonce: str) -> Any:
    row = {"job": part_key({"id": id, "nonce": nonce}), "node": 1, "status": "failed", "code": 1}
    return json.loads(encode_message({}, "over", [row]))


async def test_a_cancel_reaches_a_node_that_could_not_be_reached_once_it_is_back(net: Any) -> None:
    cluster = net()
    tasks = await submit(cluster, FOREVER, FOREVER, FOREVER)
    cluster.cut = {2}
    tasks[0].cancel()
    await over(*tasks[:2])
    cluster.talk()
    assert tasks[2].is_live
    cluster.cut = set()
    cluster.talk()
    await over(tasks[2])
    assert [task.meta.get("reason") for task in tasks] == [
        None,
        "ended: it was cancelled on node 0",
        "ended: it was cancelled on node 0",
    ]


async def test_an_old_a_forged_and_a_strangers_word_end_nothing(net: Any) -> None:
    cluster = net(3)
    tasks = await submit(cluster, FOREVER, FOREVER, nodes=2)
    first, second, third = (agent.gang for agent in cluster.agents)
    row = {"job": part_key(tasks[0].meta), "node": 1, "status": "failed", "code": 1}
    cluster.cut = {0}
    second.send(0, second.peers[0], second.peers[0].nonce, [row])
    data, _ = cluster.carried[-1]
    second.send(0, second.peers[0], second.peers[0].nonce)
    first.datagram_received(cluster.carried[-1][0], None)  # a later word came first
    first.datagram_received(data, None)
    first.datagram_received(bytes([data[0] ^ 1]) + data[1:], None)
    first.datagram_received(data.replace(b'"n":', b'"n":9'), None)
    cluster.cut = set()
    # A node that has no part of the job cannot speak of it, and none can say it of a node that has
    # none.
    third.send(0, third.peers[0], third.peers[0].nonce, [row])
    second.send(0, second.peers[0], second.peers[0].nonce, [{**row, "node": 2}])
    await asyncio.sleep(0.15)
    assert all(task.is_live for task in tasks)
    second.send(0, second.peers[0], second.peers[0].nonce, [row])
    await over(tasks[0])
    await cleared(*tasks)


async def test_a_part_that_was_lost_with_its_agent_ends_the_others_and_so_does_a_replacement(
    net: Any,
) -> None:
    cluster = net()
    tasks = await submit(cluster, FOREVER, FOREVER, FOREVER)
    cluster.agents[2] = cluster.agent(
        2
    )  # the agent there was started anew: what ran is lost with it
    cluster.talk()
    cluster.talk()
    await over(*tasks[:2])
    assert "node 2 was lost" in tasks[0].meta["reason"]
    later = await submit(cluster, FOREVER, FOREVER, FOREVER, id="later-1")
    for task in later[:2]:
        task.meta["created"] -= 600.0
    cluster.agents[2] = cluster.agent(2, "new")
    cluster.talk()
    cluster.talk()
    await over(*later[:2])
    assert "node 2 was lost" in later[0].meta["reason"]
    await cleared(*tasks, *later)


async def test_a_node_that_is_silent_is_told_of_and_then_counts_as_lost(
    net: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = net()
    tasks = await submit(cluster, FOREVER, FOREVER, nodes=2)
    gang, clock = cluster.agents[0].gang, [boottime()]
    monkeypatch.setattr(gang_jobs, "boottime", lambda: clock[0])

    def wait(seconds: float) -> None:
        for _ in range(round(seconds / 10)):
            clock[0] += 10.0
            gang.check_silence()

    cluster.talk()
    gang.check_silence()
    clock[0] += 9e9  # this machine slept: nobody was silent
    gang.check_silence()
    wait(190)
    assert (
        log(tasks[0])
        == "nbprov: node 1 has not been heard of for 3 min; if that lasts, this is ended in 12"
        " min\n"
    )
    cluster.talk()
    gang.check_silence()
    assert log(tasks[0]).endswith("nbprov: node 1 is heard of again\n")
    wait(890)
    assert tasks[0].is_live
    wait(20)
    await over(tasks[0])
    assert (
        tasks[0].meta["reason"]
        == "ended: node 1, which has a part of it, has not been heard of for 15 min"
    )
    await cleared(*tasks)


async def test_a_node_that_was_never_heard_is_left_to_the_kernel(
    net: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = net(2)
    for peer in cluster.agents[0].gang.peers.values():
        peer.heard = None
    tasks = await submit(cluster, FOREVER)
    clock = boottime()
    _age(monkeypatch, cluster.agents[0], clock, 2000)
    assert tasks[0].is_live
    await cleared(*tasks)


def _age(monkeypatch: pytest.MonkeyPatch, agent: Agent, clock: float, seconds: int) -> None:
    for passed in range(0, seconds, 10):
        monkeypatch.setattr(gang_jobs, "boottime", lambda passed=passed: clock + passed)
        agent.gang.check_silence()


async def test_a_node_that_did_its_part_may_go(net: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = net(3)
    tasks = await submit(cluster, FOREVER, "true", FOREVER)
    await over(tasks[1])
    cluster.cut = {1}
    _age(monkeypatch, cluster.agents[2], boottime(), 600)
    cluster.talk()
    _age(monkeypatch, cluster.agents[2], boottime(), 600)
    assert tasks[2].is_live
    assert log(tasks[2]).splitlines() == [
        "nbprov: node 0 has not been heard of for 3 min; if that lasts, this is ended in 12 min",
        "nbprov: node 0 is heard of again",
        "nbprov: node 0 has not been heard of for 3 min; if that lasts, this is ended in 12 min",
    ]
    await cleared(*tasks)


async def test_a_part_that_ended_well_is_told_of_again_where_the_word_was_lost(net: Any) -> None:
    cluster = net(2)
    cluster.cut = {1}
    tasks = await submit(cluster, FOREVER, "true")
    await over(tasks[1])
    part = next(iter(cluster.agents[0].gang.jobs.parts.values()))
    assert len(part.others) == 1
    cluster.cut = set()
    cluster.talk()
    assert part.others == {}
    assert tasks[0].is_live
    await cleared(*tasks)


async def test_what_waits_is_ended_at_once_and_what_is_not_placed_everywhere_is_not_asked_for(
    net: Any,
) -> None:
    cluster = net(2)
    first = await submit(cluster, FOREVER, FOREVER, id="first-1", gpus="all")
    asked = {
        "name": "next",
        "env": {},
        "gpus": "all",
        "nodes": 2,
        "nonce": "n",
        "task": "next-1",
        "code": FOREVER,
        "held": True,
    }
    for agent in cluster.agents:
        await agent.task_operations.submit(None, dict(asked))
    here, there = cluster.agents[0].gang.here, cluster.agents[1].gang.here
    assert len(cluster.agents[0].gang.jobs.asked(there)) == 1
    for agent in cluster.agents:
        await agent.task_operations.release(None, {"task": "next-1"})
    assert len(cluster.agents[0].gang.jobs.asked(there)) == 2
    assert cluster.agents[0].gang.jobs.asked(here) == []
    cluster.agents[1].tasks["next-1"].cancel()
    waiting = cluster.agents[0].tasks["next-1"]
    await over(waiting)
    assert (waiting.meta["status"], waiting.meta["reason"]) == (
        "cancelled",
        "ended: it was cancelled on node 1",
    )
    assert all(task.is_live for task in first)
    await cleared(*first)


jobs = st.text("0123456789abcdef", min_size=16, max_size=16)
codes = st.none() | st.integers(-64, 255)
bad = st.fixed_dictionaries(
    {
        "job": jobs,
        "node": st.integers(0, 4095),
        "status": st.sampled_from(["ok", *PART_FAILURES]),
        "code": codes,
    }
)
asked_for = st.fixed_dictionaries({"job": jobs, "age": st.integers(0, 10**9)})
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | jobs
    | st.sampled_from([*PART_FAILURES]),
    lambda inner: (
        st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=30,
)


@given(
    st.one_of(
        st.tuples(st.just("over"), st.lists(bad, max_size=40)),
        st.tuples(st.just("live"), st.lists(asked_for, max_size=40)),
    )
)
def test_rows_come_through_a_word_as_they_went_in_and_fit_a_datagram(
    told: tuple[str, list[dict[str, Any]]],
) -> None:
    name, rows = told
    word = {
        "from": 4095,
        "to": 4095,
        "i": "f" * 16,
        "you": "f" * 16,
        "n": 10**12,
        "idle": 123456789.123,
    }
    body = encode_message(word, name, rows)
    assert len(body) + 32 <= MESSAGE_BYTES
    found = [{"job": job, **row} for job, row in rows_of(json.loads(body), name)]
    sound = [row for row in rows if (row.get("status"), row.get("code")) != ("failed", 0)]
    assert found == sound[: len(found)]
    assert len(found) >= min(4, len(sound)) or len(sound) < len(rows)


@given(
    st.sampled_from(["over", "live"]),
    anything | st.lists(st.lists(anything, max_size=5), max_size=40),
)
def test_garbage_in_a_word_is_left_out(name: str, rows: Any) -> None:
    found = rows_of({name: rows}, name)
    assert len(found) <= MESSAGE_ROWS
    for job, row in found:
        assert len(job) == 16
        if name == "over":
            assert (row["node"] in range(4096), row["status"] in ("ok", *PART_FAILURES)) == (
                True,
                True,
            )
            assert (row["status"], row["code"]) != ("failed", 0)
        else:
            assert 0 <= row["age"] < 10**10
