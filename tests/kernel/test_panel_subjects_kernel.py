"""A panel shows its subject in the ledger: what a cell found running, what an earlier kernel began,
and what a page asks for after a reload."""

from __future__ import annotations

import re
from typing import Any

from homes import machines, market
from kernels import CPU, Kernel, new_kernel

STUCK = """
[[faults]]
do = "slow_boot"
seconds = 8.0
"""
WIDGET = "application/vnd.jupyter.widget-view+json"
MARKS = re.compile(
    r'data-nbprov="(?P<anchor>\w+)".*?data-nbprov-subject="(?P<subject>[^"]+)"', re.S
)


def form_of(display: dict[str, Any]) -> dict[str, str]:
    """Return what a page tells of a static form."""
    found = MARKS.search(display["data"]["text/html"])
    assert found is not None
    return found.groupdict()


def outputs(kernel: Kernel, comm: str) -> list[dict[str, Any]]:
    """Return the forms that were sent to the pages by their link, oldest first."""
    return [
        one
        for m in kernel.messages
        if m["msg_type"] == "comm_msg" and m["content"]["comm_id"] == comm
        for one in m["content"]["data"].get("content", {}).get("outputs", [])
    ]


def answers(kernel: Kernel, comm: str) -> list[dict[str, Any]]:
    """Return those that came with their widgets, because a page asked."""
    return [one for one in outputs(kernel, comm) if "live" in one]


def test_the_panel_of_a_cell_that_found_its_cluster_follows_it(home, kernel: Kernel) -> None:
    kernel.run(f"%%provision dev --yes --wait\n{CPU}")
    found = kernel.run(f"%%provision dev\n{CPU}")
    assert "fits: nothing was launched" in found.text
    table = kernel.panels()[1]
    kernel.run("%nbprov stop dev")
    kernel.until(lambda: kernel.state(table)["clusters"][0]["state"] == "stopped", "the stop")
    run = kernel.panels()[0]
    kernel.until(lambda: kernel.state(run)["look"]["words"] == "stopped", "the run's panel")
    uptime = kernel.state(table)["clusters"][0]["uptime"]
    figures = [line for line in kernel.state(run)["summary"] if "attempt" in line]
    kernel.run("%nbprov start dev")
    kernel.until(lambda: kernel.state(run)["look"]["words"] == "ready", "the start")
    assert [line for line in kernel.state(run)["summary"] if "attempt" in line] == figures
    kernel.run("%nbprov down dev")
    kernel.until(lambda: kernel.state(table)["clusters"][0]["state"] == "ended", "the end")
    assert kernel.state(table)["clusters"][0]["uptime"] >= uptime
    assert "ended" in kernel.renewed(found.displays[0], "ended")


def test_a_page_gets_the_form_of_now_when_it_asks(home, kernel: Kernel) -> None:
    shown = kernel.run(f"%%provision dev --yes --wait\n{CPU}")
    (panel,) = kernel.panels()
    kernel.run("%nbprov down dev")
    kernel.until(lambda: kernel.state(panel)["state"] == "ended", "the end")
    link = kernel.page_link()
    kernel.until(lambda: outputs(kernel, link), "the form, renewed without a question")
    kernel.press(link, type="forms", forms=[form_of(shown.displays[0])])
    (sent,) = kernel.until(lambda: answers(kernel, link), "the answer")
    assert sent["anchor"] == form_of(shown.displays[0])["anchor"]
    assert "dev: ■ ended" in sent["text"]
    assert sent["live"][WIDGET]["model_id"] == panel


def test_the_next_kernel_goes_on_with_the_panels_of_a_page(home, kernel: Kernel) -> None:
    market(home, STUCK)
    shown = kernel.run(f"%%provision dev --yes\n{CPU}")
    table = kernel.run("%clusters")
    forms = [form_of(display) for display in (shown.displays[0], table.displays[0])]
    foreign = {"anchor": "f00", "subject": "clusters:0123456789ab"}
    kernel.until(lambda: machines(home) == 1, "a machine")
    kernel.restart()
    kernel.run("%load_ext nbprov")
    link = kernel.page_link()
    kernel.press(link, type="forms", forms=[*forms, foreign, {"anchor": 3}, None])
    taken = kernel.until(lambda: outputs(kernel, link), "the outputs")
    assert [one["anchor"] for one in taken] == [form["anchor"] for form in forms]
    assert "launching" in taken[0]["html"]
    run, clusters = kernel.panels()
    kernel.until(lambda: kernel.state(run)["look"]["words"] == "ready", "the adopted launch")
    kernel.until(
        lambda: [row["state"] for row in kernel.state(clusters)["clusters"]] == ["running"],
        "the cluster",
    )
    assert kernel.state(run)["plan"]["headline"].startswith("not kept")
    kernel.press(run, type="down", name="dev")
    kernel.until(lambda: machines(home) == 0, "the end of the machine")
    kernel.until(lambda: kernel.state(run)["state"] == "ended", "the end")
    kernel.until(lambda: "dev: ■ ended" in outputs(kernel, link)[-1]["text"], "its form")
    # A page that was reloaded before its notebook was saved has the old widgets again.
    before = len(answers(kernel, link))
    kernel.press(link, type="forms", forms=forms)
    again = kernel.until(lambda: answers(kernel, link)[before:], "the outputs again")
    assert [one["live"][WIDGET]["model_id"] for one in again] == [run, clusters]
    assert kernel.panels() == [run, clusters]


def test_a_kernel_that_left_nothing_is_followed_as_well(home, kernel: Kernel) -> None:
    """The clusters table goes on although nothing was running, and no machine is looked for."""
    table = kernel.run("%clusters")
    kernel.restart()
    loaded = kernel.run("%load_ext nbprov")
    assert loaded.displays == []
    link = kernel.page_link()
    kernel.press(link, type="forms", forms=[form_of(table.displays[0])])
    kernel.until(lambda: outputs(kernel, link), "the outputs")
    kernel.run(f"%%provision dev --yes --wait\n{CPU}")
    clusters = kernel.panels()[0]
    kernel.until(lambda: kernel.state(clusters)["clusters"], "the cluster in the old table")
    kernel.run("%nbprov down dev")


def test_an_extension_that_is_unloaded_leaves_no_live_panel(home, kernel: Kernel) -> None:
    shown = kernel.run(f"%%provision dev --yes --wait\n{CPU}")
    (panel,), link = kernel.panels(), kernel.page_link()
    kernel.run("%unload_ext nbprov")
    closed = {m["content"]["comm_id"] for m in kernel.messages if m["msg_type"] == "comm_close"}
    assert closed == {panel, link}
    kernel.run("%load_ext nbprov")
    kernel.until(lambda: len(kernel.page_links()) == 2, "the next link")
    after = kernel.page_links()[1]
    kernel.press(after, type="forms", forms=[form_of(shown.displays[0])])
    (taken,) = kernel.until(lambda: outputs(kernel, after), "the outputs")
    assert taken["live"][WIDGET]["model_id"] == kernel.panels()[1]
    kernel.run("%nbprov down dev")


def test_the_final_error_is_printed_once(home) -> None:
    market(home, '\n[[stock]]\ntype = "gpu"\nleft = 0\n')
    with new_kernel(home, is_notebook=False) as plain:
        failed = plain.run(
            "%%provision dev --yes --wait\nresources: {accelerators: A100, infra: local}", ok=False
        )
        hint = failed.error_text.strip().splitlines()[-1].strip()
        assert hint.startswith("next: ")
        assert failed.everything.count(hint) == 1
