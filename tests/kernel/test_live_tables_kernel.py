"""A machine that bills is in every table from its first second to its last, and `down --all` ends
it."""

from __future__ import annotations

from typing import Any

from homes import machines, market
from kernels import CPU, Kernel, new_kernel

STUCK = """
[[faults]]
do = "stuck"
"""
SOLD_OUT = """
[[stock]]
type = "gpu"
left = 0
"""
WAITS = "resources: {accelerators: A100, infra: local}\nwait: 2h"
LISTED = "[(c.name, c.state.value) for c in __import__('nbprov').clusters()]"


def rows(kernel: Kernel, panel: str) -> list[tuple[str, str, bool]]:
    """Return the name and state of each row of a table, and whether it costs something now."""
    shown: list[dict[str, Any]] = kernel.state(panel)["clusters"]
    return [(c["name"], c["state"], c["hourly"] > 0) for c in shown]


def test_a_machine_that_boots_is_shown_and_ended(home, kernel: Kernel) -> None:
    market(home, STUCK)
    table_cell = kernel.run("%clusters")
    kernel.run("%nbprov dashboard")
    table, board = kernel.panels()
    assert kernel.state(table)["heading"] == "no clusters"
    kernel.run(f"%%provision dev --yes\n{CPU}")
    for panel in (table, board):
        kernel.until(
            lambda panel=panel: rows(kernel, panel) == [("dev", "launching", True)], "its row"
        )
    assert "1 cluster launching" in kernel.state(table)["heading"]
    assert "$0.00" not in kernel.state(table)["heading"]
    assert kernel.state(board)["heading"] == "nbprov: 1 cluster launching"
    assert "launching" in kernel.renewed(table_cell.displays[0], "dev")
    assert kernel.value(LISTED) == [["dev", "launching"]]
    assert "dev is launching and is left alone" in kernel.run("%nbprov stop --all").text
    assert machines(home) == 1
    said = kernel.run("%nbprov down --all").text
    assert "ending dev (launching)" in said
    assert "ended, confirmed" in said
    assert machines(home) == 0
    kernel.until(lambda: rows(kernel, table) == [("dev", "ended", False)], "its end")
    assert kernel.value(LISTED) == []


def test_a_launch_that_waits_for_stock_is_shown_and_ended(home, kernel: Kernel) -> None:
    market(home, SOLD_OUT)
    kernel.run(f"%%provision dev --yes\n{WAITS}")
    kernel.run("%clusters")
    table = kernel.panels()[1]
    kernel.until(lambda: rows(kernel, table) == [("dev", "waiting", False)], "its row")
    assert "0.00/h" in kernel.state(table)["heading"]
    assert "dev" in kernel.run("%nbprov down --all").text
    kernel.until(lambda: rows(kernel, table) == [("dev", "ended", False)], "its end")


def test_the_launch_of_another_kernel_is_shown_and_ended(home, kernel: Kernel) -> None:
    market(home, STUCK)
    with new_kernel(home) as other:
        other.run("%clusters")
        (table,) = other.panels()
        assert rows(other, table) == []
        kernel.run(f"%%provision dev --yes\n{CPU}")
        other.until(lambda: rows(other, table) == [("dev", "launching", True)], "its row")
        assert "ending dev (launching)" in other.run("%nbprov down --all").text
        assert machines(home) == 0


def test_the_loser_of_a_race_is_shown_until_it_is_gone(home, kernel: Kernel) -> None:
    market(home, STUCK.replace("stuck", 'stuck"\nzone = "south-a'), end=4.0)
    kernel.run("%clusters")
    (table,) = kernel.panels()
    kernel.run("%%provision dev --yes --race 2\nresources: {cpus: 2, infra: local/south}")
    kernel.until(
        lambda: rows(kernel, table) == [("dev", "running", True), ("dev", "ending", True)],
        "a cluster and a loser",
    )
    assert [c["can_down"] for c in kernel.state(table)["clusters"]] == [True, False]
    assert "; 1 ending, $" in kernel.state(table)["heading"]
    kernel.press(table, type="down", name="dev")
    kernel.until(lambda: machines(home) == 0, "the end of both")
    kernel.until(lambda: {r[1:] for r in rows(kernel, table)} == {("ended", False)}, "both ended")
