"""The lifecycle of machines: boot, run, stop, end, and adopt those of an earlier daemon."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from nbprov.clouds.local.rpc import MachineState as State
from nbprov.model.clock import Seconds

from . import isolation, platform_calls, processes, sshd
from .guest_folder import remove_tree
from .machine import LocalMachine, MachineSettings
from .market import Timing
from .market_file import MarketFile
from .state_store import Record, StateStore

log = logging.getLogger("nbprov.local")

TICK: Seconds = 0.05
"""The pause between two looks at running machines; one that powers itself off is noticed within it.
"""
SLOW_LOOK: Seconds = 1.0
"""The pause between two looks if each costs a process, and between two attempts to end processes.
"""

ACTIVE = frozenset({State.PENDING, State.RUNNING, State.STOPPING, State.ENDING})
FINAL = {State.STOPPING: State.STOPPED, State.ENDING: State.GONE}
"""The state that follows stopping or ending; a stop keeps the disk however long its processes take.
"""


class MachineLifecycle:
    """Runs the machines of one state directory.

    All methods belong to the daemon's loop; blocking work runs in threads.
    """

    def __init__(self, root: Path, store: StateStore, market: MarketFile) -> None:
        self.root = root
        self.store = store
        self.market = market
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._tasks: set[asyncio.Task[None]] = set()
        self._delays: dict[str, asyncio.Task[None]] = {}
        self._equipment_lock = asyncio.Lock()
        self._equipment: tuple[isolation.IsolationLevel, sshd.MachineSshd | None] | None = None
        self._looked: dict[str, float] = {}

    async def equipment(self) -> tuple[isolation.IsolationLevel, sshd.MachineSshd | None]:
        """Return the isolation and the ssh server of machines here, found once."""
        async with self._equipment_lock:
            if self._equipment is None:
                self._equipment = await asyncio.to_thread(
                    lambda: (isolation.probe(self.root), sshd.find())
                )
            return self._equipment

    @property
    def active(self) -> list[Record]:
        """Return machines in which something runs or is about to."""
        return [m for m in self.store.all("machine") if m["state"] in ACTIVE]

    def timing(self) -> Timing:
        """Return the delays of the market; those of an empty one while the file is invalid."""
        try:
            return self.market.read().timing
        except ValueError:
            return Timing()

    def adopt(self) -> None:
        """Adopt the machines of an earlier daemon: watch those that live, boot or end the
        others.
        """
        known = {m["id"] for m in self.store.all("machine")}
        for folder in (self.root / "i").glob("*"):
            if folder.name not in known:
                self._spawn(self._discard(folder))
        for record in self.store.all("machine"):
            if record["state"] == State.PENDING:
                self._spawn(self._boot(record, 0.0, again=True))
            elif record["state"] in FINAL:
                self._spawn(self._finish(record, FINAL[record["state"]]))

    def boot(self, record: Record) -> None:
        """Boot a pending machine, after the market's boot delay."""
        fault = record["fault"]
        longer = fault["seconds"] if fault.get("do") == "slow_boot" else 0.0
        self._spawn(self._boot(record, self.timing().boot + longer))

    def terminate(self, record: Record, reason: str, *, by_itself: bool = False) -> None:
        """End a machine and remove its disk. One that is ending or gone is skipped.

        `by_itself` says that it ends as planned: it powered itself off, or its time is over.
        """
        if record["state"] not in (State.ENDING, State.GONE):
            record["by_itself"] = by_itself
            self._change(record, State.ENDING, reason)
            self._end_delay(record)
            self._spawn(self._finish(record, State.GONE))

    def stop(self, record: Record, reason: str, *, by_itself: bool = False) -> None:
        """End the processes of a machine and keep its disk.

        One that is stopped, ending or gone is skipped.
        """
        if record["state"] in (State.PENDING, State.RUNNING):
            record["by_itself"] = by_itself
            self._change(record, State.STOPPING, reason)
            self._end_delay(record)
            self._spawn(self._finish(record, State.STOPPED))

    def start(self, record: Record) -> None:
        """Boot a stopped machine again; its start script runs again too."""
        record["by_itself"] = False
        self._change(record, State.PENDING, "")
        self.boot(record)

    def tick(self) -> None:
        """Check every machine once.

        Powered off, dead, past its time, preempted, or gone long enough.
        """
        now = time.time()
        for record in self.store.all("machine"):
            state = record["state"]
            if state in (State.PENDING, State.RUNNING):
                self._look(record, now)
            elif state in FINAL and record.get("retry_at", now) < now:
                record.pop("retry_at")
                self._spawn(self._finish(record, FINAL[state]))
            elif state == State.GONE and now - record["changed_at"] > self.timing().gone_shown:
                self.store.drop("machine", record["id"])
                self._locks.pop(record["id"], None)
        processes.reap()

    async def abandon(self) -> None:
        """End the processes of all machines without recording it: the state directory is gone."""
        for record in self.active:
            await asyncio.to_thread(
                isolation.end, record["handle"], record["id"], self.root / "i" / record["id"]
            )

    async def settle(self) -> None:
        """Wait until no machine changes its state."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    def _look(self, record: Record, now: float) -> None:
        asked = LocalMachine(self.root, record["id"]).take_poweroff()
        if asked is not None:
            mode, reason = asked
            words = f"powered itself off: {reason}" if reason else "powered itself off"
            (self.stop if mode == "stop" else self.terminate)(record, words, by_itself=True)
        elif record["end_at"] and now >= record["end_at"]:
            self.terminate(record, "its time was over (terminate_after)", by_itself=True)
        elif record["preempt_at"] and now >= record["preempt_at"]:
            self.terminate(record, "spot capacity was taken back")
        elif record["state"] == State.RUNNING and not self._lives(record, now):
            words = "its processes ended by themselves"
            (self.stop if record["on_shutdown"] == "stop" else self.terminate)(record, words)

    def _lives(self, record: Record, now: float) -> bool:
        if not platform_calls.IS_LINUX:
            if now - self._looked.get(record["id"], 0.0) < SLOW_LOOK:
                return True
            self._looked[record["id"]] = now
        return isolation.alive(record["handle"])

    def _change(self, record: Record, state: State, reason: str | None = None) -> None:
        record["state"] = state.value
        record["changed_at"] = time.time()
        if reason is not None:
            record["reason"] = reason
        self.store.put(("machine", record))
        log.info(
            "%s is %s%s",
            record["id"],
            state.value,
            f": {record['reason']}" if record["reason"] else "",
        )

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a task failed", exc_info=task.exception())

    async def _discard(self, folder: Path) -> None:
        await asyncio.to_thread(isolation.end, None, folder.name, folder)
        await asyncio.to_thread(remove_tree, folder)

    async def _boot(self, record: Record, delay: Seconds, *, again: bool = False) -> None:
        waited = self._delays[record["id"]] = asyncio.ensure_future(asyncio.sleep(delay))
        await asyncio.wait([waited])
        machine = LocalMachine(self.root, record["id"])
        fault = record["fault"]
        async with self._locks[record["id"]]:
            if record["state"] != State.PENDING or fault.get("do") == "stuck":
                return
            if again:
                await asyncio.to_thread(
                    isolation.end, record["handle"], record["id"], machine.folder
                )
            level, server = await self.equipment()
            try:
                if server is None:
                    raise OSError("there is no ssh server")
                shape = MachineSettings(
                    record["id"],
                    record["name"],
                    record["node"],
                    record["gpus"],
                    record["gpu_memory_mib"],
                )
                broken = fault.get("do") in ("no_ssh", "die")
                started = await asyncio.to_thread(
                    machine.start, level, server, shape, broken=broken
                )
            except OSError as error:
                self.terminate(record, f"did not boot: {error}")
                return
            record.update(handle=started.handle)
            if record["state"] == State.PENDING:
                record.update(host=started.host, port=started.port)
                if fault.get("do") == "preempt":
                    record["preempt_at"] = time.time() + fault["seconds"]
                if fault.get("do") != "die":
                    self._change(record, State.RUNNING)
        if fault.get("do") == "die" and record["state"] == State.PENDING:
            self.store.put(("machine", record))
            await asyncio.sleep(fault["seconds"])
            self.terminate(record, "died in its boot")

    def _end_delay(self, record: Record) -> None:
        if delay := self._delays.pop(record["id"], None):
            delay.cancel()

    async def _finish(self, record: Record, final: State) -> None:
        machine = LocalMachine(self.root, record["id"])
        await asyncio.sleep(self.timing().end)
        async with self._locks[record["id"]]:
            if FINAL.get(record["state"]) is not final:
                return
            left = await asyncio.to_thread(
                machine.end, record["handle"], keep_disk=final is State.STOPPED
            )
            if left:
                log.error("%s: processes %s would not end", record["id"], [p.pid for p in left])
                record["retry_at"] = time.time() + SLOW_LOOK
                self.store.put(("machine", record))
                return
            record.pop("retry_at", None)
            record.update(handle=None, host="", port=0, preempt_at=None)
            # A machine that was told to end while it stopped must not become stopped now: its end
            # waits for this lock, and would find nothing to do.
            if FINAL.get(record["state"]) is final:
                self._change(record, final)
