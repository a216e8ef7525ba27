"""The operations on the machine that clients ask for: state, kernels, boxes, guards, cluster."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import shutil
import time
from typing import Callable

from . import PROTOCOL, VERSION
from .activity import Activity
from .boxes import Boxes
from .clients import BridgeClient
from .errors import RequestError
from .gang.gang import GangHeartbeat
from .guards.config import check_guards
from .guards.guard_clocks import GuardClocks
from .guards.shutdown import MachineShutdown
from .guards.watch import GuardWatch
from .json_types import Json
from .kernels.pool import KernelPool, kernel_name
from .load import LoadHistory
from .system import boottime, home
from .task_operations import STATUS_GPU_SECONDS
from .tasks.store import TaskStore

SHUTDOWN_SECONDS = 0.05
"""Between the answer to a shutdown and the end, in which the answer is sent."""


class MachineOperations:
    """Operations on the machine: its state, kernels, boxes, guards and its cluster.

    Parameters
    ----------
    stop
        Ends the agent.
    """

    def __init__(
        self,
        tasks: TaskStore,
        kernels: KernelPool,
        boxes: Boxes,
        guards: GuardClocks,
        gang: GangHeartbeat,
        activity: Activity,
        load: LoadHistory,
        watch: GuardWatch,
        shutdown: MachineShutdown,
        stop: Callable[[], None],
    ) -> None:
        self._tasks, self._kernels, self._boxes = tasks, kernels, boxes
        self._guards, self._gang, self._activity = guards, gang, activity
        self._load, self._watch, self._shutdown, self._stop = load, watch, shutdown, stop
        self._started = boottime()

    async def bridge(self, client: BridgeClient, frame: Json) -> Json:
        """Take the ssh session of a bridge, which is its first frame; it is no activity."""
        client.session = int(frame["session"])
        return {}

    async def ping(self, client: BridgeClient, frame: Json) -> Json:
        """Return the time."""
        return {"now": time.time()}

    async def status(self, client: BridgeClient, frame: Json) -> Json:
        """Return what the agent knows of itself and its machine."""
        self._watch.look()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._activity.measure_gpus(), STATUS_GPU_SECONDS)
        disk = shutil.disk_usage(home())
        tasks = self._tasks.all()
        return {
            "version": VERSION,
            "protocol": PROTOCOL,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "pid": os.getpid(),
            "uptime": boottime() - self._started,
            "age": self._guards.age,
            "idle": self._guards.now - self._guards.idle_since,
            "active": self._watch.active,
            "guards": self._guards.states(),
            "ending": self._shutdown.status(),
            "peers": self._gang.info(),
            "kernels": {kernel.name: kernel.status() for kernel in self._kernels.all()},
            "tasks": [one.info() for one in tasks if one.meta["kind"] != "cell" or one.is_live],
            "gpus": self._activity.gpus,
            "cpus": os.cpu_count(),
            "disk_free": disk.free,
            "disk_total": disk.total,
        }

    async def load(self, client: BridgeClient, frame: Json) -> Json:
        """Return what the machine did within the last minute, and how its idle guard stands.

        It measures nothing.
        """
        idle = [state["left"] for state in self._guards.states() if state["guard"] == "idle"]
        return {
            **self._load.told(),
            "idle_left": idle[0] if idle else None,
            "is_active": bool(self._watch.active),
        }

    async def complete(self, client: BridgeClient, frame: Json) -> Json:
        """Return what an idle kernel offers at a cursor of a code."""
        return await self._ask_kernel("complete", frame)

    async def inspect(self, client: BridgeClient, frame: Json) -> Json:
        """Return what an idle kernel knows of the name at a cursor of a code."""
        return await self._ask_kernel("inspect", frame)

    async def interrupt(self, client: BridgeClient, frame: Json) -> Json:
        """Interrupt the running cell of a kernel."""
        kernel = self._kernels.find(kernel_name(frame))
        if kernel is not None:
            kernel.interrupt()
        return {"interrupted": kernel is not None and kernel.current is not None}

    async def restart(self, client: BridgeClient, frame: Json) -> Json:
        """End a kernel; its next cell starts a new one."""
        self._kernels.restart(kernel_name(frame))
        return {}

    async def put(self, client: BridgeClient, frame: Json) -> Json:
        """Write `data` (base64) at `offset` of a box, made where there is none.

        The answer says how much is in it: less than `offset` where some is missing.
        """
        return self._boxes.put(frame)

    async def get(self, client: BridgeClient, frame: Json) -> Json:
        """Return at most `size` bytes of a box from `offset` on."""
        return self._boxes.get(frame)

    async def drop(self, client: BridgeClient, frame: Json) -> Json:
        """Remove a box; one that is not there is no error."""
        self._boxes.drop(frame)
        return {}

    async def guards(self, client: BridgeClient, frame: Json) -> Json:
        """Take a configuration of the guards, and tell whether there was none before."""
        config = check_guards(frame["config"])
        self._watch.look()
        was_unset = self._guards.unset_since is not None
        self._guards.set(config)
        shown = {key: config[key] for key in config if key not in ("hook", "poweroff")}
        self._tasks.event("guards", **shown)
        self._watch.wake()
        return {"guards": self._guards.states(), "was_unset": was_unset}

    async def gang(self, client: BridgeClient, frame: Json) -> Json:
        """Return who of the cluster's other machines was heard of; with `config`, learn of them."""
        if frame.get("config") is not None:
            self._gang.set(frame["config"])
            try:
                await self._gang.open()
            except OSError as error:
                message = f"this machine cannot listen for the others: {error}"
                raise RequestError("gang", message) from None
            self._gang.send_all()
        return {"peers": self._gang.info()}

    async def taken(self, client: BridgeClient, frame: Json) -> Json:
        """Note that the outputs are fetched: a machine that waits for that goes on to its end."""
        return {"released": self._shutdown.release()}

    async def shutdown(self, client: BridgeClient, frame: Json) -> Json:
        """End the agent; with `if_idle` only where no kernel holds variables and nothing runs."""
        busy = [task.id for task in self._tasks.live()]
        busy += [kernel.name for kernel in self._kernels.all() if kernel.host is not None]
        if busy and frame.get("if_idle"):
            raise RequestError("busy", "in use: {}".format(", ".join(busy)))
        asyncio.get_event_loop().call_later(SHUTDOWN_SECONDS, self._stop)
        return {}

    async def _ask_kernel(self, question: str, frame: Json) -> Json:
        kernel = self._kernels.find(kernel_name(frame))
        if kernel is None:
            return {"found": {"status": "none"}}
        code, cursor = str(frame["code"]), int(frame["cursor"])
        return {"found": await kernel.ask(question, code, cursor, int(frame.get("detail") or 0))}
