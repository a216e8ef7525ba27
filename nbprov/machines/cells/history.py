"""Find, replay and interrupt cells of a machine, whichever kernel started them."""

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
    """Return the cells and scripts that people ran on a node, oldest first.

    The machine keeps the last few hundred.
    """
    tasks = await _agent(live, node).tasks()
    return [
        task
        for task in tasks
        if task.kind in ("cell", "shell")
        and not task.id.startswith(OWN_PREFIX)
        and task.name != TOUCH
    ]


async def find_cell(live: LiveCluster, wanted: str, node: int = 0) -> TaskInfo:
    """Return a cell by its id, the start of one, or `last`.

    Raises
    ------
    NotFound
        If there is none, or several ids start so.
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
    """Pass on all output of a cell from its start; cancelling this does not touch the cell.

    Parameters
    ----------
    to_the_end
        Whether to wait for the cell's end; if not, stop at the output so far, and return None if
        the cell still runs.

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


async def kept_text(live: LiveCluster, id: str, node: int = 0) -> tuple[str, bool]:
    """Return all text of a cell that the machine keeps, with a line for what it dropped.

    The second value tells whether something is missing.
    """
    agent = _agent(live, node)
    known = (await agent.task(id)).last
    gathered = OutputCollation(OutputBudget(None, ""), live.run_id, is_log=True)
    if known:
        async for output in agent.job_output(id):
            gathered.take(output)
            if output.number >= known:
                break
    return gathered.text, gathered.has_gap


async def interrupt_cell(live: LiveCluster, id: str, node: int = 0) -> bool:
    """Interrupt a cell; return False if it had ended."""
    return not (await _agent(live, node).cancel_job(id)).is_over
