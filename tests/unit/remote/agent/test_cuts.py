"""A line that is cut again and again in the middle of one cell: nothing lost, nothing twice, the
cell run once.

The hundred cuts are in tests/kernel, where a notebook's cell goes the whole way; here every piece
of output is looked at by its number."""

from __future__ import annotations

import random
from typing import Any

import pytest
from cutting_proxy import cutting_proxy

from nbprov.remote.agent.client import AgentClient
from nbprov.remote.agent.config import AgentConfig
from nbprov.remote.ssh.connection import Connection

pytestmark = pytest.mark.machine

CUTS = 30
LINES = 12

# Each round waits for the test's word, so that every cut falls into a cell that still runs. Text
# that cannot be compressed.
CELL = f"""
import os, secrets, time
with open('ran', 'a') as file: file.write('once ')
for turn in range({CUTS + 1}):
    while not os.path.exists(f'go-{{turn}}'): time.sleep(0.002)
    for line in range({LINES}):
        print(turn, line, secrets.token_hex(40), flush=True)
"""


async def test_cuts_in_mid_cell_lose_nothing_and_double_nothing(machine: Any) -> None:
    chance = random.Random(2026)
    async with cutting_proxy(machine.port) as proxy:
        client = await AgentClient.start(
            await Connection.open("127.0.0.1", proxy.port, machine.keys), AgentConfig()
        )
        following = await client.cell(CELL)
        (machine.home / "go-0").touch()
        numbers, text, turn = [], "", 0
        async for output in following:
            numbers.append(output.number)
            text += output.text if output.kind == "stream" else ""
            while turn < CUTS and text.count("\n") >= LINES * (turn + 1):
                turn += 1
                # From nothing to most of what the round will send.
                proxy.cut_after(chance.randrange(1, 1200))
                (machine.home / f"go-{turn}").touch()
        assert proxy.cuts == CUTS
        await client.close()
    assert [tuple(map(int, line.split()[:2])) for line in text.splitlines()] == [
        (t, n) for t in range(CUTS + 1) for n in range(LINES)
    ]
    assert numbers == list(range(1, len(numbers) + 1))
    assert following.end is not None
    assert following.end.content["status"] == "ok"
    assert (machine.home / "ran").read_text() == "once "


test_cuts_in_mid_cell_lose_nothing_and_double_nothing.seconds = 200.0  # type: ignore[attr-defined] # many logins


async def test_a_cell_whose_start_is_cut_runs_once(machine: Any) -> None:
    chance = random.Random(7)
    starts = 20
    async with cutting_proxy(machine.port) as proxy:
        client = await AgentClient.start(
            await Connection.open("127.0.0.1", proxy.port, machine.keys), AgentConfig()
        )
        async for _ in await client.cell("ran = []"):
            pass
        for number in range(starts):
            if number % 2:
                proxy.cut_after(chance.randrange(1, 200))  # the answer is lost, or half of it
            else:
                proxy.cut()  # before the request goes out
            async for _ in await client.cell(f"ran.append({number})"):
                pass
        (shown,) = [
            o.content["data"]["text/plain"]
            async for o in await client.cell("ran")
            if o.kind == "execute_result"
        ]
        await client.close()
    assert shown == str(list(range(starts)))
    assert proxy.cuts > starts // 2
