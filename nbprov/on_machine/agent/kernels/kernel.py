"""A kernel with its queue of cells, owned through a kernel host."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import traceback
from typing import Any

from ..background import spawn
from ..errors import RequestError, is_no_room
from ..framing import FrameError, pack, read_frame
from ..json_types import Json
from ..secret_registry import SecretRegistry
from ..system import home, is_disk_full, kill_group, signal_group
from ..tasks.scripts import CANCEL_SECONDS, working_folder
from ..tasks.task import Task
from .interpreter import KernelInterpreter
from .launcher import HostLauncher, KernelRecord
from .output import KernelOutput, say

KERNEL_START_SECONDS = 90.0
COMPLETE_SECONDS = 1.0
"""How long a kernel may take to say what completes a name: somebody types."""
DISK_FULL = ("DiskFull", "the disk of the machine is full, so the kernel could not start")
NO_INTERPRETER = (
    "there is no Python with ipykernel on the machine and it could not be installed; "
    "the lines above say why"
)


class Kernel:
    """One ipykernel and the cells that wait for it. It is started with the first cell.

    Attributes
    ----------
    state
        `none`, `starting`, `idle`, `busy`, `unresponsive` or `dead`.
    born
        A random text for each kernel process, so that a client can tell whether its variables
        are still there.
    death
        Why the last process ended, until the next one is started.
    """

    def __init__(
        self,
        name: str,
        launcher: HostLauncher,
        interpreter: KernelInterpreter,
        record: KernelRecord,
        secrets: SecretRegistry,
    ) -> None:
        self.name = name
        self._launcher, self._interpreter = launcher, interpreter
        self._record, self._secrets = record, secrets
        self.output = KernelOutput(secrets)
        self.state, self.count = "none", 0
        self.info: Json = {}
        self.born = self.death = ""
        self.host: asyncio.subprocess.Process | None = None
        self.place = ""
        self._queue: asyncio.Queue[tuple[Task, Json]] = asyncio.Queue()
        self._ready: asyncio.Future[None] | None = None
        self._installer: asyncio.subprocess.Process | None = None
        self._env: Json = {}
        self._asked: dict[str, asyncio.Future[Json]] = {}
        spawn(self._work())

    @property
    def current(self) -> Task | None:
        """The cell that runs."""
        return self.output.current

    def status(self) -> Json:
        """Return what a client is told of it."""
        queued = self._queue.qsize()
        return {"state": self.state, "cells": self.count, "queued": queued, **self.info}

    def why_ended(self) -> str:
        """Return why the process before the next one ended; empty if there is none to tell of."""
        return self.death or self._record.lost(self.name)

    def add(self, task: Task, request: Json) -> None:
        """Queue a cell."""
        self._queue.put_nowait((task, request))

    async def ask(self, question: str, code: str, cursor: int, detail: int = 0) -> Json:
        """Ask what completes a name (`complete`) or what is known of it (`inspect`).

        A kernel at work, or not there, cannot tell and is not waited for.
        """
        if self.host is None or self.state != "idle" or self.current is not None:
            return {"status": "busy" if self.host is not None else "none"}
        name = os.urandom(8).hex()
        answer = self._asked[name] = asyncio.get_event_loop().create_future()
        about = {"code": code, "cursor": cursor, "detail": detail}
        try:
            self._send({"op": question, "ask": name, **about})
            return await asyncio.wait_for(answer, COMPLETE_SECONDS)
        except asyncio.TimeoutError:
            return {"status": "late"}
        finally:
            self._asked.pop(name, None)

    def interrupt(self) -> None:
        """Interrupt the running cell, or the start of its kernel."""
        if self._installer is not None:
            signal_group(self._installer.pid, signal.SIGTERM)
        if self.current is not None and self.state in ("none", "starting"):
            _fail(self.current, "KeyboardInterrupt", "interrupted while the kernel was started")
            self._kill("interrupted while it started")
        elif self.host is not None:
            self._send({"op": "interrupt"})

    def restart(self) -> None:
        """End the kernel; the next cell starts a new one."""
        if self.host is not None:
            self._end("restarted")
        self.death, self.state, self.count = "", "none", 0

    async def run(self, task: Task, request: Json) -> None:
        """Run one cell to its end."""
        task.begin_cell()
        if self.host is not None and self.place != self._launcher.python_folder():
            self._kill("the Python environment of the machine is another one now")
        if self.host is None:
            await self._start(task, request)
        if task.done.is_set():
            return
        if not task.meta.get("own"):
            self.output.show_late(task)
        given = request.get("env", {})
        fresh = {key: value for key, value in given.items() if self._env.get(key) != value}
        self._env.update(fresh)
        self.count += 1
        self.state = "busy"
        cell = {"cell": task.id, "code": request["code"], "env": fresh}
        self._send({"op": "run", "silent": bool(request.get("silent")), **cell})
        await task.done.wait()

    def receive(self, frame: Json) -> None:
        """Take a frame of the host."""
        event = frame["ev"]
        if event == "ready":
            self.state, self.info = "idle", frame["info"]
            self._record.note(self.name, is_there=True)
            if self._ready is not None and not self._ready.done():
                self._ready.set_result(None)
        elif event == "out":
            self.output.add(frame["type"], frame["content"])
        elif event == "state":
            self.state = frame["state"]
        elif event == "completed":
            asked = self._asked.pop(frame["ask"], None)
            if asked is not None and not asked.done():
                told = frame["content"].items()
                asked.set_result({key: self._secrets.mask_json(value) for key, value in told})
        elif event == "done":
            self._end_cell(frame)
        elif event == "dead":
            self._end(self._secrets.mask(frame["why"]))

    async def _work(self) -> None:
        while True:
            task, request = await self._queue.get()
            if not task.is_live:
                continue
            self.output.current = task
            task.cancel = self.interrupt
            try:
                await self.run(task, request)
            except Exception as error:
                if not isinstance(error, (OSError, RequestError, FrameError)):
                    traceback.print_exc()
                _fail(task, *self._why_not_run(error))
            finally:
                self.output.current = None

    def _why_not_run(self, error: Exception) -> tuple[str, str]:
        """Return the name and the text of what a cell that could not be run is told."""
        is_full = is_disk_full(home()) and self.host is None
        if is_no_room(error) or is_full:
            return DISK_FULL
        return "KernelError", str(error)

    async def _start(self, task: Task, request: Json) -> None:
        self.state = "starting"
        folder = working_folder(request.get("cwd"))
        death, self.death = self.why_ended(), ""
        self.place = self._launcher.python_folder()
        if death:
            say(
                task,
                f"nbprov: the kernel had ended ({death}); "
                "this is a new one, its variables are gone",
            )
        python = await self._interpreter.find(lambda line: say(task, line), self._note_installer)
        if task.done.is_set() or python is None:
            self.state = "none"
            _fail(task, "KernelError", NO_INTERPRETER)
            return
        self._env, self.born = dict(request.get("env", {})), os.urandom(8).hex()
        self.host = await self._launcher.start(python)
        self._ready = asyncio.get_event_loop().create_future()
        spawn(self._listen(self.host))
        start = {"env": self._env, "cwd": folder, "umask": self._launcher.umask}
        self._send({"op": "start", **start})
        try:
            await asyncio.wait_for(asyncio.shield(self._ready), KERNEL_START_SECONDS)
        except asyncio.TimeoutError:
            why = f"did not start within {KERNEL_START_SECONDS:.0f} s"
            self._kill(why)
            raise RequestError("kernel", f"the kernel {why}") from None

    def _note_installer(self, process: asyncio.subprocess.Process | None) -> None:
        self._installer = process

    def _send(self, frame: Json) -> None:
        if self.host is None or self.host.stdin is None:
            raise RequestError("kernel", "the kernel is gone")
        self.host.stdin.write(pack(frame))

    async def _listen(self, host: asyncio.subprocess.Process) -> None:
        assert host.stdout is not None
        while True:
            frame = await read_frame(host.stdout)
            if frame is None:
                break
            if host is self.host:
                self.receive(frame)
        await host.wait()
        if host is self.host:
            self._end("its host process ended")

    def _end_cell(self, frame: Json) -> None:
        if self.current is None or self.current.id != frame["cell"]:
            return
        self.state = "idle"
        self.output.end_streams()
        count = frame.get("execution_count")
        self.current.end(frame["status"], is_told_first=True, execution_count=count)

    def _end(self, why: str) -> None:
        """End the process, fail the running cell loudly, and give the queued ones up."""
        self.output.end_streams()
        was_starting = self.state == "starting"
        self._kill(why)
        if self.current is not None and self.current.is_live:
            if was_starting and is_disk_full(home()):
                _fail(self.current, *DISK_FULL)
            else:
                what = f"the kernel on the machine ended: {why}; its variables are gone"
                _fail(self.current, "KernelDied", what)
        while not self._queue.empty():
            self._queue.get_nowait()[0].end("aborted")

    def _kill(self, why: str) -> None:
        host, self.host = self.host, None
        self.state, self.death, self.born = "dead", why, ""
        self.output.drop_late()
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(RequestError("kernel", f"the kernel did not start: {why}"))
            self._ready.exception()
        if host is not None and host.returncode is None:
            # The host ends its kernel when its stdin closes; it gets a moment for that.
            if host.stdin is not None:
                host.stdin.close()
            spawn(_end_host(host))


def _fail(task: Task, name: str, text: str) -> None:
    if not task.done.is_set():
        error: dict[str, Any] = {"ename": name, "evalue": text}
        error["traceback"] = [f"{name}: {text}"]
        task.journal.append({"k": "error", "content": error})
        task.end("error")


async def _end_host(host: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(host.wait(), CANCEL_SECONDS)
    kill_group(host.pid)
