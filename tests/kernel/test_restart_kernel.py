"""A kernel ends in the middle of a launch: the next `%load_ext` says in one display what it found, then what became of it."""

from __future__ import annotations

import pytest
from kernels import CPU, Kernel, machines, market

NORTH = "resources: {accelerators: A100, infra: local/north}"


def launched(kernel: Kernel, state: str) -> None:
    """Wait until an attempt of the first panel has come so far."""
    kernel.until(
        lambda: any(a["state"] == state for a in kernel.state(kernel.panels()[0]).get("attempts", [])), f"an attempt that is {state}"
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
    assert shown[0]["data"]["text/plain"] == "nbprov: looking at what an earlier kernel left …"
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
    kernel.until(lambda: kernel.state(kernel.panels()[0])["state"] == "cancelling", "the cancellation")
    kernel.restart(orderly=True)
    shown = kernel.run("%load_ext nbprov").displays
    assert "nothing is left on the bill" in kernel.renewed(shown[0], "nothing is left on the bill")
    assert machines(home) == 0


def test_once_all_is_ended_a_load_shows_nothing_and_starts_no_engine(home, kernel: Kernel) -> None:
    kernel.run(f"%%provision dev --yes --wait\n{CPU}\n")
    kernel.run("%nbprov down dev")
    kernel.restart(orderly=True)
    outcome = kernel.run("%load_ext nbprov")
    assert (outcome.displays, outcome.text, outcome.stderr) == ([], "", "")
    assert kernel.value("[t.name for t in __import__('threading').enumerate() if 'nbprov' in t.name]") == []
    # What it cost is still known.
    assert "dev" in kernel.run("%nbprov costs").text
