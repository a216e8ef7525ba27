"""Cells that survive their kernel and broken connections: they are found, replayed and
interrupted."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernels import CPU, Kernel, new_kernel

SLOW = """%%on dev
import os, time
print('begun', flush=True)
with open('runs', 'a') as file: file.write('x')
while not os.path.exists('go'): time.sleep(0.02)
print('middle', flush=True)
while not os.path.exists('on'): time.sleep(0.02)
print('the end')
'value'
"""

# Break the engine's connections to its machines, or restore them.
LINE = """
import nbprov
from nbprov.remote.ssh.connection import Connection
_engine = nbprov.session().engine
_open = Connection.open.__func__
_is_down = False
async def _maybe(cls, host, port, *rest):
    return await _open(cls, host, 9 if _is_down else port, *rest)
Connection.open = classmethod(_maybe)
def _cut():
    for live in _engine.live.values():
        for node in live.nodes:
            node.agent.connection.abort()
"""


def machine_home(kernel: Kernel) -> Path:
    """Return the machine's home, which is a folder of this computer."""
    (found,) = (kernel.home / "local" / "i").glob("*/home")
    return found


def begun(kernel: Kernel, code: str = SLOW) -> str:
    request = kernel.send(code)
    kernel.until(lambda: "begun" in kernel.outcome(request).text, "the cell's first line")
    return request


@pytest.mark.parametrize("orderly", [True, False], ids=["restarted", "killed"])
def test_a_cell_goes_on_through_a_restart_of_the_kernel_and_is_replayed(
    home: Path, orderly: bool
) -> None:
    with new_kernel(home) as kernel:
        kernel.run(f"%%provision dev --yes --wait\n{CPU}")
        begun(kernel)
        kernel.restart(orderly=orderly)
        kernel.run("%load_ext nbprov")
        listed = kernel.run("%nbprov cells dev").text.splitlines()
        assert [" running " in line for line in listed] == [False, False, True]
        shown = kernel.run("%nbprov cells dev last").text
        assert shown.startswith("begun\n… it is still running: %nbprov cells dev cell-")
        request = kernel.send("%nbprov cells dev last --follow")
        kernel.until(lambda: "begun" in kernel.outcome(request).text, "the replay")
        (machine_home(kernel) / "go").touch()
        kernel.until(lambda: "middle" in kernel.outcome(request).text, "what came after it")
        kernel.interrupt(request)
        assert (
            kernel.finish(request).error_text
            == "no longer following; the cell on dev keeps running"
        )
        (machine_home(kernel) / "on").touch()
        outcome = kernel.run("%nbprov cells dev last --follow")
        assert outcome.text == "begun\nmiddle\nthe end\n"
        assert outcome.displays[0]["data"]["text/plain"] == "'value'"
        assert (machine_home(kernel) / "runs").read_text() == "x"
        assert " ok " in kernel.run("%nbprov cells dev").text


def test_a_cell_of_another_kernel_can_be_interrupted_saved_and_waited_for(home: Path) -> None:
    with new_kernel(home) as kernel, new_kernel(home) as other:
        kernel.run(f"%%provision dev --yes --wait\n{CPU}")
        request = begun(kernel)
        waiting = other.send("%%on dev\nprint('mine')")
        other.until(
            lambda: (
                "dev is busy with another cell; this one waits" in other.outcome(waiting).stderr
            ),
            "the word that it waits",
        )
        other.interrupt(waiting)
        assert "interrupted on dev" in other.finish(waiting).error_text
        assert "the cell was cancelled" in other.run("%nbprov cells dev last", ok=False).error_text
        running = next(
            line.split()[0]
            for line in other.run("%nbprov cells dev").text.splitlines()
            if " running " in line
        )
        assert (
            other.run(f"%nbprov cells dev {running} --interrupt").text
            == f"{running}: interrupted\n"
        )
        assert "KeyboardInterrupt" in kernel.finish(request).error_text
        other.run(f"%nbprov cells dev {running} --save out.txt")
        saved = home.parent / "out.txt"
        assert saved.read_text() == "begun\n"
        assert (
            "has no cell 'nothing'" in other.run("%nbprov cells dev nothing", ok=False).error_text
        )
        assert "which cell?" in other.run("%nbprov cells dev --follow", ok=False).error_text


