"""Which ended tasks the agent keeps."""

from __future__ import annotations

from pathlib import Path

from nbprov.on_machine.agent.agent import Agent
from nbprov.on_machine.agent.tasks.store import KEPT_OWN


async def test_ended_cells_of_our_own_go_before_those_of_people(tmp_path: Path) -> None:
    agent = Agent(tmp_path, 0o022)
    for number in range(3 * KEPT_OWN):
        task = agent.tasks.create({"task": f"own-{number}", "kind": "cell", "silent": True}, {})
        task.begin()
        task.end("ok")
        if number % KEPT_OWN == 0:
            task = agent.tasks.create({"task": f"cell-{number}", "kind": "cell"}, {})
            task.begin()
            task.end("ok")
    agent.tasks.prune()
    assert [name for name in [one.id for one in agent.tasks.all()] if name.startswith("cell-")] == [
        "cell-0",
        f"cell-{KEPT_OWN}",
        f"cell-{2 * KEPT_OWN}",
    ]
    assert [name for name in [one.id for one in agent.tasks.all()] if name.startswith("own-")] == [
        f"own-{n}" for n in range(2 * KEPT_OWN, 3 * KEPT_OWN)
    ]
