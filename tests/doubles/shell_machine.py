"""A machine as far as a shell on it goes: this computer's, with a home of its own. For what only reads a file there, or runs a script."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

from nbprov.model.launches import Instance, InstanceState
from nbprov.model.places import Place
from nbprov.provisioning.live import Node


class ShellMachine:
    """Stands where a connection does."""

    def __init__(self, home: Path) -> None:
        self.home = home

    @contextlib.asynccontextmanager
    async def channel(self, command: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """Run a command there."""
        env = {"HOME": str(self.home), "PATH": os.environ["PATH"]}
        process = await asyncio.create_subprocess_exec("sh", "-c", command, env=env, stdout=asyncio.subprocess.PIPE)
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def shell_node(home: Path, number: int = 0) -> Node:
    """A node that is such a machine."""
    instance = Instance("local", f"i{number}", "t", "o", Place("local", "r", "z"), "small", InstanceState.RUNNING, node=number)
    return Node(instance, ShellMachine(home))  # type: ignore[arg-type]
