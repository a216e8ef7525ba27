"""A machine for tests that only need a shell: this computer's, with another home."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nbprov.model.launches import Instance, InstanceState
from nbprov.model.places import Place
from nbprov.provisioning.live_cluster import Node
from nbprov.remote.agent.messages import OutputPiece, TaskInfo


class ShellMachine:
    """Replaces a connection."""

    def __init__(self, home: Path) -> None:
        self.home = home

    @contextlib.asynccontextmanager
    async def channel(self, command: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """Run a command there."""
        env = {"HOME": str(self.home), "PATH": os.environ["PATH"]}
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", command, env=env, stdout=asyncio.subprocess.PIPE
        )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


class ShellAgent:
    """Replaces an agent: runs each job when its output is read."""

    def __init__(self, home: Path, env: Mapping[str, str]) -> None:
        self.home, self.env = home, env
        self.scripts: dict[str, tuple[str, Mapping[str, str]]] = {}
        self.codes: dict[str, int | None] = {}

    async def jobs(self) -> tuple[TaskInfo, ...]:
        """All so far."""
        return tuple([await self.task(id) for id in self.scripts])

    async def task(self, id: str) -> TaskInfo:
        """One of them."""
        code = self.codes.get(id)
        return TaskInfo(
            id, "job", id.partition("-")[0], "running" if code is None else "ended", exit_code=code
        )

    async def run_job(self, script: str, *, id: str, env: Mapping[str, str], **more: Any) -> None:
        """Take a job."""
        self.scripts[id] = script, env

    async def job_output(self, id: str) -> AsyncIterator[OutputPiece]:
        """Run a job and yield its output line by line."""
        script, env = self.scripts[id]
        process = await asyncio.create_subprocess_exec(
            "bash",
            "-c",
            script,
            env={**self.env, **env},
            cwd=self.home,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        assert process.stdout is not None
        number = 0
        async for line in process.stdout:
            number += 1
            yield OutputPiece(number, 0.0, "stdout", line.decode())
        self.codes[id] = await process.wait()


def shell_node(home: Path, number: int = 0, env: Mapping[str, str] | None = None) -> Node:
    """Return a node that is such a machine; with variables for its jobs it has an agent too."""
    instance = Instance(
        "local",
        f"i{number}",
        "t",
        "o",
        Place("local", "r", "z"),
        "small",
        InstanceState.RUNNING,
        node=number,
    )
    instance = replace(instance, private_host=f"10.0.0.{number + 1}")
    return Node(instance, ShellMachine(home), ShellAgent(home, env) if env is not None else None)  # type: ignore[arg-type]
