"""A launch that waits for stock: it continues when stock returns, can be cancelled, and outlives
its kernel."""

from __future__ import annotations

from homes import machines, market
from kernels import Kernel

SOLD_OUT = """
[[stock]]
type = "gpu"
left = 0
"""

CELL = """%%provision dev {flags}
resources: {{accelerators: A100, infra: local}}
setup: echo $((6 * 7)) > answer
wait: 2h
"""

WAITS = "waiting for stock"


def waits(kernel: Kernel) -> dict[str, object]:
    """Return the first panel, once it shows that its run waits."""

    def look() -> dict[str, object]:
        state = kernel.state(kernel.panels()[0]) if kernel.panels() else {}
        return state if state.get("state") == "waiting" else {}

    found: dict[str, object] = kernel.until(look, "a run that waits")
    return found


def launch_in_vain(home, kernel: Kernel, flags: str = "--yes") -> dict[str, object]:
    """Launch where nothing is in stock."""
    market(home, SOLD_OUT)
    kernel.run(CELL.format(flags=flags))
    return waits(kernel)


def test_the_panel_says_until_when_and_the_saved_form_too(home, kernel: Kernel) -> None:
    state = launch_in_vain(home, kernel)
    assert "waiting for stock until" in str(state["waiting"])
    assert "nothing is billed meanwhile" in str(state["waiting"])
    assert state["cost"] == 0
    panel = next(m["content"] for m in kernel.messages if m["msg_type"] == "display_data")
    saved = kernel.renewed(panel, WAITS)
    assert "next pass over the plan at" in saved
    assert "1 pass so far" in saved
    assert machines(home) == 0


def test_it_goes_on_when_stock_returns_and_blocks_are_cleared(home, kernel: Kernel) -> None:
    launch_in_vain(home, kernel)
    market(home)
    assert "removed" in kernel.run("%nbprov blocks --clear").text
    assert kernel.run("%%on dev --bash\ncat answer").text.strip() == "42"
    assert machines(home) == 1
    assert "pass 2" in kernel.value(
        "[e.text for e in dev._context.engine.ledger.events.of_run(dev.run_id) if e.kind.value == "
        "'pass_begun'][0]"
    )


def test_a_cancel_of_a_wait_is_instant(home, kernel: Kernel) -> None:
    launch_in_vain(home, kernel)
    kernel.run("dev.cancel()")
    kernel.until(lambda: kernel.state(kernel.panels()[0])["state"] == "cancelled", "the cancel")
    assert kernel.value("dev.settled(5).value") == "cancelled"
    assert machines(home) == 0
    kernel.run(CELL.format(flags="--dry-run"))  # the name is free


def test_the_same_cell_follows_a_wait_that_goes_on(home, kernel: Kernel) -> None:
    launch_in_vain(home, kernel)
    assert (
        "dev is already waiting for stock; this panel follows it"
        in kernel.run(CELL.format(flags="--yes")).text
    )
    assert len(kernel.panels()) == 2


def test_a_killed_kernel_leaves_its_wait_to_the_next(home, kernel: Kernel) -> None:
    launch_in_vain(home, kernel)
    kernel.restart()
    kernel.run("%load_ext nbprov")
    told = kernel.run(CELL.format(flags="")).text
    assert (
        "dev: another kernel waited for its stock; checking whether that kernel is alive …" in told
    )
    assert "dev is already waiting for stock; this panel follows it" in told
    assert "waiting for stock until" in str(waits(kernel)["waiting"])
    market(home)
    kernel.run("%nbprov blocks --clear")
    assert kernel.run("%%on dev --bash\ncat answer").text.strip() == "42"
    assert machines(home) == 1
    assert kernel.value("dev.view().cluster.candidate.hourly") == 3_000_000


def test_a_restarted_kernel_says_what_it_took_up_and_down_ends_it(home, kernel: Kernel) -> None:
    launch_in_vain(home, kernel)
    kernel.restart(orderly=True)
    greeting = kernel.run("%load_ext nbprov").displays[0]
    told = kernel.renewed(greeting, "waited for stock")
    assert "at most $3.00/h as agreed" in told
    assert "ended, confirmed" in kernel.run("%nbprov down dev").text
    assert machines(home) == 0
    kernel.run("ledger = __import__('nbprov').session().engine.ledger")
    assert kernel.value("[r[0] for r in ledger.store.rows('SELECT state FROM runs')]") == [
        "cancelled"
    ]