def test_two_notebooks_on_one_machine_see_their_own_output_only(home: Path) -> None:
    with new_kernel(home) as one, new_kernel(home) as two:
        one.run(f"%%provision dev --yes --wait\n{CPU}")
        requests = []
        for turn in range(3):
            requests += [
                (
                    kernel,
                    word,
                    turn,
                    kernel.send(f"%%on dev\nfor n in range(20): print('{word}', {turn}, n)"),
                )
                for kernel, word in ((one, "a"), (two, "b"))
            ]
        for kernel, word, turn, request in requests:
            assert kernel.finish(request).text == "".join(f"{word} {turn} {n}\n" for n in range(20))


def test_a_line_that_is_down_is_told_and_an_interrupt_is_delivered_later(home: Path) -> None:
    with new_kernel(home) as kernel:
        kernel.run(f"%%provision dev --yes --wait\n{CPU}")
        kernel.run(LINE)
        down = (
            "import threading\nthreading.Timer({0}, lambda: (globals().update(_is_down=True), "
            "_engine.thread.soon(_cut))).start()"
        )
        kernel.run("%%on dev\nkept = 1")
        kernel.run(down.format(0.5))
        request = begun(kernel)
        kernel.until(
            lambda: (
                "the line to dev is down; the cell goes on there" in kernel.outcome(request).stderr
            ),
            "the word that it is down",
        )
        kernel.interrupt(request)
        assert (
            "the connection to dev is down: the cell there is interrupted when the connection "
            "is back" in kernel.finish(request).error_text
        )
        kernel.run("_is_down = False")
        # The interrupt is delivered without further action; otherwise this would wait forever.
        outcome = kernel.run("%nbprov cells dev last --follow", ok=False)
        assert "KeyboardInterrupt" in outcome.error_text
        assert kernel.run("%%on dev\nprint(kept)").text == "1\n"


def test_a_cell_begun_while_the_line_is_down_runs_once_it_is_back(home: Path) -> None:
    with new_kernel(home) as kernel:
        kernel.run(f"%%provision dev --yes --wait\n{CPU}")
        kernel.run("%%on dev\nran = 0")
        kernel.run(LINE + "\n_is_down = True\n_engine.thread.soon(_cut)")
        kernel.run(
            "import threading\nthreading.Timer(2.5, lambda: "
            "globals().update(_is_down=False)).start()"
        )
        outcome = kernel.run("%%on dev\nran += 1\nprint(ran)")
        assert outcome.text == "1\n"
        assert "the line to dev is down; the cell begins once it is back" in outcome.stderr


def test_another_cluster_of_the_same_name_and_a_kernel_begun_anew_are_loud(home: Path) -> None:
    with new_kernel(home) as kernel, new_kernel(home) as other:
        kernel.run(f"%%provision dev --yes --wait\n{CPU}")
        kernel.run("%%on dev\nx = 1")
        kernel.run("%%on dev\nx")
        other.run(
            "%load_ext nbprov\nimport nbprov\n"
            "nbprov.session().wait_remote('dev', lambda live: live.head.agent.kernels.restart())"
        )
        outcome = kernel.run("%%on dev\nprint('x' in globals())")
        assert outcome.stderr == (
            "nbprov: the kernel on dev was started anew since the last cell; its variables "
            "are gone\n"
        )
        assert outcome.text == "False\n"
        assert kernel.run("%%on dev\n1").stderr == ""
        other.run("%nbprov down dev")
        other.run(f"%%provision dev --yes --wait\n{CPU}")
        told = kernel.run("%%on dev\nopen('touched', 'w')", ok=False).error_text
        assert "dev is now another cluster than the one this notebook used" in told
        assert "[cluster.other]" in told
        assert not (machine_home(kernel) / "touched").exists()
        assert kernel.run("%%on dev\nprint('new')").text == "new\n"
