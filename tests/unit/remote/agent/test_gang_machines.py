"""Machines of one cluster with real agents and nobody connected.

They stay while one of them works, and end together.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from quiet_ports import free_port

from nbprov.remote.agent.config import GuardConfig

pytestmark = pytest.mark.machine

IDLE = 1.5
SECRET = bytes(range(32))
POWEROFF = 'printf "%s|%s" {mode} {reason} >"$HOME/off.new" && mv "$HOME/off.new" "$HOME/off"'


async def _joined(
    stack: contextlib.AsyncExitStack, machines: list[Any], agent_on: Any
) -> list[Any]:
    # Long enough for all agents to start.
    clients = [
        await stack.enter_async_context(agent_on(one, GuardConfig(POWEROFF, idle_seconds=60)))
        for one in machines
    ]
    nodes = [("127.0.0.1", free_port(socket.SOCK_DGRAM)) for _ in machines]
    await asyncio.gather(
        *(client.gang.join(rank, nodes, SECRET) for rank, client in enumerate(clients))
    )
    for client in clients:
        await _heard(client)
    return clients


async def _heard(client: Any) -> None:
    while any(peer.heard is None for peer in await client.gang.peers()):  # noqa: ASYNC110
        await asyncio.sleep(0.02)


def _off(machine: Any) -> Path:
    return Path(machine.home / "off")


async def test_a_job_on_one_machine_keeps_all_and_after_it_all_end_together(
    three: list[Any], agent_on: Any, until: Any
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        clients = await _joined(stack, three, agent_on)
        await clients[1].run_job(f"sleep {4 * IDLE}; touch done")
        await asyncio.gather(
            *(client.set_guards(GuardConfig(POWEROFF, idle_seconds=IDLE)) for client in clients)
        )
    done = three[1].home / "done"
    await until(done.exists, "the job's end")
    assert not any(_off(one).exists() for one in three)
    await until(lambda: all(_off(one).exists() for one in three), "the end of all", 2 * IDLE + 5)
    ends = [_off(one).stat().st_mtime for one in three]
    assert max(ends) - min(ends) < IDLE
    assert min(ends) - done.stat().st_mtime > IDLE * 0.8


async def test_a_machine_that_died_at_work_does_not_keep_the_others(
    three: list[Any], agent_on: Any, until: Any
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        clients = await _joined(stack, three, agent_on)
        await clients[2].run_job("sleep 607")
        await asyncio.gather(
            *(client.set_guards(GuardConfig(POWEROFF, idle_seconds=IDLE)) for client in clients)
        )
    died = time.time()
    three[2].end_processes()
    await until(
        lambda: all(_off(one).exists() for one in three[:2]),
        "the end of those that are left",
        2 * IDLE + 5,
    )
    assert min(_off(one).stat().st_mtime for one in three[:2]) - died > IDLE * 0.5


async def test_machines_that_were_never_told_of_each_other_end_each_by_itself(
    three: list[Any], agent_on: Any, until: Any
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        pair = [
            await stack.enter_async_context(agent_on(one, GuardConfig(POWEROFF, idle_seconds=IDLE)))
            for one in three[:2]
        ]
        await pair[1].run_job("sleep 608")
    await until(_off(three[0]).exists, "the end of the idle one")
    assert not _off(three[1]).exists()
