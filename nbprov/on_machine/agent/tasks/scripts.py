"""Shell scripts: what runs jobs, shells, hooks and the agent's own commands."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import IO, Any

from ..background import spawn
from ..errors import RequestError, is_no_room
from ..json_types import Json
from ..system import home, init_name, kill_group, signal_group
from .output_reader import LINE_LIMIT, OutputReader, open_pipe
from .task import Task

CANCEL_SECONDS = 5.0
"""Between SIGTERM and SIGKILL: time to write a checkpoint's last block, not a new one."""
DRAIN_SECONDS = 0.3
"""How long the pipes of an ended process are read on, for what it left in the background."""
SYSTEM_STATE = ("systemctl", "is-system-running")
SYSTEM_STATE_SECONDS = 5.0
PIPE_BYTES = 60 * 1024
"""What a pipe takes before somebody reads."""
KEPT_BYTES = 256 * 1024
"""The end of a command's output that is looked at."""


class ScriptRunner:
    """Runs scripts in process groups of their own.

    Parameters
    ----------
    folder
        The agent's folder, in which the environment of the spec's `python` is linked.
    umask
        What scripts are given: that of whoever started the agent, whose own is stricter.
    """

    def __init__(self, folder: Path, umask: int) -> None:
        self._folder, self.umask = folder, umask

    def python_folder(self) -> str:
        """Return the environment that the spec's `python` made; empty if none works."""
        place = os.path.realpath(str(self._folder / "python"))
        return place if os.access(os.path.join(place, "bin", "python"), os.X_OK) else ""

    def environment(self, env: Json) -> dict[str, str]:
        """Return the variables of a child: the agent's, the spec's Python, and those given."""
        base = {key: value for key, value in os.environ.items() if not key.startswith("SSH_")}
        local = os.path.expanduser("~/.local/bin")
        base["PATH"] = base.get("PATH", os.defpath) + os.pathsep + local
        place = self.python_folder()
        if place:
            base["PATH"] = os.path.join(place, "bin") + os.pathsep + base["PATH"]
            base["VIRTUAL_ENV"] = place
            base.pop("PYTHONHOME", None)
        base["PYTHONUNBUFFERED"] = "1"
        base.update({str(key): str(value) for key, value in env.items()})
        return base

    async def start(
        self, script: str, name: str, env: Json, cwd: str, **streams: Any
    ) -> asyncio.subprocess.Process:
        """Start a script in a process group of its own; `streams` are its stdout and stderr."""
        command, descriptor = script_command(script, name, self.umask)
        try:
            return await asyncio.create_subprocess_exec(
                *command,
                stdin=subprocess.DEVNULL,
                pass_fds=(descriptor,),
                start_new_session=True,
                env=self.environment(env),
                cwd=cwd,
                **streams,
            )
        finally:
            os.close(descriptor)

    async def run_task(self, task: Task, script: str, env: Json, cwd: str | None) -> None:
        """Run a job or a shell to its end.

        A fault ends it too: one that stayed live would keep the guards from ending the machine.
        """
        try:
            await self._run_task(task, script, env, cwd)
        except Exception as error:
            traceback.print_exc()
            if task.is_live:
                task.note(f"it could not be run: {type(error).__name__}: {error}")
                task.end("failed", 127)

    async def _run_task(self, task: Task, script: str, env: Json, cwd: str | None) -> None:
        task.cancel = task.mark_cancelled
        try:
            folder = working_folder(cwd)
            (outs, out), (errs, err) = await open_pipe(), await open_pipe()
            name = str(task.meta["name"])
            try:
                process = await self.start(script, name, env, folder, stdout=out, stderr=err)
            finally:
                os.close(out)
                os.close(err)
        except (OSError, RequestError) as error:
            text = "the disk of the machine is full" if is_no_room(error) else error
            task.journal.append({"k": "stderr", "text": f"nbprov: {text}\n"})
            task.end("failed", 127)
            return
        task.begin(process.pid)
        task.cancel = lambda: spawn(_end(task, process))
        if task.is_cancelled:
            task.cancel()
        code = await _read_to_end(
            process,
            [
                OutputReader("stdout", outs, task.journal, task.output_masker()),
                OutputReader("stderr", errs, task.journal, task.error_masker()),
            ],
        )
        status = "cancelled" if task.is_cancelled else "ok" if code == 0 else "failed"
        # A person waits for a shell; what follows a job reads what was saved.
        task.end(status, code, is_told_first=task.meta["kind"] == "shell")

    async def run_command(self, script: str, seconds: float, env: Json) -> tuple[int | None, str]:
        """Run a script of the guards; return its exit code and the end of its output.

        The code is None if it ran out of time.
        """
        reader, out = await open_pipe()
        try:
            process = await self.start(script, "nbprov-guard", env, home(), stdout=out, stderr=out)
        except (OSError, ValueError) as error:
            return 127, str(error)
        finally:
            os.close(out)
        said = bytearray()
        reading = spawn(_keep_tail(reader, said))
        try:
            code: int | None = await asyncio.wait_for(process.wait(), seconds)
        except asyncio.TimeoutError:
            kill_group(process.pid)
            code = None
        # What it left in the background may hold the pipe for long.
        await asyncio.wait([reading], timeout=DRAIN_SECONDS)
        reading.cancel()
        return code, said.decode("utf-8", "replace")


