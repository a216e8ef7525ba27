"""The commands as coroutines, in a plain script with its own event loop."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from homes import machines

SCRIPT = """
import asyncio, json
from nbprov import aio

async def main():
    told = {}
    plan = await aio.plan("resources: {cpus: 2+, infra: local}")
    told["places"] = len(plan.candidates)
    run = await aio.provision("resources: {cpus: 2+, infra: local}", "dev")
    dev = await run.launch()
    told["value"] = (await aio.cell("dev", "x = 41; x + 1")).value
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()
    slow = asyncio.create_task(
        aio.cell(
            "dev",
            "print('on', flush=True)\\nimport time; time.sleep(600)",
            on_output=lambda _: loop.call_soon_threadsafe(begun.set),
        )
    )
    await begun.wait()
    slow.cancel()
    (outcome,) = await asyncio.gather(slow, return_exceptions=True)
    told["cancelled"] = isinstance(outcome, asyncio.CancelledError)
    told["still there"] = (await aio.cell("dev", "x")).value
    told["jobs"] = await aio.jobs("dev")
    try:
        await aio.bash("dev", "exit 3")
    except Exception as error:
        told["error"] = error.code
    await dev.down()
    told["clusters"] = await aio.clusters()
    print("TOLD", json.dumps(told))

asyncio.run(main())
"""


def test_every_verb_can_be_awaited_and_a_cancelled_cell_is_interrupted(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "NBPROV_HOME": str(home)},
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.partition("TOLD ")[2])
    assert told.pop("places") > 0
    assert told == {
        "value": "42",
        "cancelled": True,
        "still there": "41",
        "jobs": [],
        "error": "remote.exit-code",
        "clusters": [],
    }
    assert machines(home) == 0
