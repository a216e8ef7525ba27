"""The buttons of a launch's panel that a later kernel has taken over."""

from __future__ import annotations

from typing import Any

from homes import machines, market
from kernels import Kernel
from test_panel_subjects_kernel import answers, form_of

SOLD_OUT = '\n[[stock]]\ntype = "gpu"\nleft = 0\n'
WAITS = "%%provision dev --yes\nresources: {accelerators: A100, infra: local}\nwait: 2h"
NORTH = "%%provision dev {flags}\nresources: {{accelerators: A100, infra: local/north}}\n{more}"
WIDGET = "application/vnd.jupyter.widget-view+json"


def reaches(kernel: Kernel, panel: str, state: str) -> dict[str, Any]:
    """Wait until a panel shows a state."""
    return kernel.until(
        lambda: kernel.state(panel) if kernel.state(panel).get("state") == state else None,
        f"a panel that shows {state}",
    )


def taken_over(kernel: Kernel, form: dict[str, str]) -> str:
    """Return the panel that the next kernel makes of the form of the last one."""
    kernel.restart(orderly=True)
    kernel.run("%load_ext nbprov")
    link = kernel.page_link()
    kernel.press(link, type="forms", forms=[form])
    (sent,) = kernel.until(lambda: answers(kernel, link), "the panel of the earlier kernel")
    return str(sent["live"][WIDGET]["model_id"])


def notices(kernel: Kernel) -> list[str]:
    """Return what panels have said in their status lines."""
    return [
        str(m["content"]["data"]["content"]["text"])
        for m in kernel.messages
        if m["msg_type"] == "comm_msg"
        and m["content"]["data"].get("content", {}).get("type") == "notice"
    ]


def test_a_wait_that_was_taken_over_is_made_longer_and_cut_short(home, kernel: Kernel) -> None:
    market(home, SOLD_OUT)
    shown = kernel.run(WAITS)
    reaches(kernel, kernel.panels()[0], "waiting")
    panel = taken_over(kernel, form_of(shown.displays[0]))
    state = kernel.until(
        lambda: kernel.state(panel) if kernel.state(panel)["waiting"] else None, "the wait"
    )
    assert {"try", "longer", "again", "wait", "widen", "console"} <= {*state["actions"]}
    kernel.run("import nbprov\n(driver,) = nbprov.session().engine.drivers.values()")
    until = kernel.value("driver.failover.stock_wait.until")
    kernel.press(panel, type="longer")
    kernel.until(
        lambda: kernel.value("driver.failover.stock_wait.until") == until + 3600.0,
        "the longer wait",
    )
    assert kernel.value("nbprov.session().engine.ledger.runs.get(driver.run_id).wait_deadline") == (
        until + 3600.0
    )
    kernel.run("driver.failover.stock_wait.least_pause = 0.0")
    reaches(kernel, panel, "waiting")
    market(home)
    kernel.press(panel, type="try")
    reaches(kernel, panel, "ready")
    assert "try" not in kernel.state(panel)["actions"]
    kernel.run("%nbprov down dev")


def test_a_launch_that_failed_before_a_restart_is_launched_again(home, kernel: Kernel) -> None:
    market(home, SOLD_OUT)
    shown = kernel.run(NORTH.format(flags="--yes", more=""))
    reaches(kernel, kernel.panels()[0], "failed")
    panel = taken_over(kernel, form_of(shown.displays[0]))
    state = kernel.until(
        lambda: kernel.state(panel) if kernel.state(panel)["openings"] else None, "what opens more"
    )
    assert state["state"] == "failed"
    cleared = [one["words"] for one in state["openings"] if one["press"] == "Clear and launch"]
    market(home)
    kernel.press(panel, type="widen", words=cleared[0])
    reaches(kernel, panel, "ready")
    assert kernel.state(panel)["run_id"] != state["run_id"]
    assert kernel.state(panel)["openings"] == []
    assert kernel.value("dev.wait().name") == "dev", "its variable is in this kernel, too"
    assert machines(home) == 1
    kernel.press(panel, type="down", name="dev")
    reaches(kernel, panel, "ended")
    kernel.press(panel, type="again")
    reaches(kernel, panel, "ready")
    kernel.run("%nbprov down dev")


def test_a_launch_whose_secret_is_not_known_any_more_says_so(home, kernel: Kernel) -> None:
    market(home, SOLD_OUT)
    cell = NORTH.format(
        flags="--yes --env TOKEN=hush",
        more="secrets: {TOKEN: null}\nenvs: {MODE: fast}\nsetup: echo $TOKEN | wc -c > size",
    )
    shown = kernel.run(cell)
    reaches(kernel, kernel.panels()[0], "failed")
    panel = taken_over(kernel, form_of(shown.displays[0]))
    market(home)
    kernel.press(panel, type="again")
    (told,) = kernel.until(lambda: notices(kernel), "why nothing was launched")
    assert told.startswith("dev was not launched: an earlier kernel had the value of TOKEN")
    assert "run its %%provision cell again" in told
    assert kernel.state(panel)["state"] == "failed"
    assert machines(home) == 0
    kernel.run("%env TOKEN=hush")
    kernel.press(panel, type="again")
    state = reaches(kernel, panel, "ready")
    assert state["name"] == "dev"
    assert kernel.run("%%on dev --bash\ncat size").text.strip() == "5"
    assert "hush" not in str(state)
    kernel.run("%nbprov down dev")