async def _keep_tail(reader: asyncio.StreamReader, said: bytearray) -> None:
    while True:
        data = await reader.read(LINE_LIMIT)
        if not data:
            return
        said += data
        del said[:-KEPT_BYTES]


async def _read_to_end(process: asyncio.subprocess.Process, outputs: list[OutputReader]) -> int:
    pumps = [spawn(output.pump()) for output in outputs]
    code = await process.wait()
    for _ in range(10):
        seen = sum(output.reads for output in outputs)
        _, still_open = await asyncio.wait(pumps, timeout=DRAIN_SECONDS)
        if not still_open or seen == sum(output.reads for output in outputs):
            break
    for output in outputs:
        output.finish()
        output.is_muted = True
    return code


async def _end(task: Task, process: asyncio.subprocess.Process) -> None:
    task.is_cancelled = True
    signal_group(process.pid, signal.SIGTERM)
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(asyncio.shield(task.done.wait()), CANCEL_SECONDS)
    kill_group(process.pid)


def working_folder(given: str | None) -> str:
    """Return the folder that a request names, relative to the home.

    Raises
    ------
    RequestError
        `no-folder`, if it is not there.
    """
    path = os.path.join(home(), os.path.expanduser(given or "~"))
    if not os.path.isdir(path):
        raise RequestError("no-folder", f"the folder {path} does not exist on the machine")
    return path


def script_command(script: str, name: str, umask: int) -> tuple[list[str], int]:
    """Return a command that runs a script, and the open file to pass on to it.

    The script stands in no file that has a name and on no command line, as it may hold secrets;
    and in memory where that can be, since a full disk must not keep a poweroff from its work.
    """
    data = script.replace("\0", "").encode()
    has_names = os.path.exists("/dev/fd/0")
    try:
        copy = _open_copy(data, has_names)
    except OSError:
        if len(data) > PIPE_BYTES:
            raise
        copy, writing = os.pipe()  # holds a short script, and needs no file at all
        with open(writing, "wb") as file:
            file.write(data)
    shell = "bash" if shutil.which("bash") else "sh"
    reset = f"{{ echo 0 >/proc/self/oom_score_adj; }} 2>/dev/null; umask {umask:03o}; "
    if shell == "bash":
        # It reads by itself: another process would take as long as a short script as a whole.
        read = f'IFS= read -r -d "" _nbprov <&{copy}; exec {copy}<&-; '
    else:
        # dash knows open files by one digit only.
        read = "_nbprov=$(cat {}{}); ".format("/dev/fd/" if has_names else "<&", copy)
    return [shell, "-c", reset + read + 'eval "unset _nbprov; $_nbprov"', name], copy


def _open_copy(data: bytes, has_names: bool) -> int:
    with _unnamed_file() as file:
        file.write(data)
        file.flush()
        path = f"/dev/fd/{file.fileno()}"
        copy = os.open(path, os.O_RDONLY) if has_names else os.dup(file.fileno())
        os.lseek(copy, 0, os.SEEK_SET)
        return copy


def _unnamed_file() -> IO[bytes]:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # an old kernel, an old C library
            return open(os.memfd_create("nbprov"), "w+b")
    return tempfile.TemporaryFile()


async def is_system_stopping() -> bool:
    """Return whether the machine shuts down, as far as systemd tells."""
    if init_name().startswith("systemd-shutdow"):
        return True
    with contextlib.suppress(OSError):
        said = await command_output(*SYSTEM_STATE, seconds=SYSTEM_STATE_SECONDS, may_fail=True)
        return said == "stopping"
    return False


async def command_output(*command: str, seconds: float, may_fail: bool = False) -> str:
    """Return what a program prints; empty if it is missing, fails or takes too long."""
    if shutil.which(command[0]) is None:
        return ""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        out, _ = await asyncio.wait_for(process.communicate(), seconds)
    except asyncio.TimeoutError:
        kill_group(process.pid)
        return ""
    return out.decode("utf-8", "replace").strip() if process.returncode == 0 or may_fail else ""
