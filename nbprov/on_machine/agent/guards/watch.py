"""The guards' loop, which needs nobody but the machine itself."""

from __future__ import annotations

import asyncio
import contextlib
import time
import traceback

from ..activity import Activity
from ..background import spawn
from ..boxes import Boxes
from ..clients import Clients
from ..gang.gang import GangHeartbeat
from ..system import boottime
from ..tasks.job_queue import JobQueue
from ..tasks.store import TaskStore
from .guard_clocks import GuardClocks
from .shutdown import MachineShutdown

GPU_BUSY_PERCENT = 5.0
CPU_BUSY_CORES = 0.2
"""CPU use that counts as work.

It is twice what the daemons of an idle cloud image use together, a fifth of one busy loop."""


class GuardWatch:
    """Looks at what the machine does, advances the guards' clocks, and ends the machine.

    Attributes
    ----------
    active
        What goes on, in words, as of the last look.
    """

    def __init__(
        self,
        guards: GuardClocks,
        activity: Activity,
        tasks: TaskStore,
        queue: JobQueue,
        boxes: Boxes,
        gang: GangHeartbeat,
        clients: Clients,
        shutdown: MachineShutdown,
    ) -> None:
        self._guards, self._activity = guards, activity
        self._tasks, self._queue, self._boxes = tasks, queue, boxes
        self._gang, self._clients, self._shutdown = gang, clients, shutdown
        self._wanted = asyncio.Event()
        self.active: list[str] = []

    def wake(self) -> None:
        """Look at once: the guards changed, or the other machines should hear of new work."""
        self._wanted.set()

    def look(self) -> None:
        """Measure the activity and advance the clocks."""
        self._activity.measure(self._clients.sessions())
        self.active = self.what_is_active()
        self._guards.tick(boottime(), time.time(), self.active)
        if self.active:
            self._gang.own = self._guards.now
        self._guards.note_peer_activity(self._gang.last_active())

    def what_is_active(self) -> list[str]:
        """Return what goes on that keeps the machine from being idle."""
        wait_for = self._guards.config.get("wait_for", "jobs_and_ssh")
        if wait_for == "none":
            return []
        found = self._active_tasks()
        if self._boxes.changed > self._guards.now:
            found.append("variables")
        if wait_for == "jobs_and_ssh" and self._activity.sessions:
            found.append(f"{self._activity.sessions} ssh")
        percent = self._activity.gpu_percent
        if percent is not None and percent > GPU_BUSY_PERCENT:
            found.append(f"gpu {int(percent)}%")
        at_rest = sum(task.meta.get("rest", 0.0) for task in self._tasks.live())
        if self._activity.cores > CPU_BUSY_CORES + at_rest:
            found.append(f"cpu {self._activity.cores:.1f}")
        return found

    async def run(self) -> None:
        """Look again and again. No error ends the guards; the clocks go on at the next look."""
        while True:
            self._wanted.clear()
            try:
                await self._run_once()
            except Exception:
                traceback.print_exc()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), self._guards.pause())

    def _active_tasks(self) -> list[str]:
        # A service that only waits is no work; what it does shows as CPU and GPU use. Nor is a job
        # that waits: one for which GPUs are missing, since one broke down, would cost for ever.
        waiting = self._queue.waiting_ids()
        # What came and went since the last look counts: most cells take less time than that.
        return [
            "{} {}".format(task.meta["kind"], task.meta["name"])
            for task in self._tasks.all()
            if not task.meta.get("service")
            and task.id not in waiting
            and (task.is_live or task.changed > self._guards.now)
        ]

    async def _run_once(self) -> None:
        self.look()
        self._boxes.drop_old()
        self._gang.check_silence()
        await self._gang.send_if_due(self._guards.gang_pause())
        spawn(self._activity.measure_gpus())
        for near in self._guards.warnings():
            self._tasks.event("warning", **near)
            await self._clients.broadcast({"ev": "warning", **near})
        due = self._guards.due()
        if due is not None:
            await self._shutdown.run(due)
        self._guards.held = None
