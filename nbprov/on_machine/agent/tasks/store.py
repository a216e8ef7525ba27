"""The tasks of this machine: those that run, those that ended, and those of the agent before."""

from __future__ import annotations

import contextlib
import shutil
import time
from pathlib import Path
from typing import Any

from ..errors import RequestError
from ..json_types import Json
from ..log import report_error
from ..secret_registry import SecretRegistry
from ..state_files import read_json
from ..system import kill_group, process_start
from .task import Task

TASK_JOURNAL_BYTES = 32 * 1024 * 1024
"""Output kept of one task, some 300,000 lines; the oldest goes first."""
ALL_JOURNALS_BYTES = 512 * 1024 * 1024
"""Output kept of all ended tasks together; the oldest task goes first."""
KEPT_TASKS = 500
KEPT_OWN = 50
"""Ended cells of nbprov's own that are kept.

They may still be read after a cut, but must not push out what people ran."""
AGENT = "agent"
"""The id of the agent's own journal of events."""


class TaskStore:
    """Every task by its id, and the agent's own journal of events.

    Parameters
    ----------
    folder
        The agent's folder; tasks lie below it.
    secrets
        Masked in the output of all tasks.

    Attributes
    ----------
    lost_jobs
        Ids of the jobs that were cut off when the agent before, or its machine, stopped.
    """

    def __init__(self, folder: Path, secrets: SecretRegistry) -> None:
        self._folder, self._secrets = folder / "tasks", secrets
        self._tasks: dict[str, Task] = {}
        self.lost_jobs: list[str] = []
        with contextlib.suppress(OSError):  # a journal tries again
            self._folder.mkdir(exist_ok=True)
        for path in sorted(self._folder.glob("*/meta.json")):
            try:
                meta = read_json(path)
                if meta is not None and meta.get("id") == path.parent.name != AGENT:
                    self._restore(path.parent, meta)
            except Exception:
                # One that cannot be read must not keep the agent, and so the guards, from running.
                report_error(f"the task in {path.parent}")
        own: Json = {"id": AGENT, "kind": AGENT, "name": AGENT, "state": "running"}
        own["created"] = time.time()
        self.events = Task(self._folder / AGENT, own, TASK_JOURNAL_BYTES // 8)

    def __contains__(self, name: str) -> bool:
        return name in self._tasks

    def __getitem__(self, name: str) -> Task:
        return self._tasks[name]

    def __setitem__(self, name: str, task: Task) -> None:
        self._tasks[name] = task

    def all(self) -> list[Task]:
        """Return all tasks, oldest first."""
        return list(self._tasks.values())

    def live(self) -> list[Task]:
        """Return the tasks that have not ended."""
        return [task for task in self._tasks.values() if task.is_live]

    def find(self, name: str) -> Task:
        """Return a task, or the journal of events for the id `agent`.

        Raises
        ------
        RequestError
            `no-task`, if there is none.
        """
        task = self.events if name == AGENT else self._tasks.get(name)
        if task is None:
            raise RequestError(
                "no-task", f"the agent knows no task {name} (it keeps the last {KEPT_TASKS})"
            )
        return task

    def has_succeeded(self, name: str) -> bool:
        """Return whether a task has ended well; a forgotten one has not."""
        return name in self._tasks and self._tasks[name].meta.get("status") == "ok"

    def write_unwritten(self) -> None:
        """Write the output that the disk did not take before."""
        for task in (self.events, *self._tasks.values()):
            task.journal.write_unwritten()

    def event(self, what: str, **more: Any) -> None:
        """Journal something that the agent itself did or noticed."""
        self.events.journal.append({"k": "event", "what": what, **more})

    def create(self, frame: Json, more: Json) -> Task:
        """Make and save the task that a request describes; `more` is kept in its state."""
        name, kind = str(frame["task"]), str(frame["kind"])
        shown = str(frame.get("name") or kind)
        meta: Json = {"id": name, "kind": kind, "name": shown, "state": "queued"}
        meta.update({"created": time.time(), **more})
        if frame.get("silent"):
            meta["own"] = True
        self.prune()
        is_verbatim = bool(frame.get("verbatim"))
        task = Task(self._folder / name, meta, TASK_JOURNAL_BYTES, self._secrets, is_verbatim)
        task.after = [str(one) for one in frame.get("after") or []]
        self._tasks[name] = task
        task.save()
        return task

    def prune(self) -> None:
        """Forget the oldest ended tasks if they are too many or too large.

        Of nbprov's own cells all but the last few go first. What a queued task waits for stays.
        """
        queued = [task for task in self.live() if task.meta["state"] == "queued"]
        needed = {name for task in queued for name in task.after}
        over = [task for task in self.all() if not task.is_live and task.id not in needed]
        ended = sorted(over, key=lambda task: task.meta.get("ended") or 0.0)
        own = [task for task in ended if task.meta.get("own")]
        for task in own[: max(0, len(own) - KEPT_OWN)]:
            ended.remove(task)
            self._forget(task)
        total = sum(task.kept_bytes for task in ended)
        while ended and (len(self._tasks) > KEPT_TASKS or total > ALL_JOURNALS_BYTES):
            oldest = ended.pop(0)
            total -= oldest.kept_bytes
            self._forget(oldest)

    def _forget(self, task: Task) -> None:
        task.forget()
        shutil.rmtree(task.journal.folder, ignore_errors=True)
        del self._tasks[task.id]
        if task.on_forget is not None:
            task.on_forget()

    def _restore(self, folder: Path, meta: Json) -> None:
        """Take a task over from the agent before; one that had not ended was lost with it."""
        task = self._tasks[str(meta["id"])] = Task(folder, meta, TASK_JOURNAL_BYTES, self._secrets)
        task.restore_end()
        if meta.get("kind") == "job" and (task.is_live or meta.pop("left", False)):
            self.lost_jobs.append(task.id)
            task.save()
        if not task.is_live:
            return
        pid = meta.get("pid")
        if pid and process_start(pid) == meta.get("pid_started"):
            kill_group(pid)
        # Whether a queued cell had begun is not known: that it runs is saved a little later.
        if meta["state"] == "queued" and meta.get("kind") != "cell":
            what = " before this began; its script is kept nowhere, so submit it again"
        else:
            what = "; this was lost with it"
        task.note("the agent on the machine was restarted" + what)
        task.end("lost")
