"""Jobs of several nodes: where one part fails, is cancelled or lost, the others are ended."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Callable, Tuple

from ..json_types import Json
from ..system import boottime
from ..tasks.task import Task
from .messages import MESSAGE_ROWS, PART_FAILURES, part_key, rows_of

GRACE_SECONDS = 10.0
"""How long a part goes on after another one of its job failed.

In this time it may fail by itself, with its own words and exit code."""
SILENCE_TOLD_SECONDS = 180.0
"""After so long without a message of a node, the log of a job that has a part there says so."""
SILENCE_SECONDS = 900.0
"""After so long the node's part counts as lost.

It is longer than NCCL's own 10 minutes, so that a program that notices says so in its own words;
and a quarter of an hour of idle GPUs is what a machine that vanished may cost."""
YOUNGER_SECONDS = 60.0
"""A machine that does not know a job, and is younger by this, replaced one that had a part."""

LOOK_SECONDS = 10.0
"""Between two looks, at most; where more has passed the machine slept, and nobody was silent."""

Address = Tuple[str, int]


class GangJobPart:
    """This machine's part of a job of several nodes.

    Attributes
    ----------
    others
        The nodes of the other parts by the addresses that their agents had when the job came, as
        ranks may be dealt out anew. Nodes whose parts ended well are taken out: nothing that
        becomes of them matters any more.
    blamed
        The end of another node's part that this one is ended for.
    """

    def __init__(self, task: Task, rank: int, others: dict[Address, int]) -> None:
        self.task, self.rank, self.others = task, rank, others
        self.blamed: Json | None = None

    def row(self) -> Json:
        """Return how it ended, or for whose part it was ended."""
        meta = self.task.meta
        own = {"node": self.rank, "status": meta.get("status"), "code": meta.get("exit_code")}
        return {"job": part_key(meta), **(self.blamed or own)}


class GangJobs:
    """The parts that this machine has of jobs of several nodes.

    Without it, parts would wait, and cost, for ever for one that ended. The end of a part is told
    at once. A node whose part is not over asks for the others in each of its messages, and is
    answered where one of them has ended. So nobody needs to remember a message that was lost, or
    a node that could not be reached for a while.

    Parameters
    ----------
    machine_age
        Returns the seconds since this machine's first start.
    begin_ready
        Begins the jobs that may begin once another one ended.
    """

    def __init__(self, machine_age: Callable[[], float], begin_ready: Callable[[], None]) -> None:
        self._machine_age, self._begin_ready = machine_age, begin_ready
        self._silent: dict[Address, tuple[float, float]] = {}
        self._looked = boottime()
        self.parts: dict[str, GangJobPart] = {}

    def add(self, task: Task, rank: int, addresses: dict[int, Address]) -> GangJobPart | None:
        """Take in a job; return its part here if it is one of several nodes.

        Parameters
        ----------
        rank
            This machine's.
        addresses
            Those of the other machines, by their ranks.
        """
        nodes = int(task.meta.get("nodes") or 1)
        if task.meta["kind"] != "job" or not task.meta.get("nonce") or nodes < 2:
            return None
        others = {address: other for other, address in addresses.items() if other < nodes}
        key = part_key(task.meta)
        part = self.parts[key] = GangJobPart(task, rank, others)
        task.on_forget = lambda: self._forget(key)
        return part

    def live(self) -> list[GangJobPart]:
        """Return the parts that run, then those that wait; none whose job is being placed."""
        found = [
            part
            for part in self.parts.values()
            if part.task.is_live and not part.task.meta.get("held")
        ]
        return sorted(found, key=lambda part: part.task.meta["state"] != "running")

    def asked(self, address: Address) -> list[Json]:
        """Return the jobs to ask another node for: a few that run, then some that wait."""
        wanted = [part for part in self.live() if address in part.others]
        running = [part for part in wanted if part.task.meta["state"] == "running"]
        some = random.sample(running, min(MESSAGE_ROWS, len(running)))
        now = time.time()
        return [
            {
                "job": part_key(part.task.meta),
                "age": round(max(0.0, now - part.task.meta["created"])),
            }
            for part in [*some, *wanted[len(running) :]][:MESSAGE_ROWS]
        ]

    def receive(self, address: Address, message: Json, rank: int) -> list[Json]:
        """Take what a node says of its parts; return the rows that answer what it asks.

        Parameters
        ----------
        rank
            This machine's.
        """
        for job, row in rows_of(message, "over"):
            part = self.parts.get(job)
            if part is not None and address in part.others:
                self._note_end(part, address, row)
        answer = []
        for job, row in rows_of(message, "live"):
            part = self.parts.get(job)
            if part is None:
                if self._machine_age() + YOUNGER_SECONDS < row["age"]:
                    answer.append({"job": job, "node": rank, "status": "lost", "code": None})
            elif not part.task.is_live and part.task.meta.get("status") in (
                "ok",
                *PART_FAILURES,
            ):
                answer.append(part.row())
        return answer

    def check_silence(self, heard: dict[Address, float | None]) -> None:
        """Count the silence of nodes that have parts of what runs here.

        A node that was never heard is left to the kernel: a firewall may be between.

        Parameters
        ----------
        heard
            When each node was heard last.
        """
        now = boottime()
        passed, self._looked = min(now - self._looked, LOOK_SECONDS), now
        live = self.live()
        before, self._silent = self._silent, {}
        for address in {address for part in live for address in part.others}:
            at = heard.get(address)
            last, seconds = before.get(address, (at, 0.0))
            if last is None:
                continue
            is_new = at is not None and at != last
            self._silent[address] = (at or last, 0.0) if is_new else (last, seconds + passed)
            for part in live:
                if address in part.others:
                    self._tell_silence(part, address, seconds, self._silent[address][1])

    def _forget(self, key: str) -> None:
        self.parts.pop(key, None)

    def _note_end(self, part: GangJobPart, address: Address, row: Json) -> None:
        if row["status"] == "ok":
            if part.others[address] == row["node"]:
                del part.others[address]
        elif row["node"] in part.others.values():
            self._blame(part, row)

    def _blame(self, part: GangJobPart, row: Json) -> None:
        """End a part for another one, after a while in which it may fail by itself."""
        if part.blamed is not None or not part.task.is_live or part.task.is_cancelled:
            return
        part.blamed = row
        has_code = row["status"] == "failed" and row["code"] is not None
        code = " with exit code {}".format(row["code"]) if has_code else ""
        why = PART_FAILURES[row["status"]].format(row["node"]) + code
        is_running = part.task.meta["state"] == "running"
        waits = row["status"] in ("failed", "lost") and is_running
        seconds = GRACE_SECONDS if waits else 0.0
        asyncio.get_event_loop().call_later(seconds, self._end, part.task, why)

    def _end(self, task: Task, why: str) -> None:
        if task.is_live and not task.is_cancelled:
            task.meta["reason"] = "ended: " + why
            task.note(f"ended: {why}")
            task.cancel()
            self._begin_ready()

    def _tell_silence(
        self, part: GangJobPart, address: Address, before: float, seconds: float
    ) -> None:
        node = part.others[address]
        minutes = int(SILENCE_TOLD_SECONDS / 60.0)
        if before >= SILENCE_TOLD_SECONDS > seconds:
            part.task.note(f"node {node} is heard of again")
        elif seconds >= SILENCE_TOLD_SECONDS > before:
            left = int((SILENCE_SECONDS - SILENCE_TOLD_SECONDS) / 60.0)
            part.task.note(
                f"node {node} has not been heard of for {minutes} min; "
                f"if that lasts, this is ended in {left} min"
            )
        if seconds >= SILENCE_SECONDS and part.blamed is None:
            part.blamed = {"node": node, "status": "lost", "code": None}
            whole = int(SILENCE_SECONDS / 60.0)
            self._end(
                part.task,
                f"node {node}, which has a part of it, has not been heard of for {whole} min",
            )
