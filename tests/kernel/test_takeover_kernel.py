"""Names whose launch another kernel began, clusters that were never set up, and handles of ended
ones."""

from __future__ import annotations

import pytest
from homes import machines, market
from kernels import CPU, Kernel, new_kernel

NORTH = "resources: {accelerators: A100, infra: local/north}"


def launched(kernel: Kernel, state: str) -> None:
    """Wait until an attempt of the first panel has reached a state."""
    kernel.until(
        lambda: any(
            a["state"] == state for a in kernel.state(kernel.panels()[0]).get("attempts", [])
        ),
        f"an attempt that is {state}",
    )


@pytest.fixture
def adopting(home, kernel: Kernel) -> Kernel:
    """Return a kernel that adopts the launch of the one before it, which the cloud is slow to
    decide."""
    market(home, accept=5.0)
    kernel.run(f"%%provision dev --yes\n{NORTH}")
    launched(kernel, "sent")
    kernel.restart(orderly=True)
    kernel.run("%load_ext nbprov")
    kernel.until(
        lambda: kernel.value("len(__import__('nbprov').session().engine.drivers)"),
        "the launch is taken up",
    )
    return kernel


def test_down_of_a_launch_that_is_being_adopted_ends_it(home, adopting: Kernel) -> None:
    assert "dev: ended, confirmed by the cloud's list" in adopting.run("%nbprov down dev").text
    assert machines(home) == 0
    assert (
        "no live cluster is called 'dev'" in adopting.run("%nbprov down dev", ok=False).error_text
    )


def test_a_remote_cell_waits_for_the_adoption(home, adopting: Kernel) -> None:
    told = adopting.run("%%on dev --bash\necho it is mine").text
    assert told.splitlines() == ["dev is being adopted; waiting for it …", "it is mine"]
    assert machines(home) == 1


def test_the_same_cell_waits_for_the_adoption(home, adopting: Kernel) -> None:
    told = adopting.run(f"%%provision dev --yes\n{NORTH}").text
    assert "dev is being adopted; waiting for it …" in told
    assert "dev is running and fits: nothing was launched" in told
    assert machines(home) == 1


def test_an_interrupt_of_that_wait_leaves_the_adoption_alone(home, adopting: Kernel) -> None:
    request = adopting.send_waiting("%%on dev\n1")
    adopting.interrupt(request)
    assert (
        adopting.finish(request).error_text
        == "dev: its launch goes on; %nbprov down dev ends it, %clusters shows it"
    )
    adopting.run("%%on dev\n1")
    assert machines(home) == 1


def test_a_launch_of_a_killed_kernel_that_nobody_greets_is_taken_up_for_its_end(
    home, kernel: Kernel
) -> None:
    market(home, accept=2.5)
    kernel.run(f"%%provision dev --yes\n{NORTH}")
    launched(kernel, "sent")
    kernel.restart()
    # Without %load_ext nothing checks what is left, so the lease of the dead kernel has to expire.
    told = kernel.run(
        "import nbprov\nd = nbprov.session().down('dev')\nprint(d.note)\nd.wait()"
    ).text
    assert told.startswith("dev is being launched by another kernel, which is asked to end it")
    assert machines(home) == 0


def test_a_launch_in_another_notebook_is_said_to_be_there_and_can_be_ended(
    home, kernel: Kernel
) -> None:
    market(home, accept=6.0)
    with new_kernel(home) as other:
        other.run(f"%%provision dev --yes\n{NORTH}")
        launched(other, "sent")
        for cell in (f"%%provision dev --yes\n{NORTH}", "%%on dev\n1"):
            told = kernel.run(cell, ok=False).error_text
            assert told.startswith(
                "dev is being launched by another notebook  [cluster.launch-under-way]"
            )
            assert "%nbprov down dev" in told
        assert "dev: ended, confirmed by the cloud's list" in kernel.run("%nbprov down dev").text
        assert machines(home) == 0


