"""A round trip of a cell and of a script, and a whole `%%on` cell in a kernel, against a bare
command over an ssh connection that is open, in turns.
"""

from __future__ import annotations

import json

from figures import Figure, Setting, figure
from kernels import fresh_kernel
from local_cloud import local_cloud, market

TAKES = 200
WARM_UP = 10
TARGET = 3.0
"""Times as long as `echo` over the open connection."""

_CODE = """
import asyncio, json, sys, time

import nbprov
from nbprov.machines.cells.cells import bash_cell, python_cell

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

_KERNEL = """
import time as _time
import nbprov as _nbprov
_run = _nbprov.provision("resources: {accelerators: A100, infra: local}", "bench")
_run.launch()
_cluster = _run.wait()

async def _echo(live):
    done = await live.head.agent.connection._ssh.run("echo 1", check=True)
    assert done.stdout == "1\\n"

def _timed(act):
    start = _time.perf_counter()
    act()
    return _time.perf_counter() - start

def _bare():
    _nbprov.session().start_remote("bench", _echo).result()

def _whole():
    # The clock runs in the kernel: what a front end would see besides is IPython's own way to a kernel and back.
    get_ipython().run_cell("%%on bench\\nx = 1").raise_error()

_found = {"bare": [], "whole": []}
"""
# As many cells as turns: each has a time of its own in which it must answer.
_TURN = """
for _name, _act in (("bare", _bare), ("whole", _whole)):
    _found[_name].append(_timed(_act))
"""
_END = """
_cluster.down().wait()
import json as _json
print(_json.dumps(_found))
"""


def measure(setting: Setting) -> list[Figure]:
    """Times as long as the bare command, turn by turn, and milliseconds of each."""
    with local_cloud(setting.home, market(1, refuses=False)):
        found: dict[str, list[float]] = setting.child(
            _CODE, str(setting.takes(TAKES)), str(WARM_UP)
        )
        whole = _in_kernel(setting)
    words = {"python": "a cell's round trip", "bash": "a script's round trip"}
    figures = [_against(what, found[name], found["bare"]) for name, what in words.items()]
    figures.append(_against("a whole `%%on` cell in a kernel", whole["whole"], whole["bare"]))
    words["bare"] = "`echo` over an open ssh connection"
    figures += [
        figure(what, "ms", [seconds * 1000 for seconds in found[name]])
        for name, what in words.items()
    ]
    return [
        *figures,
        figure(
            "a whole `%%on` cell in a kernel", "ms", [seconds * 1000 for seconds in whole["whole"]]
        ),
    ]


def _against(what: str, takes: list[float], bare: list[float]) -> Figure:
    ratios = [mine / echo for mine, echo in zip(takes, bare, strict=True)]
    return figure(f"{what}, against `echo` over an open ssh connection", "times", ratios, TARGET)


def _in_kernel(setting: Setting) -> dict[str, list[float]]:
    with fresh_kernel(setting.home) as kernel:
        kernel.run("%load_ext nbprov")
        kernel.run(_KERNEL)
        for _ in range(WARM_UP + setting.takes(TAKES)):
            kernel.run(_TURN)
        found: dict[str, list[float]] = json.loads(kernel.run(_END).text.splitlines()[-1])
    return {name: takes[WARM_UP:] for name, takes in found.items()}
