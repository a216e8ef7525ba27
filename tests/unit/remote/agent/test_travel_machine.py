"""Variables on their way to a machine and back.

Over lines that are cut in the middle, taken once, and nothing of them stays behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cutting_proxy import CuttingProxy, cutting_proxy

from nbprov.machines.cells.cells import RunningCell, python_cell
from nbprov.machines.variables import transfer
from nbprov.machines.variables.restricted_unpickler import plain_value
from nbprov.machines.variables.transfer import Copying, TransferInterrupted
from nbprov.model.launches import Instance, InstanceState
from nbprov.model.offers import Candidate, Offer
from nbprov.model.places import Market, Place
from nbprov.model.resources import Request
from nbprov.on_machine.pack_values import pack
from nbprov.on_machine.transfer_limit import TransferLimit
from nbprov.provisioning.live_cluster import LiveCluster, Node
from nbprov.remote.agent import transport
from nbprov.remote.agent.boxes import BoxClient
from nbprov.remote.agent.client import AgentClient
from nbprov.remote.agent.config import AgentConfig
from nbprov.remote.agent.framing import AgentError
from nbprov.remote.ssh.connection import Connection

pytestmark = pytest.mark.machine

MOST = 100_000_000
NOISE = os.urandom(1_000_000)
EVERY = 400_000
"""Bytes between two cuts: of the noise, a third larger on its way, some pieces are left over after
each.
"""


@contextlib.asynccontextmanager
async def cluster_at(port: int, keys: Any) -> AsyncIterator[LiveCluster]:
    """A cluster of one machine that is reached at a port of this computer."""
    offer = Offer(
        "local",
        "here",
        "here-a",
        "small",
        "",
        0.0,
        2.0,
        4.0,
        Market.ON_DEMAND,
        1,
        source="test",
        as_of="2026-11-01",
    )
    place = Place("local", "here", "here-a")
    instance = Instance(
        "local",
        "i-1",
        "1" * 32,
        "me",
        place,
        "small",
        InstanceState.RUNNING,
        host="127.0.0.1",
        port=port,
    )
    agent = await AgentClient.start(await Connection.open("127.0.0.1", port, keys), AgentConfig())
    try:
        yield LiveCluster(
            "run1234567",
            "dev",
            Candidate(offer, Request(), 0, 1, ""),
            keys,
            [Node(instance, agent.connection, agent)],
        )
    finally:
        await agent.close()


@contextlib.asynccontextmanager
async def cuts(proxy: CuttingProxy, way: str) -> AsyncIterator[None]:
    """Cut again and again after so many bytes of one way."""

    async def go_on() -> None:
        while True:
            if not proxy.is_armed:
                (proxy.cut_after if way == "said" else proxy.cut_after_heard)(EVERY)
            await asyncio.sleep(0.002)

    task = asyncio.create_task(go_on())
    try:
        yield
    finally:
        task.cancel()


class Once:
    """Writes into a file of the machine whenever it is unpickled."""

    def __reduce__(self) -> Any:
        return exec, ("open('ran', 'a').write('once ')",)


def packed(**variables: Any) -> bytes:
    file = io.BytesIO()
    assert "sizes" in pack(variables, list(variables), MOST, False, file)
    return file.getvalue()


SHADOWS = "open, compile, exec, print, json"
NAMES = "sorted(name for name in globals() if not name.startswith('_') or 'nbprov' in name)"


async def value(live: LiveCluster, expression: str) -> str:
    return (await python_cell(live, expression)).value


def journals(machine: Any) -> int:
    """Bytes of all outputs that its agent keeps."""
    return sum(path.stat().st_size for path in machine.agent_folder.glob("tasks/*/*"))


def boxes(machine: Any) -> list[Path]:
    return list((machine.agent_folder / "boxes").glob("*"))


async def test_a_copy_whose_line_is_cut_again_and_again_arrives_once_and_whole(
    shared_machine: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "FIRST_PIECE", 64 * 1024)
    monkeypatch.setattr(transfer, "LARGEST_PIECE", 64 * 1024)
    async with (
        cutting_proxy(shared_machine.port) as proxy,
        cluster_at(proxy.port, shared_machine.keys) as live,
    ):
        async with cuts(proxy, "heard"):
            assert (
                await transfer.send(
                    live, packed(once=Once(), noise=NOISE), ["once", "noise"], Copying(), None
                )
                == {}
            )
        assert proxy.cuts >= 2
        await python_cell(live, "back = {'noise': noise[::-1]}")
        copying = Copying()
        proxy.cut()
        there = proxy.cuts
        async with cuts(proxy, "said"):
            told, (part,) = await transfer.fetch(live, ["back"], MOST, True, copying, None)
        assert proxy.cuts - there >= 2
        assert told == {"sizes": [len(part)]}
        assert copying.done == copying.total == len(part)
        assert plain_value(part) == {"noise": NOISE[::-1]}
        assert (shared_machine.home / "ran").read_text() == "once "
        await until(lambda: boxes(shared_machine) == [], "nothing is left of the copies")


test_a_copy_whose_line_is_cut_again_and_again_arrives_once_and_whole.seconds = 200.0  # type: ignore[attr-defined] # many logins


async def test_a_copy_says_that_its_line_is_down_and_goes_on_once_it_is_back(
    shared_machine: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "FIRST_PIECE", 16 * 1024)
    monkeypatch.setattr(transfer, "LARGEST_PIECE", 16 * 1024)
    monkeypatch.setattr(transfer, "LOOK_SECONDS", 0.02)
    async with (
        cutting_proxy(shared_machine.port) as proxy,
        cluster_at(proxy.port, shared_machine.keys) as live,
    ):
        copying, heard = Copying(), ""

        def hear(message: Any) -> None:
            nonlocal heard
            heard += message["content"].get("text", "")

        task = asyncio.create_task(
            transfer.send(live, packed(noise=NOISE), ["noise"], copying, hear)
        )
        await until(lambda: copying.done > 0, "the copy is under way")
        proxy.go_down()
        await until(
            lambda: "nbprov: the line to dev is down; the copy goes on once it is back" in heard,
            "that is said",
        )
        proxy.come_up()
        assert await task == {}
        assert await value(live, "len(noise)") == str(len(NOISE))


@pytest.mark.parametrize("way", ["there", "back"])
async def test_a_copy_whose_line_stays_down_is_given_up(
    shared_machine: Any, until: Any, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(transfer, "FIRST_PIECE", 16 * 1024)
    monkeypatch.setattr(transfer, "LARGEST_PIECE", 16 * 1024)
    limit = TransferLimit(seconds=0.5)
    async with (
        cutting_proxy(shared_machine.port) as proxy,
        cluster_at(proxy.port, shared_machine.keys) as live,
    ):
        await python_cell(live, "wide = bytes(8_000_000)")
        copying = Copying()
        copy: Any = (
            transfer.send(live, packed(noise=NOISE), ["noise"], copying, None, limit)
            if way == "there"
            else transfer.fetch(live, ["wide"], MOST, True, copying, None, limit)
        )
        task = asyncio.create_task(copy)
        await until(lambda: copying.done > 0, "the copy is under way")
        proxy.go_down()
        with pytest.raises(TransferInterrupted, match="moved less than 1 kB a second"):
            await task
        proxy.come_up()
        await until(lambda: boxes(shared_machine) == [], "nothing is left of the copy")


async def test_nothing_stays_behind_of_a_copy_however_it_ends(
    shared_machine: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "FIRST_PIECE", 16 * 1024)
    monkeypatch.setattr(transfer, "LARGEST_PIECE", 16 * 1024)
    async with cluster_at(shared_machine.port, shared_machine.keys) as live:
        await python_cell(
            live,
            "import threading\nlock, wide, small = threading.Lock(), bytes(3_000_000),"
            f" [1]\n{SHADOWS} = [None] * 5",
        )
        before = await value(live, NAMES)
        ends = [
            ("fetched", transfer.fetch(live, ["small"], MOST, True, Copying(), None)),
            ("no pickle", transfer.fetch(live, ["small", "lock"], MOST, False, Copying(), None)),
            ("too much", transfer.fetch(live, ["wide"], 1_000_000, True, Copying(), None)),
            ("torn", transfer.send(live, b"no pickle", ["gone"], Copying(), None)),
        ]
        for what, copy in ends:
            await copy
            await until(lambda: boxes(shared_machine) == [], what)
        copying = Copying()
        task = asyncio.create_task(transfer.send(live, bytes(8_000_000), ["gone"], copying, None))
        await until(lambda: copying.done > 0, "the copy is under way")
        assert boxes(shared_machine)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert copying.settled.is_set()
        await until(lambda: boxes(shared_machine) == [], "interrupted")
        assert await value(live, NAMES) == before
        await python_cell(live, f"del {SHADOWS}")


SLOW = """
import time
class Slow:
    def __reduce__(self):
        open('packing', 'w').close()
        time.sleep(600)
        return list, ()
