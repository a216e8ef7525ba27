"""The stop button: a waiting cell ends at once, and its line is updated when the end is
confirmed."""

from __future__ import annotations

import time

import pytest
from homes import machines, market
from kernels import GPU, Kernel

SLOW = 5.0
PROMPTLY = 4.5
"""Seconds. It takes a tenth of one on an idle machine; the wait must not go on until the launch
ends by itself."""
NORTH = "resources: {accelerators: A100, infra: local/north}"


@pytest.fixture
def slow(home) -> None:
    """Return a cloud that takes much longer to decide than an interrupt takes."""
    market(home, accept=SLOW)


def asked(kernel: Kernel) -> None:
    """Wait until the cloud was asked for a machine."""
    kernel.until(
        lambda: any(
            a["state"] == "sent"
            for c in kernel.panels()
            for a in kernel.state(c).get("attempts", [])
        ),
        "a create that was sent",
    )


def begin(kernel: Kernel, wait: str) -> str:
    """Begin a cell that waits, and check that it waits."""
    if not wait.startswith("await"):
        return kernel.send_waiting(wait)
    # The kernel cancels an awaiting cell from its first line on.
    request = kernel.send(f"print('begun')\n{wait}")
    kernel.until(lambda: "begun" in kernel.outcome(request).text, "the cell's first line")
    return request


def stopped(kernel: Kernel, request: str):
    """Press stop, and return the cell's outcome."""
    pressed = kernel.interrupt(request)
    outcome = kernel.finish(request)
    assert time.monotonic() - pressed < PROMPTLY
    return outcome


@pytest.mark.versions
def test_interrupt_of_a_waiting_cell(home, slow: None, kernel: Kernel) -> None:
    request = kernel.send(f"%%provision dev --wait --yes\n{NORTH}")
    asked(kernel)
    outcome = stopped(kernel, request)
    assert outcome.error_text == "interrupted: dev is being cancelled"
    line = outcome.displays[-1]
    assert line["data"]["text/plain"] == "dev: cancelled; 1 attempt being ended and confirmed"
    renewed = kernel.renewed(line, "confirmed gone")
    assert renewed.startswith("dev: cancelled; all its machines are confirmed gone; it cost $")
    assert "<div" in kernel.shown(line["transient"]["display_id"])[-1]["data"]["text/html"]
    assert machines(home) == 0
    market(home)
    # The engine still works and the name is free.
    assert "cancelled" in kernel.run("%nbprov costs").text
    kernel.run(f"%%provision dev --yes --wait\n{NORTH}")
    assert kernel.value("dev.wait().state.value") == "running"
    kernel.run("%nbprov down dev")


@pytest.mark.parametrize("wait", ["await dev", "dev.wait()"])
def test_interrupt_of_a_wait_in_a_later_cell(home, slow: None, kernel: Kernel, wait: str) -> None:
    kernel.run(f"%%provision dev --yes\n{NORTH}")
    asked(kernel)
    outcome = stopped(kernel, begin(kernel, wait))
    assert outcome.error_text == "dev: cancelled; 1 attempt being ended and confirmed"
    assert kernel.run("dev.settled().value").values == ["'cancelled'"]
    assert "nothing is left on the bill" in kernel.run("await dev", ok=False).error_text
    assert machines(home) == 0


@pytest.mark.parametrize("wait", ["await dev", "dev.wait()"])
def test_detached_runs_go_on(home, kernel: Kernel, wait: str) -> None:
    market(home, accept=1.0)
    kernel.run(f"%%provision dev --yes --on-interrupt detach\n{NORTH}")
    asked(kernel)
    outcome = stopped(kernel, begin(kernel, wait))
    assert (
        outcome.error_text
        == "dev: the launch goes on in the background; %nbprov down dev ends it, %clusters shows it"
    )
    assert kernel.value("dev.wait().state.value") == "running"
    assert machines(home) == 1


def test_down_of_a_launch_that_is_under_way(home, slow: None, kernel: Kernel) -> None:
    kernel.run(f"%%provision dev --yes --on-interrupt detach\n{NORTH}")
    asked(kernel)
    request = kernel.send("%nbprov down dev")
    kernel.until(
        lambda: kernel.state(kernel.panels()[0])["state"] == "cancelling", "the cancellation"
    )
    assert "dev: ended, confirmed by the cloud's list" in kernel.finish(request).text
    assert machines(home) == 0


def test_interrupt_before_launch_creates_nothing(home, kernel: Kernel) -> None:
    request = kernel.send(f"%%provision dev --wait\n{GPU}")
    kernel.until(kernel.panels, "the panel")
    outcome = stopped(kernel, request)
    assert outcome.error_text == "dev: interrupted before Launch; nothing was created"
    assert kernel.value("dev.state.value") == "cancelled"
    assert "nothing has been launched yet" in kernel.run("%nbprov costs").text


def test_interrupt_of_a_cell_that_waits_for_a_launch_leaves_the_launch_alone(
    home, slow: None, kernel: Kernel
) -> None:
    kernel.run(f"%%provision dev --yes\n{NORTH}")
    asked(kernel)
    outcome = stopped(kernel, kernel.send_waiting("%%on dev\n1"))
    assert "the launch goes on in the background" in outcome.error_text
    assert kernel.value("dev.state.value") == "launching"
    kernel.run("dev.cancel()")
    kernel.run("dev.settled()")
    assert machines(home) == 0


def test_interrupt_of_down_says_that_it_goes_on(home, kernel: Kernel) -> None:
    kernel.run(f"%%provision dev --yes --wait\n{NORTH}")
    market(home, end=SLOW)
    outcome = stopped(kernel, kernel.send_waiting("%nbprov down dev"))
    assert (
        outcome.error_text == "ending dev goes on in the background; %clusters shows the progress"
    )
    kernel.until(lambda: machines(home) == 0, "the end of the machine")
