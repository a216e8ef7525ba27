"""What the agent does with the output of kernels."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from nbprov.on_machine.agent.agent import Agent
from nbprov.on_machine.agent.framing import pack
from nbprov.on_machine.agent.kernels.output import LATE_BYTES
from nbprov.on_machine.agent.kernels.output_limits import in_lists, json_size, limited
from nbprov.on_machine.agent.tasks.journal import Cursor


async def test_output_between_two_cells_is_bounded(tmp_path: Path) -> None:
    kernel = Agent(tmp_path, 0o022).kernels.get("main")
    for _ in range(100):
        kernel.receive(
            {"ev": "out", "type": "stream", "content": {"name": "stdout", "text": "x" * 1_000_000}}
        )
    assert json_size(kernel.output.late) <= LATE_BYTES
    assert kernel.output.late
    assert kernel.output.late_bytes > 100_000_000


async def test_output_between_two_cells_is_for_the_next_one_that_somebody_sees(
    tmp_path: Path,
) -> None:
    agent = Agent(tmp_path, 0o022)
    kernel = agent.kernels.get("main")
    kernel.host = SimpleNamespace(stdin=io.BytesIO())  # type: ignore[assignment]
    kernel.receive(
        {"ev": "out", "type": "stream", "content": {"name": "stdout", "text": "of a thread"}}
    )
    outputs = []
    for number, is_own in enumerate((True, False)):
        task = agent.tasks.create({"task": f"cell-{number}", "kind": "cell", "silent": is_own}, {})
        kernel.output.current = task
        running = asyncio.ensure_future(kernel.run(task, {"code": "", "silent": is_own}))
        await asyncio.sleep(0)
        task.end("ok")
        await running
        outputs.append(
            [
                entry["content"]["text"]
                for entry in Cursor(task.journal, 0).read()
                if entry["k"] == "stream"
            ]
        )
    assert outputs == [[], ["of a thread"]]


@pytest.mark.parametrize("levels", [10, 300, 450, 600, 750, 900, 985])
async def test_an_output_nested_beyond_measure_ends_neither_the_kernel_nor_who_listens_to_it(
    tmp_path: Path, levels: int
) -> None:
    agent = Agent(tmp_path, 0o022)
    agent.secrets.add(["canary"])
    kernel = agent.kernels.get("main")
    kernel.output.current = agent.tasks.create({"task": "cell", "kind": "cell"}, {})
    for kind, content in limited(
        "display_data", {"data": {"application/json": in_lists("canary", levels)}, "metadata": {}}
    ):
        frame = json.loads(pack({"ev": "out", "type": kind, "content": content})[4:])
        kernel.receive(frame)
    kernel.receive({"ev": "done", "cell": "cell", "status": "ok"})
    entries = Cursor(kernel.current.journal, 0).read()
    assert [entry["k"] for entry in entries[1:]] == ["end"]
    assert "canary" not in json.dumps(entries)
    assert ("***" in json.dumps(entries)) or "nested too deeply" in json.dumps(entries)
