"""The queue of jobs: submitted jobs begin in order, each once the GPUs it asks for are free."""

from __future__ import annotations

import asyncio
import os
from typing import Any, Callable

from ..activity import Activity
from ..background import spawn
from ..errors import RequestError
from ..json_types import Json
from .scripts import ScriptRunner
from .store import TaskStore
from .task import Task

STEPS = ("python", "setup")
"""Names of the jobs that make a machine ready: those that are submitted wait for them."""
HOLD_SECONDS = 60.0
"""How long one node's part of a job waits until every other node has its part.

That takes a few round trips, over a line that may break in between."""
WAITING_JOBS = 2000
"""Jobs in the queue: their scripts are in memory alone."""
GPU_SHARES = 1000
"""Into so many shares a GPU can be divided among jobs that ask for less than one."""
MOST_GPUS = 10000


class JobQueue:
    """Begins submitted jobs in the order of their coming; none overtakes another.

    A job takes whole GPUs, a share of one, or all of them. Where a machine has no GPU, "all" is the
    machine itself, so that such jobs run one after the other. A job that asks for 0 GPUs waits for
    nobody. A job that waits for another one's end (`after`) keeps nobody waiting meanwhile. Nothing
    begins while the machine is set up, or ends itself.

    Parameters
    ----------
    is_ending
        Returns whether the machine ends itself.
    """

    def __init__(
        self,
        tasks: TaskStore,
        activity: Activity,
        scripts: ScriptRunner,
        is_ending: Callable[[], bool],
    ) -> None:
        self._tasks, self._activity = tasks, activity
        self._scripts, self._is_ending = scripts, is_ending
        self._waiting: list[tuple[Task, Json]] = []
        self._holders: dict[str, dict[int, int]] = {}
        self._told_gpus = 0

    def check(self, frame: Json) -> Json:
        """Return what is kept of a job's request in its state.

        Raises
        ------
        RequestError
            If it could never begin, or the queue is full.
        """
        self._told_gpus = int(frame.get("gpus_told") or self._told_gpus)
        wanted, total = frame.get("gpus", "all"), self._gpu_count()
        if wanted != "all" and not _is_gpu_count(wanted):
            raise RequestError(
                "bad-gpus",
                "a job asks for all GPUs, a whole number of them, or a share of one, "
                f"not {wanted!r}",
            )
        if wanted != "all" and wanted > total:
            raise RequestError(
                "too-many-gpus",
                f"this node has {total or 'no'} GPU{'' if total == 1 else 's'}, "
                f"the job asks for {wanted:g}",
            )
        if len(self._waiting) >= WAITING_JOBS:
            raise RequestError("queue-full", f"{len(self._waiting)} jobs wait already")
        is_held = bool(frame.get("held"))
        if is_held and any(task.is_live and task.meta.get("held") for task, _ in self._waiting):
            raise RequestError("held", "another job for several nodes is being submitted")
        kept = {"gpus": wanted, "nodes": int(frame.get("nodes") or 1)}
        return {**kept, "held": True} if is_held else kept

    def add(self, task: Task, frame: Json) -> None:
        """Queue a job; one that is `held` keeps its place, and begins after `release` only."""
        self._waiting.append((task, frame))
        if task.meta.get("held"):
            asyncio.get_event_loop().call_later(HOLD_SECONDS, self._expire, task)
        self.begin_ready()

    def release(self, task: Task) -> None:
        """Let a held job begin when it is its turn: the other nodes have their parts."""
        if task.meta.pop("held", None):
            task.save()
        self.begin_ready()

    def positions(self) -> dict[str, int]:
        """Return the ids of the jobs that wait, with 1 for the next one to begin."""
        live = [task for task, _ in self._waiting if task.is_live]
        return {task.id: number for number, task in enumerate(live, 1)}

    def waiting_ids(self) -> set[str]:
        """Return the ids of the jobs that wait, those aside that are being placed."""
        return {task.id for task, _ in self._waiting if not task.meta.get("held")}

    def begin_ready(self) -> None:
        """Begin whatever may begin now."""
        if self._is_ending() or self._is_setup_running():
            return
        is_blocked = False
        for task, frame in list(self._waiting):
            if task.is_live and not self._has_its_jobs(task):
                continue
            if task.is_live:
                wanted = task.meta["gpus"]
                must_wait = task.meta.get("held") or (is_blocked and wanted != 0)
                devices = None if must_wait else self._free_devices(wanted)
                if devices is None:
                    is_blocked = True
                    continue
                self._begin(task, frame, devices)
            self._waiting.remove((task, frame))

    async def run_now(self, task: Task, frame: Json) -> None:
        """Run a job or shell that does not queue, once the jobs it comes after have succeeded."""
        for name in task.after:
            if name in self._tasks:
                await self._tasks[name].done.wait()
            if not self._tasks.has_succeeded(name):
                task.skip(name)
                break
        if task.is_live:
            await self._scripts.run_task(task, frame["code"], frame["env"], frame.get("cwd"))
        self._tasks.prune()
        self.begin_ready()

    def give_up(self) -> None:
        """End what has not begun, since the agent ends."""
        for task, _ in self._waiting:
            if task.is_live:
                task.note("the agent on the machine ended before this began; submit it again")
                task.end("lost")
        self._waiting.clear()

    def _gpu_count(self) -> int:
        """Return how many GPUs are seen, else how many the client says the machine has."""
        return self._activity.gpu_count or self._told_gpus

    def _is_setup_running(self) -> bool:
        steps = [task for task in self._tasks.live() if task.meta["kind"] == "job"]
        return any(task.meta["name"] in STEPS for task in steps)

    def _expire(self, task: Task) -> None:
        if task.meta.get("held") and task.is_live:
            task.note(
                "who submitted this went away before every node had its part; submit it again"
            )
            task.end("lost")
            self.begin_ready()

    def _has_its_jobs(self, task: Task) -> bool:
        """Return whether the jobs it comes after have succeeded; if one did not, skip it."""
        for name in task.after:
            if name in self._tasks and self._tasks[name].is_live:
                return False
            if not self._tasks.has_succeeded(name):
                task.skip(name)
                self._waiting = [one for one in self._waiting if one[0] is not task]
                return False
        return True

    def _free_devices(self, wanted: Any) -> dict[int, int] | None:
        """Return the GPUs for a job and the shares of each; None if they are not free."""
        if wanted == 0:
            return {}
        free = dict.fromkeys(range(max(1, self._gpu_count())), GPU_SHARES)
        for held in self._holders.values():
            for device, taken in held.items():
                free[device] = free.get(device, GPU_SHARES) - taken
        whole = sorted(device for device, left in free.items() if left == GPU_SHARES)
        if wanted == "all":
            return dict.fromkeys(whole, GPU_SHARES) if len(whole) == len(free) else None
        if wanted < 1:
            taken = max(1, round(wanted * GPU_SHARES))
            # The fullest that has room: whole GPUs stay whole for as long as can be.
            roomy = sorted((left, device) for device, left in free.items() if left >= taken)
            return {roomy[0][1]: taken} if roomy else None
        count = int(wanted)
        return dict.fromkeys(whole[:count], GPU_SHARES) if len(whole) >= count else None

    def _begin(self, task: Task, frame: Json, devices: dict[int, int]) -> None:
        self._holders[task.id] = devices
        env = dict(frame["env"])
        if self._gpu_count():
            task.meta["devices"] = sorted(devices)
            # As nvidia-smi counts them, whose order is not CUDA's own; -1 hides them all.
            shown = ",".join(map(str, sorted(devices))) or "-1"
            env.update(CUDA_VISIBLE_DEVICES=shown, CUDA_DEVICE_ORDER="PCI_BUS_ID")
            if os.path.exists("/dev/kfd"):
                env["HIP_VISIBLE_DEVICES"] = shown
        task.cancel = task.mark_cancelled
        spawn(self._run(task, frame, env))

    async def _run(self, task: Task, frame: Json, env: Json) -> None:
        try:
            await self._scripts.run_task(task, frame["code"], env, frame.get("cwd"))
        finally:
            self._holders.pop(task.id, None)
            self._tasks.prune()
            self.begin_ready()


def _is_gpu_count(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return 0 <= value < MOST_GPUS and (value < 1 or value == int(value))
