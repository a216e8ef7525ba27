"""The operations on tasks that clients ask for, and how their requests are checked.

Every operation may be asked for twice: a client repeats what it asked over a line that broke.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import Callable

from .activity import Activity
from .background import spawn
from .clients import BridgeClient
from .errors import RequestError
from .gang.gang import GangHeartbeat
from .guards.shutdown import MachineShutdown
from .json_types import Json
from .kernels.pool import KernelPool, kernel_name
from .secret_registry import SecretRegistry
from .tasks.follow import follow
from .tasks.job_queue import JobQueue
from .tasks.store import AGENT, TaskStore
from .tasks.task import Task

STATUS_GPU_SECONDS = 5.0
MOST_REST = 8.0
"""Cores that a service may use and still be said to rest."""


class TaskOperations:
    """Operations on jobs, shells and cells: start them, follow their output, end them.

    Parameters
    ----------
    wake
        Called when a task begins, since the cluster's other machines should hear of it.
    """

    def __init__(
        self,
        tasks: TaskStore,
        queue: JobQueue,
        kernels: KernelPool,
        activity: Activity,
        gang: GangHeartbeat,
        secrets: SecretRegistry,
        shutdown: MachineShutdown,
        wake: Callable[[], None],
    ) -> None:
        self._tasks, self._queue, self._kernels = tasks, queue, kernels
        self._activity, self._gang, self._secrets = activity, gang, secrets
        self._shutdown, self._wake = shutdown, wake

    async def start(self, client: BridgeClient, frame: Json) -> Json:
        """Start a job, a shell or a cell.

        The id is the client's, so that a repeated request starts nothing twice. `secrets` names the
        variables of `env` whose values are masked in all output from now on; with `verbatim` the
        output is data that nbprov reads, and stays as it is. A `service` waits for work and does
        not by itself keep the machine from being idle; `rest` says how many cores it uses while it
        waits. With `follow` its output is sent at once.
        """
        name = str(frame["task"])
        self._remember_secrets(frame)
        if name in self._tasks:
            return {"task": self._tasks[name].info()}
        self._check(frame)
        task = self._create(frame, _service(frame))
        is_followed = bool(frame.get("follow"))
        if is_followed:
            self._begin_follow(client, task, str(frame["follow"]), 0)
        if task.meta["kind"] != "cell":
            spawn(self._queue.run_now(task, frame))
            return {"task": task.info(), "followed": is_followed}
        kernel = self._kernels.get(kernel_name(frame))
        kernel.add(task, frame)
        # Who ran cells there before can tell by `born` whether its variables are still there.
        told = {"born": kernel.born, "ended": kernel.why_ended()}
        return {"task": task.info(), "followed": is_followed, **told}

    async def submit(self, client: BridgeClient, frame: Json) -> Json:
        """Queue a job by the GPUs it asks for.

        An id that is taken is refused, unless `nonce` says that it is the same request again.
        Further fields: `gpus` ("all", a number, a share of one), `gpus_told` (how many the client
        knows of), `nodes` (how many have a part of it), `held` (it begins after `release` only).
        """
        name, nonce = str(frame["task"]), str(frame["nonce"])
        self._remember_secrets(frame)
        if not self._activity.gpus:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._activity.measure_gpus(), STATUS_GPU_SECONDS)
        if name in self._tasks:
            if self._tasks[name].meta.get("nonce") != nonce:
                raise RequestError("taken", f"there is a job {name} already")
            return {"task": self._describe(self._tasks[name])}
        frame["kind"] = "job"
        self._check(frame)
        task = self._create(frame, {"nonce": nonce, **self._queue.check(frame)})
        self._gang.add_job(task)
        self._queue.add(task, frame)
        return {"task": self._describe(task)}

    async def release(self, client: BridgeClient, frame: Json) -> Json:
        """Let a job that was submitted `held` begin when it is its turn."""
        task = self._find(frame)
        self._queue.release(task)
        return {"task": self._describe(task)}

    async def tasks(self, client: BridgeClient, frame: Json) -> Json:
        """Return every task that the agent keeps."""
        positions = self._queue.positions()
        rows = [{**one.info(), "position": positions.get(one.id)} for one in self._tasks.all()]
        return {"tasks": rows}

    async def follow(self, client: BridgeClient, frame: Json) -> Json:
        """Send the output of a task after number `since`, and what comes, as `out` events."""
        task = self._find(frame)
        self._begin_follow(client, task, str(frame["follow"]), int(frame.get("since", 0)))
        return {"task": task.info()}

    async def unfollow(self, client: BridgeClient, frame: Json) -> Json:
        """Send no more of what is followed under a name."""
        following = client.follows.pop(str(frame["follow"]), None)
        if following is not None:
            following.cancel()
        return {}

    async def cancel(self, client: BridgeClient, frame: Json) -> Json:
        """End a task; with `nonce` only where it is of that submission."""
        task = self._find(frame)
        is_meant = frame.get("nonce") in (None, task.meta.get("nonce"))
        if task.is_live and task.id != AGENT and is_meant:
            task.cancel()
            self._queue.begin_ready()
        return {"task": task.info()}

    def _find(self, frame: Json) -> Task:
        return self._tasks.find(str(frame["task"]))

    def _begin_follow(self, client: BridgeClient, task: Task, name: str, since: int) -> None:
        client.follows[name] = spawn(follow(client, task, name, since))

    def _describe(self, task: Task) -> Json:
        return {**task.info(), "position": self._queue.positions().get(task.id)}

    def _create(self, frame: Json, more: Json) -> Task:
        task = self._tasks.create(frame, more)
        if self._gang.peers:
            self._wake()  # the others may be about to end for want of work
        return task

    def _remember_secrets(self, frame: Json) -> None:
        env = frame.get("env") or {}
        names = frame.get("secrets") or []
        self._secrets.add(str(env[name]) for name in names if name in env)

    def _check(self, frame: Json) -> None:
        name, kind = str(frame["task"]), frame["kind"]
        if not re.match(r"[A-Za-z0-9_-]{1,64}\Z", name) or name == AGENT:
            raise RequestError("bad-id", f"{name!r} is not an id of a task")
        if self._shutdown.due is not None:
            reason = self._shutdown.due["reason"]
            raise RequestError("ending", f"the machine is ending itself ({reason})")
        if kind not in ("job", "shell", "cell"):
            raise RequestError("bad-kind", f"{kind!r} is neither job nor shell nor cell")
        env = frame.setdefault("env", {})
        is_env = isinstance(env, dict) and not any(
            "=" in key or "\0" in key + str(value) for key, value in env.items()
        )
        if not is_env:
            raise RequestError("bad-env", "variables are names and texts without NUL")
        if not isinstance(frame["code"], str):
            raise RequestError("bad-code", "code is a text")


def _service(frame: Json) -> Json:
    if frame["kind"] != "job" or not frame.get("service"):
        return {}
    rest = max(0.0, min(MOST_REST, float(frame.get("rest") or 0.0)))
    return {"service": True, "rest": rest}