slow = Slow()
"""


async def test_an_interrupt_ends_the_packing_there(shared_machine: Any, until: Any) -> None:
    async with cluster_at(shared_machine.port, shared_machine.keys) as live:
        await python_cell(live, SLOW)
        task = asyncio.create_task(transfer.fetch(live, ["slow"], MOST, False, Copying(), None))
        await until(lambda: (shared_machine.home / "packing").exists(), "it packs")
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert await value(live, "'free again'") == "'free again'"
        await until(lambda: boxes(shared_machine) == [], "interrupted")


async def test_copies_leave_next_to_nothing_in_the_journal(shared_machine: Any) -> None:
    async with cluster_at(shared_machine.port, shared_machine.keys) as live:
        agent = live.head.agent
        assert agent is not None
        underway = RunningCell()
        await python_cell(live, "big = bytes(4_000_000)", underway=underway)
        before = journals(shared_machine)
        await transfer.fetch(live, ["big"], MOST, True, Copying(), None)
        await transfer.send(live, packed(noise=NOISE), ["noise"], Copying(), None)
        assert journals(shared_machine) - before < 100_000
        assert underway.id in [task.id for task in await agent.tasks()]


async def test_a_machine_that_takes_nothing_is_given_up(
    shared_machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster_at(shared_machine.port, shared_machine.keys) as live:
        folder = shared_machine.agent_folder / "boxes"
        put = BoxClient.put

        async def lossy(self: BoxClient, box: str, offset: int, data: Any) -> tuple[int, str]:
            told = await put(self, box, offset, data)
            (folder / box).write_bytes(b"")
            return (0, told[1])

        monkeypatch.setattr(BoxClient, "put", lossy)
        with pytest.raises(TransferInterrupted, match="loses what is sent"):
            await transfer.send(live, bytes(1000), ["x"], Copying(), None)


GIANT = """
from IPython.display import publish_display_data
publish_display_data({'text/plain': 'a figure', 'image/png': text})
"""


async def test_outputs_beyond_measure_leave_the_kernel_and_the_agent_alive(
    shared_machine: Any,
) -> None:
    async with cluster_at(shared_machine.port, shared_machine.keys) as live:
        await python_cell(live, "kept = 7")
        pid = (shared_machine.agent_folder / "agent.json").read_text()
        shown: list[Any] = []
        result = await python_cell(live, "text = 'x' * 67_200_000\nprint(text)")
        assert result.text.count("x") > 1_000_000
        await python_cell(live, GIANT, on_output=shown.append)
        words = "".join(
            m["content"]["text"]
            for m in shown
            if m["msg_type"] == "stream" and m["content"]["name"] == "stderr"
        )
        assert "nbprov: the image/png of an output of 64 MB was left out" in words
        assert [m["content"]["data"] for m in shown if m["msg_type"] == "display_data"] == [
            {"text/plain": "a figure"}
        ]
        assert await value(live, "kept") == "7"
        assert (shared_machine.agent_folder / "agent.json").read_text() == pid


test_outputs_beyond_measure_leave_the_kernel_and_the_agent_alive.seconds = 200.0  # type: ignore[attr-defined] # some hundred MB go through pipes


async def test_a_machine_that_is_not_found_again_leaves_the_way_to_the_rest(
    shared_machine: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        cutting_proxy(shared_machine.port) as proxy,
        cluster_at(proxy.port, shared_machine.keys) as live,
    ):
        monkeypatch.setattr(transport, "RECONNECT_SECONDS", 0.5)
        wait = (
            "import os, time\nopen('waits', 'w').close()\nwhile not os.path.exists('go'):"
            " time.sleep(0.01)\nprint('the rest')"
        )
        task = asyncio.create_task(python_cell(live, wait))
        await until(lambda: (shared_machine.home / "waits").exists(), "the cell runs")
        proxy.go_down()
        with pytest.raises(AgentError) as raised:
            await task
        assert raised.value.code == "agent.lost"
        command = next(
            words
            for words in raised.value.hint.split(": ")
            if words.startswith("%nbprov cells dev cell-")
        ).split(" reads")[0]
        assert command.endswith(" -f")
        (shared_machine.home / "go").touch()
        proxy.come_up()
        agent = live.head.agent
        assert agent is not None
        outputs = [output async for output in agent.job_output(command.split()[3])]
        assert "".join(output.text for output in outputs if output.kind == "stream") == "the rest\n"
