"""A kernel ends during a launch: the next `%load_ext` reports what it found and what became of
it."""

from __future__ import annotations

import pytest
from homes import machines, market
from kernels import CPU, Kernel

NORTH = "resources: {accelerators: A100, infra: local/north}"


def launched(kernel: Kernel, state: str) -> None:
    """Wait until an attempt of the first panel has reached a state."""
    kernel.until(
        lambda: any(
            a["state"] == state for a in kernel.state(kernel.panels()[0]).get("attempts", [])
        ),
        f"an attempt that is {state}",
    )


@pytest.mark.versions
@pytest.mark.parametrize("orderly", [True, False], ids=["restarted", "killed"])
def test_a_launch_of_a_kernel_that_ended_is_adopted(home, kernel: Kernel, orderly: bool) -> None:
    market(home, accept=1.5)
    kernel.run(f"%%provision dev --yes\n{NORTH}")
    launched(kernel, "sent")
    kernel.restart(orderly=orderly)
    shown = kernel.run("%load_ext nbprov").displays
    assert len(shown) == 1
    assert (
        shown[0]["data"]["text/plain"] == "nbprov: checking what an earlier kernel left running …"
    )
    if not orderly:
        kernel.renewed(shown[0], "its kernel is silent; taken over in")
    told = kernel.renewed(shown[0], "adopted")
    assert told.startswith("nbprov: dev: adopted, it runs in local/north")
    assert "%%on dev uses it" in told
    assert machines(home) == 1
    assert kernel.run("%%on dev --bash\necho it is mine").text == "it is mine\n"
    assert "it cost $" in kernel.run("%nbprov down dev").text
    assert machines(home) == 0


def test_a_launch_that_was_being_cancelled_is_ended(home, kernel: Kernel) -> None:
    market(home, accept=1.5)
    kernel.run(f"%%provision dev --yes\n{NORTH}")
    launched(kernel, "sent")
    kernel.run("dev.cancel()")
    kernel.until(
        lambda: kernel.state(kernel.panels()[0])["state"] == "cancelling", "the cancellation"
    )
    kernel.restart(orderly=True)
    shown = kernel.run("%load_ext nbprov").displays
    assert "nothing is left on the bill" in kernel.renewed(shown[0], "nothing is left on the bill")
    assert machines(home) == 0


HANGS = """
import asyncio, nbprov
from nbprov.machines.jobs.monitor import JobMonitor
async def hangs(self, row):
    open(f"{row.name}-hangs", "w").close()
    await asyncio.sleep(3600)
JobMonitor.archive_before_end = hangs
"""


def test_what_was_to_end_or_to_stop_when_the_kernel_was_killed_does_so_in_the_next(
    home, kernel: Kernel
) -> None:
    for name in ("dev", "kept"):
        kernel.run(
            f"%%provision {name} --yes --wait\n{CPU}\noutputs: [results]"
            if name == "kept"
            else f"%%provision {name} --yes --wait\n{CPU}"
        )
    kernel.run("%%on kept --bash\nmkdir results; echo 1 >results/a.txt")
    # Killed during the seconds in which the logs of jobs are copied.
    kernel.run(HANGS)
    kernel.run("ending, stopping = nbprov.cluster('dev').down(), nbprov.cluster('kept').stop()")
    kernel.run(f"%%provision bad --yes --on-setup-failure down\n{CPU}\nsetup: exit 3")
    waiting = ["bad-hangs", "dev-hangs", "kept-hangs"]
    kernel.until(
        lambda: kernel.value("sorted(__import__('glob').glob('*-hangs'))") == waiting,
        "all wait for logs",
    )
    kernel.restart()
    shown = kernel.run("%load_ext nbprov").displays
    told = kernel.renewed(shown[0], "was to be stopped when its kernel stopped")
    assert "was to be ended when its kernel stopped" in told
    kernel.run("import nbprov")
    states = "sorted((c.name, c.state.value, c.reason) for c in nbprov.clusters(ended=True))"
    wanted = [
        ["bad", "ended", "it could not be set up"],
        ["dev", "ended", "you ended it"],
        ["kept", "stopped", "you stopped it"],
    ]
    kernel.until(lambda: kernel.value(states) == wanted, "what was asked for")
    assert kernel.value("open('kept-outputs/results/a.txt').read()") == "1\n"


def test_once_all_is_ended_a_load_shows_nothing_and_starts_no_engine(home, kernel: Kernel) -> None:
    kernel.run(f"%%provision dev --yes --wait\n{CPU}\n")
    kernel.run("%nbprov down dev")
    kernel.restart(orderly=True)
    outcome = kernel.run("%load_ext nbprov")
    assert (outcome.displays, outcome.text, outcome.stderr) == ([], "", "")
    # The thread that imports the panels ends by itself; an engine's does not.
    names = "[t.name for t in __import__('threading').enumerate() if 'nbprov' in t.name]"
    assert {*kernel.value(names)} <= {"nbprov-panels"}
    # Its cost is still known.
    assert "dev" in kernel.run("%nbprov costs").text
