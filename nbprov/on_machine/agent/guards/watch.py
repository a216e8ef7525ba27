"""The guards' loop, which needs nobody but the machine itself."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Awaitable, Callable, Optional

from ..activity import Activity
from ..background import spawn
from ..boxes import Boxes
from ..clients import Clients
from ..gang.gang import GangHeartbeat
from ..lifecycle.standby import Standby
from ..load import LoadHistory
from ..log import forget_error, report_error
from ..state_files import write_unwritten
from ..system import boottime
from ..tasks.job_queue import JobQueue
from ..tasks.store import TaskStore
from .guard_clocks import TICK_SECONDS, GuardClocks
from .shutdown import MachineShutdown

GPU_BUSY_PERCENT = 5.0
CPU_BUSY_CORES = 0.2
"""CPU use that counts as work.

It is twice what the daemons of an idle cloud image use together, a fifth of one busy loop."""


Step = Callable[[], Optional[Awaitable[None]]]


class GuardWatch:
    """Looks at what the machine does, advances the guards' clocks, and ends the machine.

    No error ends it, whatever fails: each step is tried by itself, and again at the next look. What
    may take its time has a loop of its own, so that nothing stops the clocks.

    Attributes
    ----------
    active
        What goes on, in words, as of the last look.
    on_look
        Called after each look, for whoever watches this.
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
        standby: Standby,
        load: LoadHistory,
    ) -> None:
        self._guards, self._activity = guards, activity
        self._tasks, self._queue, self._boxes = tasks, queue, boxes
        self._gang, self._clients, self._shutdown = gang, clients, shutdown
        self._standby, self._load = standby, load
        self._wanted, self._looked = asyncio.Event(), asyncio.Event()
        self.active: list[str] = []
        self.on_look: Callable[[], None] = lambda: None

    def wake(self) -> None:
        """Look at once: the guards changed, or the other machines should hear of new work."""
        self._wanted.set()

    def look(self) -> None:
        """Measure the activity and advance the clocks; what cannot be measured is no activity."""
        if not _try("the measurement of activity", self._measure):
            self._activity.forget()
        _try("the sample of the load", self._load.note)
        found: list[str] = []
        if not _try("the list of what is active", lambda: found.extend(self.what_is_active())):
            found = []
        self.active = found
        self._guards.tick(boottime(), time.time(), self.active)
        if self.active:
            self._gang.own = self._guards.now
        self._guards.note_peer_activity(self._gang.last_active())

    def _measure(self) -> None:
        self._activity.measure(self._clients.sessions())

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
        """Look again and again, until the machine is off."""
        spawn(self._keep_up())
        while True:
            self._wanted.clear()
            _try("a look at the guards", self._end_if_due)
            self.on_look()
            self._looked.set()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), self._pause())

    def _end_if_due(self) -> None:
        if self._shutdown.due is not None:
            return
        try:
            self.look()
        finally:
            due = self._guards.due()
            if due is not None:
                spawn(self._shutdown.run(due))
            else:
                self._guards.held = None

    def _pause(self) -> float:
        try:
            return self._guards.pause()
        except Exception:
            report_error("the guards' pause")
            return TICK_SECONDS

    async def _keep_up(self) -> None:
        """Do what else is to be done, after each look."""
        steps: dict[str, Step] = {
            "the removal of old variables": self._boxes.drop_old,
            "writing states": write_unwritten,
            "writing output": self._tasks.write_unwritten,
            "the look for silent machines": self._gang.check_silence,
            "a message to the other machines": self._tell_gang,
            "the look at the GPUs": self._measure_gpus,
            "a warning": self._warn,
            "the look at the standby": self._standby.check,
        }
        while True:
            await self._looked.wait()
            self._looked.clear()
            for where, step in steps.items():
                await _try_step(where, step)

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

    def _measure_gpus(self) -> None:
        spawn(self._activity.measure_gpus())

    async def _tell_gang(self) -> None:
        await self._gang.send_if_due(self._guards.gang_pause())

    async def _warn(self) -> None:
        for near in self._guards.warnings():
            self._tasks.event("warning", **near)
            await self._clients.broadcast({"ev": "warning", **near})


def _try(where: str, work: Callable[[], None]) -> bool:
    """Do something, and return whether it worked; its error is printed."""
    try:
        work()
    except Exception:
        report_error(where)
        return False
    forget_error(where)
    return True


async def _try_step(where: str, step: Step) -> None:
    try:
        waiting = step()
        if waiting is not None:
            await waiting
    except Exception:
        report_error(where)
    else:
        forget_error(where)
