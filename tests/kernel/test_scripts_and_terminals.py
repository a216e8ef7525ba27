"""The same commands without a notebook: plain IPython, a script, and asyncio."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from homes import machines, market, new_home
from kernels import CPU

SCRIPT = f"""
import nbprov
run = nbprov.provision({CPU!r}, "dev")
assert run.state.value == "planned" and run.plan.chosen is not None
cluster = run.launch().wait(timeout=120)
print(cluster, cluster.cell("6 * 7").value, cluster.bash("echo hi").text.strip())
cluster.down().wait()
print(cluster, [c.name for c in nbprov.clusters()], nbprov.costs()[0].simulated)
"""

ASYNC = f"""
import asyncio, nbprov

async def main():
    ticks = 0
    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.01)
    ticking = asyncio.create_task(tick())
    one, two = (nbprov.provision({CPU!r}, name).launch() for name in ("one", "two"))
    clusters = await asyncio.gather(one, two)
    assert ticks > 10, ticks
    print(*clusters)
    await asyncio.gather(*(c.down() for c in clusters))
    try:
        late = nbprov.provision("resources: {{accelerators: A100, infra: local/north}}", "late")
        await asyncio.wait_for(late.launch(), 0.3)
    except TimeoutError:
        print("timeout", nbprov.session().runs["late"].settled(30).value)
    ticking.cancel()

asyncio.run(main())
"""

ABANDONED = f"""
import nbprov
nbprov.provision({CPU!r}, "left").launch().wait(120)
"""

FORKED = """
import os, nbprov
nbprov.costs()
child = os.fork()
if child == 0:
    assert nbprov.api.current() is None
    os._exit(0 if nbprov.costs() == [] else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print(nbprov.costs())
"""


def run(code: str, home: Path, *command: str) -> str:
    """Run Python code in its own process, and return what it printed."""
    environment = {**os.environ, "NBPROV_HOME": str(home), "TERM": "dumb", "COLUMNS": "120"}
    done = subprocess.run(
        [sys.executable, *(command or ("-c",)), code],
        capture_output=True,
        text=True,
        timeout=180,
        env=environment,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def test_a_script(home) -> None:
    assert run(SCRIPT, home).splitlines() == [
        "<Cluster dev: running> 42 hi",
        "<Cluster dev: ended> [] True",
    ]
    assert machines(home) == 0


def test_asyncio(home) -> None:
    market(home, accept=1.0)
    assert run(ASYNC, home).splitlines() == [
        "<Cluster one: running> <Cluster two: running>",
        "timeout cancelled",
    ]
    assert machines(home) == 0


def test_a_script_that_ends_leaves_its_cluster_to_the_next(home) -> None:
    run(ABANDONED, home)
    assert machines(home) == 1
    told = run(
        "import nbprov; print(nbprov.clusters()[0].name, nbprov.cluster('left').bash('echo "
        "on').text); nbprov.cluster('left').down().wait()",
        home,
    )
    assert told.split() == ["left", "on"]
    assert machines(home) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not fork")
def test_a_forked_child_has_a_session_of_its_own(home) -> None:
    assert run(FORKED, home) == "[]\n"


def test_plain_ipython(home) -> None:
    code = "\n".join(
        [
            "ip = get_ipython()",
            "ip.run_line_magic('load_ext', 'nbprov')",
            "ip.run_cell_magic('provision', 'dev --yes --wait', 'resources: {accelerators: "
            "A100, infra: local}')",
            "ip.run_cell_magic('on', 'dev', 'print(6 * 7)')",
            "ip.run_line_magic('clusters', '')",
            "ip.run_line_magic('nbprov', 'down dev')",
        ]
    )
    told = run(code, home, "-m", "IPython", "--no-banner", "--colors=NoColor", "-c")
    for words in (
        "attempt 1",
        "refused: out of stock",
        "dev is ready",
        "\n42\n",
        "● running",
        "dev: ended, confirmed by the cloud's list",
    ):
        assert words in told
    assert "\x1b" not in told
    assert machines(home) == 0


def test_api_errors_are_short_in_a_script_too() -> None:
    with new_home() as home:
        code = (
            "import nbprov\ntry:\n    nbprov.cluster('x').down()\n"
            "except nbprov.model.errors.NbprovError as error:\n    print(error)"
        )
        assert "no live cluster is called 'x'  [cluster.not-found]" in run(code, home)
