"""The end of the machine, once a guard is due."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import time
from pathlib import Path
from typing import NoReturn

from .. import VERSION
from ..clients import Clients
from ..json_types import Json
from ..log import report_error
from ..secret_registry import SecretRegistry
from ..state_files import write_json
from ..system import boottime
from ..tasks.scripts import ScriptRunner
from ..tasks.store import TaskStore
from .guard_clocks import GuardClocks

END_FILE = "ended.json"
"""Which guard ended the machine; kept once under another name, for whoever starts it again."""
POWEROFF_SECONDS = 60.0
POWEROFF_AGAIN_SECONDS = 60.0
HOOK_SECONDS = 3600.0
LIFETIME_HOOK_SECONDS = 300.0
"""What a hook may take where the lifetime is over: a cap that ends an hour late is none."""
LAST_WORDS_SECONDS = 5.0
"""What an end leaves to a listening client to fetch the logs of jobs; it costs under a cent."""
TOLD_CHARACTERS = 2000


class MachineShutdown:
    """Runs the hook, waits for outputs to be fetched, and powers the machine off.

    Attributes
    ----------
    due
        The guard that ends the machine; None while none does. Nothing new begins from then on.
    """

    def __init__(
        self,
        folder: Path,
        guards: GuardClocks,
        tasks: TaskStore,
        clients: Clients,
        scripts: ScriptRunner,
        secrets: SecretRegistry,
    ) -> None:
        self._folder, self._guards, self._tasks = folder, guards, tasks
        self._clients, self._scripts, self._secrets = clients, scripts, secrets
        self._released = asyncio.Event()
        self._held_until = 0.0
        self.due: Json | None = None

    def status(self) -> Json | None:
        """Return the guard that ends the machine, and how long outputs are still waited for."""
        if self.due is None:
            return None
        left = max(0.0, self._held_until - boottime()) if self._held_until else None
        return {**self.due, "hold_left": left}

    def release(self) -> bool:
        """Go on, since the outputs are fetched; return whether they were waited for.

        It says nothing of a later wait.
        """
        is_held = bool(self._held_until)
        if is_held:
            self._released.set()
        return is_held

    async def run(self, due: Json) -> NoReturn:
        """End the machine: ask for its poweroff again and again until it is off.

        Nothing that comes before keeps it from that.
        """
        self.due = due
        hook: Json | None = None
        try:
            self._tasks.event("guard", **due)
            await self._clients.broadcast({"ev": "ending", **due})
        except Exception:
            report_error("telling of the end")
        try:
            hook = await self._run_hook_and_wait(due)
        except Exception:
            report_error("the hook")
        await self._wait_for_outputs(due)
        end = {**due, "at": time.time(), "hook": hook, "version": VERSION}
        write_json(self._folder / END_FILE, end)
        self._guards.save()
        while True:
            try:
                await self._power_off(due)
            except Exception:
                report_error("the poweroff")
            await asyncio.sleep(POWEROFF_AGAIN_SECONDS)

    async def _run_hook_and_wait(self, due: Json) -> Json | None:
        """Run the hook, and leave those who listen the time to fetch the logs of jobs."""
        has_jobs = any(task.meta["kind"] == "job" for task in self._tasks.all())
        is_heard = bool(self._clients) and has_jobs
        last_words = asyncio.sleep(LAST_WORDS_SECONDS if is_heard else 0.0)
        hook, _ = await asyncio.gather(self._run_hook(due, self._guards.config), last_words)
        return hook

    async def _power_off(self, due: Json) -> None:
        command = self._guards.poweroff().replace("{mode}", due["mode"])
        command = command.replace("{reason}", shlex.quote(due["reason"]))
        code, said = await self._run(command, POWEROFF_SECONDS, {})
        self._tasks.event("poweroff", mode=due["mode"], exit_code=code, output=said)

    async def _wait_for_outputs(self, due: Json) -> None:
        """Wait until a client has fetched the outputs, or the time is over; none can extend it."""
        try:
            self._guards.tick(boottime(), time.time(), [])
            until = self._guards.hold_until(due)
            seconds = until - boottime()
            if seconds <= 0:
                return
            self._held_until = until
            self._tasks.event("hold", seconds=round(seconds, 1))
            await self._clients.broadcast({"ev": "hold", "seconds": seconds})
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._released.wait(), seconds)
            self._tasks.event("held", released=self._released.is_set())
        except Exception:
            report_error("the wait for outputs")  # the end goes on, whatever it was
        finally:
            self._held_until = 0.0

    async def _run_hook(self, due: Json, config: Json) -> Json | None:
        if not config.get("hook"):
            return None
        env = {"NBPROV_GUARD": due["guard"], "NBPROV_REASON": due["reason"]}
        code, said = await self._run(config["hook"], _hook_seconds(due, config), env)
        self._tasks.event("hook", exit_code=code, output=said)
        return {"exit_code": code, "output": said}

    async def _run(self, script: str, seconds: float, env: Json) -> tuple[int | None, str]:
        code, said = await self._scripts.run_command(script, seconds, env)
        return code, self._secrets.mask(said)[-TOLD_CHARACTERS:]


def _hook_seconds(due: Json, config: Json) -> float:
    allowed = float(config.get("hook_timeout") or HOOK_SECONDS)
    if due["guard"] == "budget":
        reserve = float(config["budget"].get("reserve_seconds", 0))
        return min(allowed, max(1.0, reserve))
    return min(allowed, LIFETIME_HOOK_SECONDS) if due["guard"] == "lifetime" else allowed
