"""A round trip of a cell and of a script, against a bare command over an ssh connection that is open, turn by turn in one run."""

from __future__ import annotations

from figures import Figure, Setting, figure
from local_cloud import local_cloud, market

TAKES = 200
WARM_UP = 10
TARGET = 3.0
"""Times as long as `echo` over the open connection."""

_CODE = """
import asyncio, json, sys, time

import nbprov
from nbprov.machines.cells import bash_cell, python_cell

takes, warm_up = map(int, sys.argv[1:])
run = nbprov.provision("resources: {accelerators: A100, infra: local}", "bench")
run.launch()
cluster = run.wait()
here = nbprov.session()

async def bare(live):
    # The connection itself, with nothing of ours around it.
    done = await live.head.agent.connection._ssh.run("echo 1", check=True)
    assert done.stdout == "1\\n"

async def python(live):
    await python_cell(live, "x = 1")

async def bash(live):
    await bash_cell(live, "echo 1")

def timed(work):
    start = time.perf_counter()
    here.start_remote("bench", work).result()
    return time.perf_counter() - start

found = {"bare": [], "python": [], "bash": []}
for turn in range(-warm_up, takes):
    for name, work in (("bare", bare), ("python", python), ("bash", bash)):
        seconds = timed(work)
        if turn >= 0:
            found[name].append(seconds)
cluster.down().wait()
print(json.dumps(found))
"""


def measure(setting: Setting) -> list[Figure]:
    """Times as long as the bare command, turn by turn, and milliseconds of each."""
    with local_cloud(setting.home, market(1, refuses=False)):
        found: dict[str, list[float]] = setting.child(_CODE, str(setting.takes(TAKES)), str(WARM_UP))
    words = {"python": "a cell's round trip", "bash": "a script's round trip"}
    figures = [
        figure(
            f"{what}, against `echo` over an open ssh connection",
            "times",
            [a / b for a, b in zip(found[name], found["bare"], strict=True)],
            TARGET,
        )
        for name, what in words.items()
    ]
    words["bare"] = "`echo` over an open ssh connection"
    return figures + [figure(what, "ms", [seconds * 1000 for seconds in found[name]]) for name, what in words.items()]
