"""The tasks that an agent remembers: jobs, shells and cells."""

from __future__ import annotations

from .framing import MOST_TASKS, AgentError, malformed, parsed
from .messages import TaskInfo
from .transport import AgentTransport


async def all_tasks(transport: AgentTransport) -> tuple[TaskInfo, ...]:
    """Return all tasks, oldest first.

    Raises
    ------
    AgentError
        The agent cannot be asked, or lists more than an agent keeps.
    """
    answer = await transport.ask("tasks")
    rows = parsed(lambda rows: tuple(map(TaskInfo.of, rows)), answer.get("tasks"))
    if len(rows) > MOST_TASKS:
        raise malformed(f"{len(rows):,} tasks")
    return rows


async def find_task(transport: AgentTransport, id: str) -> TaskInfo:
    """Return one task.

    Raises
    ------
    AgentError
        `agent.no-task`, if the agent does not know it (any more).
    """
    for task in await all_tasks(transport):
        if task.id == id:
            return task
    raise AgentError(f"the agent knows no task {id}", code="agent.no-task")
