"""Kernel hosts: how they are started, and the record of kernels that outlives the agent."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

from ..state_files import read_json, write_json
from ..tasks.scripts import ScriptRunner


class KernelRecord:
    """The kernels there are, kept on disk for the agent that comes after this one.

    A user believes that a kernel's variables are there until told otherwise.

    Parameters
    ----------
    folder
        The agent's folder.
    started
        When this agent started, which tells its own kernels from earlier ones.
    identity
        The machine's boot.
    """

    def __init__(self, folder: Path, started: float, identity: str) -> None:
        self._path = folder / "kernels.json"
        self._entry = {"agent": started, "identity": identity}

    def lost(self, name: str) -> str:
        """Return why a kernel of an earlier agent is gone; empty where there was none."""
        before = (read_json(self._path) or {}).get(name)
        if not isinstance(before, dict) or before.get("agent") == self._entry["agent"]:
            return ""
        if before.get("identity") != self._entry["identity"]:
            return "the machine was stopped and started since"
        return "the agent on the machine was restarted"

    def note(self, name: str, *, is_there: bool) -> None:
        """Write down that a kernel is there, or that it is gone and its user knows."""
        known = read_json(self._path) or {}
        entry = self._entry if is_there else None
        if known.get(name) != entry:
            known[name] = entry
            write_json(self._path, known)


class HostLauncher:
    """Starts kernel hosts: this archive, run by an interpreter that has ipykernel."""

    def __init__(self, folder: Path, archive: str, scripts: ScriptRunner) -> None:
        self._folder, self._archive, self._scripts = folder, archive, scripts
        self.umask = scripts.umask

    def python_folder(self) -> str:
        """Return the environment of the spec's `python`; a kernel of another one is ended."""
        return self._scripts.python_folder()

    async def start(self, python: str) -> asyncio.subprocess.Process:
        """Start a host, which waits for its `start` frame."""
        return await asyncio.create_subprocess_exec(
            python,
            self._archive,
            "kernel-host",
            str(self._folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env=self._scripts.environment({}),
        )
