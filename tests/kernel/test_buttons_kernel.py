"""The buttons of the panels, pressed by the messages that a browser sends."""

from __future__ import annotations

import pytest
from homes import DEADLINE, machines, market
from kernels import CPU, GPU, Kernel

BURST = """
import time
_panel = [r for r in __import__('gc').get_objects() if type(r).__name__ == 'RunPanel'][0]
_engine = nbprov.session().engine
_sent = time.monotonic()
for n in range(10_000):
    dev._progress.report(f"step {n}")
print(time.monotonic() - _sent)
"""


def reaches(kernel: Kernel, panel: str, state: str) -> dict:
    """Wait until a panel shows a state."""
    return kernel.until(
        lambda: kernel.state(panel) if kernel.state(panel).get("state") == state else None,
        f"a panel that shows {state}",
    )


@pytest.mark.versions
def test_launch_and_down(home, kernel: Kernel) -> None:
    kernel.run(f"%%provision dev\n{GPU}")
    (panel,) = kernel.panels()
    assert kernel.state(panel)["needs_launch"]
    assert machines(home) == 0
    kernel.press(panel, type="launch")
    shown = reaches(kernel, panel, "ready")
    assert [a["state"] for a in shown["attempts"]] == ["refused", "refused", "ready"]
    assert machines(home) == 1
    # Pressing it again does nothing.
    kernel.press(panel, type="launch")
    assert kernel.value("dev.wait().name") == "dev"
    kernel.press(panel, type="down", name="dev")
    kernel.until(lambda: machines(home) == 0, "the end of the machine")


@pytest.mark.versions
def test_a_press_while_a_cell_is_busy_is_handled(home, kernel: Kernel) -> None:
    kernel.run(f"%%provision dev\n{CPU}")
    (panel,) = kernel.panels()
    is_late = kernel.value("__import__('ipykernel').version_info[0]") == 6
    # Pressed through the subshell that a browser uses, if the kernel has subshells.
    subshell = None if is_late else kernel.subshell()
    busy = kernel.send(
        f"import time\nprint('busy')\nend = time.monotonic() + {3 if is_late else DEADLINE}\n"
        "while time.monotonic() < end and not dev.launched: time.sleep(0.05)\nprint(dev.launched)"
    )
    kernel.until(lambda: "busy" in kernel.outcome(busy).text, "a busy cell")
    kernel.press(panel, subshell=subshell, type="launch")
    assert kernel.finish(busy).text == f"busy\n{not is_late}\n"
    reaches(kernel, panel, "ready")


def test_cancel(home, kernel: Kernel) -> None:
    market(home, accept=1.0)
    kernel.run("%%provision dev\nresources: {accelerators: A100, infra: local/north}")
    (panel,) = kernel.panels()
    kernel.press(panel, type="launch")
    reaches(kernel, panel, "launching")
    kernel.press(panel, type="cancel")
    shown = reaches(kernel, panel, "cancelled")
    assert shown["summary"][-1] == "nothing of this launch is billed"
    assert machines(home) == 0
    assert "dev: cancelled" in kernel.run("dev.wait()", ok=False).error_text


def test_cancel_before_launch(kernel: Kernel) -> None:
    kernel.run(f"%%provision dev\n{CPU}")
    (panel,) = kernel.panels()
    kernel.press(panel, type="cancel")
    reaches(kernel, panel, "cancelled")
    kernel.press(panel, type="launch")
    assert kernel.run("%nbprov costs").text == "nothing has been launched yet\n"


def test_clusters_table(home, kernel: Kernel) -> None:
    kernel.run(f"%%provision dev --yes --wait\n{CPU}")
    kernel.run("%clusters")
    table = kernel.panels()[1]

    def shows(state: str) -> None:
        kernel.until(
            lambda: [c["state"] for c in kernel.state(table)["clusters"]] == [state],
            f"a table that shows {state}",
        )

    shows("running")
    kernel.press(table, type="stop", name="dev")
    shows("stopped")
    kernel.press(table, type="start", name="dev")
    shows("running")
    kernel.press(table, type="down", name="dev")
    shows("ended")
    assert machines(home) == 0


def test_what_a_button_could_not_do_is_said_in_the_panel(kernel: Kernel) -> None:
    def notices() -> list[str]:
        return [
            str(m["content"]["data"]["content"]["text"])
            for m in kernel.messages
            if m["msg_type"] == "comm_msg"
            and m["content"]["data"].get("content", {}).get("type") == "notice"
        ]

    kernel.run(
        "%%provision dev --yes --wait\n"
        "resources: {accelerators: A100, infra: local/north, use_spot: true}"
    )
    kernel.run("%clusters")
    table = kernel.panels()[1]
    kernel.press(table, type="stop", name="nosuch")
    kernel.until(
        lambda: any("no live cluster is called 'nosuch'" in text for text in notices()),
        "a notice of what does not exist",
    )
    kernel.press(table, type="stop", name="dev")
    kernel.until(
        lambda: any("dev is spot" in text for text in notices()), "a notice of what came out later"
    )


@pytest.mark.versions
def test_a_burst_of_changes_is_a_few_messages_and_ends_on_the_last(kernel: Kernel) -> None:
    kernel.run("import nbprov")
    kernel.run(f"%%provision dev --yes --wait\n{CPU}")
    (panel,) = kernel.panels()
    kernel.messages.clear()
    seconds = float(kernel.run(BURST).text)
    kernel.until(
        lambda: kernel.state(panel).get("message") == "step 9999", "the last of all changes"
    )
    sent = [
        m
        for m in kernel.messages
        if m["msg_type"] == "comm_msg" and m["content"]["comm_id"] == panel
    ]
    assert len(sent) < 30 * max(1.0, seconds + 1.0)
