"""The output of a task, sent to a client that follows it."""

from __future__ import annotations

import asyncio

from ..clients import BridgeClient
from .journal import Cursor
from .task import Task

END_ONLY = 10**9
"""Who follows a task from this number on wants to know of its end alone."""


async def follow(client: BridgeClient, task: Task, name: str, since: int) -> None:
    """Send what a journal holds after a number, then what comes, until the task is over.

    Parameters
    ----------
    name
        The client's name for this, which each frame bears.
    """
    cursor, changed = Cursor(task.journal, since), asyncio.Event()
    task.journal.waiters.add(changed)
    try:
        if since >= END_ONLY:
            await task.done.wait()
        while True:
            changed.clear()
            entries = cursor.read()
            is_over = entries[-1]["k"] == "end" if entries else task.done.is_set()
            if entries or is_over:
                frame = {"ev": "out", "follow": name, "entries": entries}
                await client.send({**frame, "over": True} if is_over else frame)
            if is_over:
                return
            if not entries:
                await changed.wait()
    except OSError:
        return  # the client is gone; it asks again from where it was
    finally:
        task.journal.waiters.discard(changed)
        client.follows.pop(name, None)
