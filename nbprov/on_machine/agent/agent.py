"""The agent: puts its parts together, and runs them until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
import time
from functools import lru_cache
from pathlib import Path
from typing import Callable

from . import PROTOCOL, VERSION
from .activity import Activity
from .background import spawn
from .boxes import Boxes
from .bridge import SOCKET
from .clients import Clients
from .errors import disk_trouble
from .gang.gang import GangHeartbeat
from .gang.jobs import GangJobs
from .guards.guard_clocks import UNSET_SECONDS, GuardClocks
from .guards.shutdown import END_FILE, MachineShutdown
from .guards.watch import GuardWatch
from .json_types import Json
from .kernels.interpreter import KernelInterpreter
from .kernels.launcher import HostLauncher, KernelRecord
from .kernels.pool import KernelPool
from .lifecycle.standby import Standby
from .load import LoadHistory
from .log import report_error
from .machine_operations import MachineOperations
from .secret_registry import SecretRegistry
from .server import AgentServer
from .state_files import read_json, write_json
from .system import boot_identity, boottime
from .task_operations import TaskOperations
from .tasks.job_queue import JobQueue
from .tasks.scripts import CANCEL_SECONDS, ScriptRunner, is_system_stopping
from .tasks.store import TaskStore

LISTEN_AGAIN_SECONDS = 2.0
LOST_TOLD = 50
"""So many jobs that a stop cut off are named to whoever connects."""


class Agent:
    """The agent of one machine. Everything but its own supervision, which `daemon.py` has.

    Parameters
    ----------
    folder
        Where its socket and files lie; the working folder while it runs.
    umask
        That of whoever started it, which jobs and kernels are given.
    archive
        The path of the archive that it runs from.
    is_restart
        Its supervisor started it anew after a crash.
    is_boot
        The machine started it at its boot.
    """

    def __init__(
        self,
        folder: Path,
        umask: int,
        archive: str = "",
        is_restart: bool = False,
        is_boot: bool = False,
    ) -> None:
        self._folder = folder
        self._started = time.time()
        self._stopped = asyncio.Event()
        self._hash = archive_hash(archive)
        self._previous_end = read_json(folder / END_FILE)
        identity = boot_identity(folder)
        secrets, scripts = SecretRegistry(), ScriptRunner(folder, umask)
        self.secrets = secrets
        self.clients, self.activity, self.boxes = Clients(), Activity(), Boxes(folder)
        self.tasks = TaskStore(folder, secrets)
        self.guards = GuardClocks(folder, boottime(), time.time(), identity, is_restart, is_boot)
        self.shutdown = MachineShutdown(
            folder, self.guards, self.tasks, self.clients, scripts, secrets
        )
        self.queue = JobQueue(self.tasks, self.activity, scripts, self._is_ending)
        self.kernels = KernelPool(
            HostLauncher(folder, archive, scripts),
            KernelInterpreter(folder, scripts, archive),
            KernelRecord(folder, self._started, identity),
            secrets,
        )
        self._load = LoadHistory(self.activity)
        gang_jobs = GangJobs(lambda: self.guards.age, self.queue.begin_ready)
        self.gang = GangHeartbeat(folder, self.guards.idle_since, gang_jobs)
        for task in self.tasks.all():
            self.gang.add_job(task)
        self.watch = GuardWatch(
            self.guards,
            self.activity,
            self.tasks,
            self.queue,
            self.boxes,
            self.gang,
            self.clients,
            self.shutdown,
            Standby(folder, umask, archive),
            self._load,
        )
        self.task_operations = self._make_task_operations(secrets)
        self._server = AgentServer(
            self.clients, self.task_operations, self._make_machine_operations(), self._hello
        )

    async def run(self, ready: Callable[[str], None]) -> None:
        """Serve until a client or the machine's own end ends the agent.

        Parameters
        ----------
        ready
            Called with an empty text once it listens, or with why it does not.
        """
        loop = asyncio.get_event_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, lambda: spawn(self._end_with_system()))
        # The guards first: they need no socket, which a full or broken disk may not take.
        watcher = spawn(self.watch.run())
        self._write_state()
        listener = spawn(self._listen(ready))
        await self._stopped.wait()
        watcher.cancel()
        listener.cancel()
        await self._wind_up()
        self.gang.close()  # after the others were told that the parts of jobs here are lost

    async def _end_with_system(self) -> None:
        """End in order where the machine shuts down; whatever else sends a signal is not obeyed.

        What ends every Python must not take a machine its guards.
        """
        if await is_system_stopping():
            self._stopped.set()
        else:
            self.tasks.event("signal")

    async def _listen(self, ready: Callable[[str], None]) -> None:
        while True:
            try:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(SOCKET)
                # Relative to the working folder: a socket's path may have only about 100 bytes.
                server = await asyncio.start_unix_server(self._server.serve, path=SOCKET)
            except OSError as error:
                report_error("opening the agent's socket")
                ready(f"{disk_trouble(error)}: {error}")
                await asyncio.sleep(LISTEN_AGAIN_SECONDS)
                continue
            ready("")
            async with server:
                await server.serve_forever()

    def _make_task_operations(self, secrets: SecretRegistry) -> TaskOperations:
        return TaskOperations(
            self.tasks,
            self.queue,
            self.kernels,
            self.activity,
            self.gang,
            secrets,
            self.shutdown,
            self.watch.wake,
        )

    def _make_machine_operations(self) -> MachineOperations:
        return MachineOperations(
            self.tasks,
            self.kernels,
            self.boxes,
            self.guards,
            self.gang,
            self.activity,
            self._load,
            self.watch,
            self.shutdown,
            self._stopped.set,
        )

    def _is_ending(self) -> bool:
        return self.shutdown.due is not None

    def _hello(self) -> Json:
        return {
            "ev": "hello",
            "version": VERSION,
            "protocol": PROTOCOL,
            "hash": self._hash,
            "pid": os.getpid(),
            "started": self._started,
            "previous_end": self._previous_end,
            "ending": self.shutdown.due,
            "lost": self.tasks.lost_jobs[-LOST_TOLD:],
            "unset": self.guards.unset_since is not None,
        }

    def _write_state(self) -> None:
        if self._previous_end is not None:
            with contextlib.suppress(OSError):  # then it is told once more
                (self._folder / END_FILE).replace(self._folder / "ended.previous.json")
        state = {"pid": os.getpid(), "version": VERSION, "hash": self._hash}
        write_json(self._folder / "agent.json", {**state, "started": self._started})
        self.tasks.event("started", version=VERSION, pid=os.getpid())
        if self.guards.is_lost:
            self.tasks.event("guards_lost", seconds=UNSET_SECONDS)

    async def _wind_up(self) -> None:
        for kernel in self.kernels.all():
            kernel.restart()
        self.queue.give_up()
        live = self.tasks.live()
        for task in live:
            task.is_left = True
            task.cancel()
        if live:
            ends = [asyncio.ensure_future(task.done.wait()) for task in live]
            await asyncio.wait(ends, timeout=CANCEL_SECONDS + 2)
        self.guards.save()
        self.tasks.event("stopped")
        with contextlib.suppress(OSError):
            (self._folder / "agent.json").unlink()


@lru_cache(maxsize=None)
def archive_hash(path: str) -> str:
    """Return the hash of the archive; read once, so that it can be told without the disk."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest() if path else ""
