"""The kernel host: owns one ipykernel, in an interpreter that has ipykernel.

It starts the kernel, runs its cells one at a time, and passes on what it says. It ends the kernel
when the agent's pipe closes.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from typing import Any, Coroutine

from ..background import spawn
from ..framing import pack, read_frame
from ..json_types import Json
from ..log import use_safe_log
from ..system import become_first_oom_victim, kill_group, signal_group
from ..tasks.output_reader import open_pipe
from .output_limits import limited, limited_reply

KERNEL_START_SECONDS = 90.0
HEARTBEAT_SECONDS = 2.0
LAST_WORDS_SECONDS = 0.05
"""How long after its end what a kernel wrote last may still be in the pipe."""
SHORT_PATH = 60
"""Characters of a folder that still has room for a unix socket, whose path has about 100."""
TAIL_BYTES = 4000
FORWARDED = frozenset(
    (
        "stream",
        "display_data",
        "update_display_data",
        "execute_result",
        "error",
        "clear_output",
    )
)


class KernelHost:
    """Speaks frames with the agent over pipes, and Jupyter's protocol with one kernel.

    Parameters
    ----------
    out
        The open file that frames to the agent are written to.
    folder
        The agent's folder.
    """

    def __init__(self, out: int, folder: str) -> None:
        self._out = out
        self._client: Any = None
        self._process: asyncio.subprocess.Process | None = None
        self._place = tempfile.mkdtemp(
            prefix="nbprov-", dir=folder if len(folder) < SHORT_PATH else None
        )
        self._tail = b""
        self._cell, self._message = "", ""
        self._reply: Json | None = None
        self._is_idle = False
        self._finished = asyncio.Event()
        self._asked: dict[str, str] = {}

    async def main(self) -> None:
        """Do what the agent asks until its pipe closes."""
        reader = asyncio.StreamReader()
        await asyncio.get_event_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
        )
        try:
            while True:
                frame = await read_frame(reader)
                if frame is None:
                    return
                self._do(frame)
        finally:
            if self._process is not None and self._process.returncode is None:
                kill_group(self._process.pid)
            shutil.rmtree(self._place, ignore_errors=True)

    def _do(self, frame: Json) -> None:
        operation = frame["op"]
        if operation == "start":
            self._spawn_vital(self._start(frame))
        elif operation == "run":
            self._spawn_vital(self._run(frame))
        elif operation == "complete":
            message = self._client.complete(frame["code"], frame["cursor"])
            self._asked[message] = frame["ask"]
        elif operation == "inspect":
            message = self._client.inspect(frame["code"], frame["cursor"], frame["detail"])
            self._asked[message] = frame["ask"]
        elif operation == "interrupt" and self._process is not None:
            signal_group(self._process.pid, signal.SIGINT)

    def _tell(self, frame: Json) -> None:
        view = memoryview(pack(frame))
        while view:
            view = view[os.write(self._out, view) :]

    def _pass_on(self, kind: str, content: Json) -> None:
        for one_kind, one_content in limited(kind, content):
            self._tell({"ev": "out", "type": one_kind, "content": one_content})

    def _spawn_vital(self, work: Coroutine[Any, Any, None]) -> None:
        """Start work whose failure ends the kernel: the agent is told, and starts another."""

        async def watched() -> None:
            try:
                await work
            except Exception as error:
                traceback.print_exc()
                self._tell({"ev": "dead", "why": f"{type(error).__name__}: {error}"})

        spawn(watched())

    async def _start(self, frame: Json) -> None:
        from jupyter_client.asynchronous.client import AsyncKernelClient
        from jupyter_client.connect import write_connection_file

        path, key = os.path.join(self._place, "c.json"), os.urandom(32).hex().encode()
        write_connection_file(path, ip=os.path.join(self._place, "k"), transport="ipc", key=key)
        os.umask(int(frame["umask"]))
        self._process = await self._start_process(path, frame)
        self._spawn_vital(self._watch(self._process))
        self._client = AsyncKernelClient(connection_file=path)
        self._client.load_connection_file()
        # Without its heartbeat: while one is there, a single late beat on a busy machine counts as
        # a kernel that died. `_watch` knows better.
        self._client.start_channels(stdin=False, hb=False)
        await self._client.wait_for_ready(timeout=KERNEL_START_SECONDS)
        self._spawn_vital(self._forward_outputs())
        self._spawn_vital(self._forward_replies())
        self._spawn_vital(self._watch_heartbeat())
        from ipykernel._version import __version__ as ipykernel_version

        info = {"python": platform.python_version(), "executable": sys.executable}
        pid = self._process.pid
        self._tell({"ev": "ready", "info": {**info, "ipykernel": ipykernel_version, "pid": pid}})

    async def _start_process(self, connection_file: str, frame: Json) -> Any:
        errors, error = await open_pipe()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "ipykernel_launcher",
            "-f",
            connection_file,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=error,
            start_new_session=True,
            env={**os.environ, **frame["env"], "JPY_PARENT_PID": str(os.getpid())},
            cwd=frame["cwd"],
        )
        os.close(error)
        self._spawn_vital(self._keep_tail(errors))
        return process

    async def _keep_tail(self, errors: asyncio.StreamReader) -> None:
        while True:
            data = await errors.read(4096)
            if not data:
                return
            self._tail = (self._tail + data)[-TAIL_BYTES:]

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        await asyncio.sleep(LAST_WORDS_SECONDS)
        oom = "killed, most likely because the memory ran out"
        why = oom if code == -9 else f"exit code {code}"
        last = self._tail.decode("utf-8", "replace").strip().splitlines()
        self._tell({"ev": "dead", "why": why + (": " + last[-1] if last else "")})

    async def _watch_heartbeat(self) -> None:
        """Say when the kernel's process stands still (stopped, swapped out) and goes on."""
        channel = self._client.hb_channel
        channel.start()
        channel.unpause()
        was_beating = True
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            is_beating = channel.is_beating()
            if is_beating != was_beating:
                going = "busy" if self._cell else "idle"
                self._tell({"ev": "state", "state": going if is_beating else "unresponsive"})
            was_beating = is_beating

    async def _run(self, frame: Json) -> None:
        if frame["env"]:
            # Variables given later go in by a silent request, which no history keeps.
            code = f"import os as _o; _o.environ.update({frame['env']!r}); del _o"
            await self._execute("", code, True)
        await self._execute(frame["cell"], frame["code"], bool(frame["silent"]))

    async def _execute(self, cell: str, code: str, silent: bool) -> None:
        self._cell, self._reply, self._is_idle = cell, None, False
        self._finished = asyncio.Event()
        # Not the protocol's `silent`, which would also hide what the code displays.
        self._message = self._client.execute(
            code,
            silent=not cell,
            store_history=not silent,
            allow_stdin=False,
            stop_on_error=True,
        )
        await self._finished.wait()

    async def _forward_outputs(self) -> None:
        while True:
            message = await self._client.iopub_channel.get_msg()
            kind, content = message["msg_type"], message["content"]
            is_ours = message["parent_header"].get("msg_id") == self._message
            if kind in FORWARDED:
                self._pass_on(kind, content)
            elif kind == "status" and is_ours and content["execution_state"] == "idle":
                self._is_idle = True
                self._finish()

    async def _forward_replies(self) -> None:
        while True:
            message = await self._client.shell_channel.get_msg()
            parent = message["parent_header"].get("msg_id")
            if parent == self._message:
                self._reply = message["content"]
                self._finish()
            elif parent in self._asked:
                reply = {"ask": self._asked.pop(parent), "content": limited_reply(message)}
                self._tell({"ev": "completed", **reply})

    def _finish(self) -> None:
        """End a cell once the kernel has both answered and gone idle: all output came before."""
        if self._reply is None or not self._is_idle or self._finished.is_set():
            return
        if self._cell:
            for payload in self._reply.get("payload") or []:
                # What `x?` shows is no output, but comes with the answer.
                if payload.get("source") == "page":
                    self._pass_on("page", {"data": payload.get("data")})
            count = self._reply.get("execution_count")
            ended = {"status": self._reply["status"], "execution_count": count}
            self._tell({"ev": "done", "cell": self._cell, **ended})
        self._cell, self._message = "", ""
        self._finished.set()


def run(folder: str) -> int:
    """Run a kernel host on stdin and stdout until the agent closes them."""
    become_first_oom_victim()
    use_safe_log()
    out = os.dup(1)
    os.dup2(2, 1)  # what libraries print must not get between the frames
    asyncio.run(_main(out, folder))
    return 0


async def _main(out: int, folder: str) -> None:
    await KernelHost(out, folder).main()
