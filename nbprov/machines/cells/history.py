"""Cells that ran, or still run, on a machine, whichever kernel started them: found, read again from their beginning, interrupted."""

from __future__ import annotations

from nbprov.machines.idle_inhibitor import TOUCH
from nbprov.machines.node_selection import one_node
from nbprov.model.errors import NotFound
from nbprov.provisioning.live_cluster import LiveCluster, agent_of
from nbprov.remote.agent.client import AgentClient
from nbprov.remote.agent.messages import TaskInfo

from .cells import OWN_PREFIX
from .output import CellResult, OnOutput, OutputBudget, OutputCollation


def _agent(live: LiveCluster, node: int) -> AgentClient:
    return agent_of(one_node(live, node))


async def list_cells(live: LiveCluster, node: int = 0) -> list[TaskInfo]:
    """The cells and shell scripts of a node that people ran, oldest first; the machine keeps the last few hundred."""
    tasks = await _agent(live, node).tasks()
    return [
        task
        for task in tasks
        if task.kind in ("cell", "shell")
        and not task.id.startswith(OWN_PREFIX)
        and task.name != TOUCH
    ]


async def find_cell(live: LiveCluster, wanted: str, node: int = 0) -> TaskInfo:
    """A cell by its id, the beginning of one, or `last`.

    Raises
    ------
    NotFound
        If there is none, or several begin so.
    """
    cells = await list_cells(live, node)
    fitting = (
        cells[-1:]
        if wanted == "last"
        else [cell for cell in cells if cell.id == wanted]
        or [c for c in cells if c.id.startswith(wanted)]
    )
    if len(fitting) != 1:
        what = "has no cell" if not fitting else "has several cells"
        raise NotFound(
            f"{live.name} {what} {wanted!r}",
            hint=f"%nbprov cells {live.name} lists them",
            code="cell.not-found",
        )
    return fitting[0]


async def replay(
    live: LiveCluster,
    id: str,
    node: int = 0,
    *,
    on_output: OnOutput = None,
    to_the_end: bool = True,
) -> CellResult | None:
    """Everything a cell has put out, from its beginning, and on to its end. Cancelling this does not touch the cell.

    Parameters
    ----------
    to_the_end
        Wait for what comes; otherwise stop at what there is now, and give None where the cell still runs.

    Raises
    ------
    RemoteCellError
        As the cell itself would.
    """
    agent = _agent(live, node)
    known = await agent.task(id)
    budget = OutputBudget(on_output, f"%nbprov cells {live.name} {id} --save FILE")
    gathered = OutputCollation(budget, f"{live.run_id}/{node}/again")
    if not to_the_end and not known.is_over and not known.last:
        return None
    async for output in agent.job_output(id):
        gathered.take(output)
        if not to_the_end and not known.is_over and output.number >= known.last:
            return None
    return gathered.result()


async def kept_text(live: LiveCluster, id: str, node: int = 0) -> str:
    """All text of a cell that the machine keeps."""
    agent = _agent(live, node)
    known = (await agent.task(id)).last
    gathered = OutputCollation(OutputBudget(None, ""), live.run_id)
    if known:
        async for output in agent.job_output(id):
            gathered.take(output)
            if output.number >= known:
                break
    return gathered.text


async def interrupt_cell(live: LiveCluster, id: str, node: int = 0) -> bool:
    """Interrupt a cell; False where it had ended."""
    return not (await _agent(live, node).cancel_job(id)).is_over