def test_what_was_never_set_up_is_set_up_when_the_cell_is_run_again(home, kernel: Kernel) -> None:
    cell = f"%%provision dev --yes --wait\n{NORTH}\nsetup: echo done >> marker\nrun: echo ran"
    market(home, accept=1.5)
    kernel.run(cell.replace(" --wait", ""))
    launched(kernel, "sent")
    kernel.restart(orderly=True)
    kernel.run("%load_ext nbprov")
    again = kernel.run(cell)
    assert "nothing was launched" not in again.text
    line = next(d for d in again.displays if "never set up" in d["data"]["text/plain"])
    assert kernel.renewed(line, "is set up") == "dev is set up: %%on dev runs cells on it"
    assert kernel.run("%%on dev --bash\ncat marker").text == "done\n"
    assert "nothing was launched" in kernel.run(cell).text
    assert kernel.run("%%on dev --bash\ncat marker").text == "done\n"


def test_guards_of_the_cell_are_those_of_the_running_cluster(kernel: Kernel) -> None:
    kernel.run(f"%%provision dev --yes --wait\n{CPU}\nsetup: 'true'")
    told = kernel.run(
        "%%provision dev\nresources: {cpus: 2, infra: local, autostop: 30m}\nsetup: 'false'"
    ).text
    assert "guards of dev changed: stop after 30 min idle; before: down after 1 h idle" in told
    assert "setup and run are not run again on a running cluster" in told
    assert "idle: stop in" in kernel.run("%nbprov autostop dev").text
    kernel.run("import nbprov")
    assert kernel.value("nbprov.cluster('dev').view().guards.words()") == "stop after 30 min idle"
    # A cell without guards changes none.
    assert "guards" not in kernel.run(f"%%provision dev\n{CPU}").text
    assert kernel.value("nbprov.cluster('dev').view().guards.words()") == "stop after 30 min idle"


def test_neither_a_handle_nor_a_panel_of_what_has_ended_ends_what_came_after(
    home, kernel: Kernel
) -> None:
    def notices() -> list[str]:
        return [
            str(m["content"]["data"]["content"]["text"])
            for m in kernel.messages
            if m["msg_type"] == "comm_msg"
            and m["content"]["data"].get("content", {}).get("type") == "notice"
        ]

    kernel.run(f"%%provision dev --yes --wait\n{CPU}")
    kernel.run("old_run, old = dev, dev.wait()\n%nbprov down dev")
    old_panel = kernel.panels()[0]
    kernel.run(f"%%provision dev --yes --wait\n{CPU}")
    for verb in ("old.down()", "old.stop()", "old_run.down()", "old.cell('1')", "old.state"):
        told = kernel.run(verb, ok=False).error_text
        assert told.startswith(
            "this dev has ended; another cluster has its name now  [cluster.other]"
        ), verb
    kernel.press(old_panel, type="down", name="dev")
    kernel.until(
        lambda: any("another cluster has its name" in text for text in notices()),
        "a notice of what it is not",
    )
    assert machines(home) == 1
    assert kernel.value("dev.wait().state.value") == "running"


def test_a_name_that_is_still_ending_is_waited_for(home, kernel: Kernel) -> None:
    kernel.run(f"%%provision dev --yes --wait\n{CPU}")
    market(home, end=3.0)
    # Until its end has begun the next cell would take it back.
    kernel.run(
        "import nbprov, time\nending = dev.wait().down()\n"
        "while nbprov.clusters()[0].state.value == 'running':\n    time.sleep(0.01)"
    )
    told = kernel.run(f"%%provision dev --yes --wait\n{CPU}").text
    assert "dev is being ended; waiting until that is confirmed …" in told
    assert kernel.value("[ending.done, dev.wait().state.value]") == [True, "running"]


def test_what_is_blocked_is_said_to_be_blocked(home, kernel: Kernel) -> None:
    market(home, '[[stock]]\ntype = "sim-cpu-2"\nleft = 0\n')
    kernel.run(f"%%provision dev --yes --wait\n{CPU}", ok=False)
    told = kernel.run(f"%%provision dev --yes --wait\n{CPU}", ok=False).error_text
    assert "all that fits is blocked for now" in told
    assert "open again in" in told
    assert "%nbprov blocks" in told
    assert "nothing on sale" not in told
