"""The same cell again: a running cluster is used, a stopped one started, a difference named; and
flags."""

from __future__ import annotations

import pytest
from homes import DEADLINE, machines, market
from kernels import CPU, GPU, Kernel


def test_the_same_cell_again(home, kernel: Kernel) -> None:
    kernel.run(f"%%provision dev --yes --wait\n{GPU}")
    first = kernel.value("[dev.wait().view().cluster_id, dev.wait().view().instances[0].id]")
    again = kernel.run(f"%%provision dev\n{GPU}")
    assert again.text == "dev is running and fits: nothing was launched\n"
    assert kernel.value("[dev.view().cluster_id, dev.view().instances[0].id]") == first
    # A spec that asks for less is served too. One that asks for more names what does not fit.
    assert (
        "nothing was launched"
        in kernel.run("%%provision dev\nresources: {infra: local, cpus: 2+}").text
    )
    told = kernel.run(
        "%%provision dev\nresources: {accelerators: A100:8, infra: local}", ok=False
    ).error_text
    assert told.splitlines() == [
        "dev is running and differs: accelerators: asked A100:8, has A100:1  "
        "[cluster.does-not-fit]",
        "  next: use another name; put a new one in its place: %%provision dev --replace; or "
        "end it first: %nbprov down dev",
    ]
    kernel.run("%nbprov stop dev")
    assert "stopped" in kernel.run("%clusters").displays[0]["data"]["text/plain"]
    # Showing the plan starts nothing.
    kernel.run(f"%%provision dev --dry-run\n{GPU}")
    kernel.run("import nbprov")
    assert kernel.value("nbprov.cluster('dev').state.value") == "stopped"
    told = kernel.run(f"%%provision dev\n{GPU}").text.splitlines()
    assert told[0] == "dev was stopped and fits: it is started again"
    assert told[1].startswith(
        "  there again: its disk, its host key, its guards; its address may be new: "
    )
    assert (
        told[2]
        == "  gone: variables of its kernel and whatever ran; setup and run are not run again"
    )
    assert kernel.value("[dev.view().cluster_id, dev.view().instances[0].id, dev.state.value]") == [
        *first,
        "running",
    ]
    assert machines(home) == 1
    assert "it cost $" in kernel.run("%nbprov down dev").text
    assert machines(home) == 0


def test_the_same_cell_while_it_is_being_launched(home, kernel: Kernel) -> None:
    market(home, accept=1.0)
    kernel.run(f"%%provision dev --yes\n{CPU}")
    assert (
        kernel.run(f"%%provision dev --yes --wait\n{CPU}").text
        == "dev is already being launched; this panel follows it\n"
    )
    assert machines(home) == 1
    market(home, accept=1.0)
    kernel.run(f"%%provision other --yes\n{CPU}")
    told = kernel.run(f"%%provision other\n{GPU}", ok=False).error_text
    assert told.startswith("other is being launched from another spec  [cluster.launch-under-way]")
    kernel.run("other.wait()")


def test_a_later_cell_takes_the_place_of_one_that_waits(kernel: Kernel) -> None:
    kernel.run(f"%%provision dev\n{CPU}")
    kernel.run("earlier = dev")
    kernel.run(f"%%provision dev\n{GPU}")
    first, second = kernel.panels()
    state = kernel.until(
        lambda: kernel.state(first) if kernel.state(first)["state"] == "cancelled" else None,
        "the first panel's end",
    )
    assert not state["needs_launch"]
    assert kernel.state(second)["needs_launch"]
    assert "a later cell has taken its place" in kernel.run("earlier.launch()", ok=False).error_text


def test_dry_run_creates_nothing(home, kernel: Kernel) -> None:
    outcome = kernel.run(f"%%provision dev --dry-run --yes\n{GPU}\nsecrets: {{TOKEN: null}}")
    assert "plan of dev; nothing is created" in outcome.everything
    assert "local/north-a" in outcome.everything
    assert "dev" not in kernel.value("[n for n in globals()]")
    assert kernel.run("%nbprov costs").text == "nothing has been launched yet\n"
    assert (
        kernel.run("%%nbprov plan\nresources: {accelerators: A100, infra: local}")
        .displays[0]["data"]["text/plain"]
        .startswith("plan; nothing")
    )
    assert machines(home) == 0


def test_a_race_ends_in_one_cluster(home, kernel: Kernel) -> None:
    kernel.run("%config Nbprov.hedge = 0")
    kernel.run(
        "%%provision dev --race 2 --yes --wait\nresources: {accelerators: A100, infra: local/north}"
    )
    kernel.run("dev.settled()")
    assert machines(home) == 1
    assert kernel.value("[a.state.value for a in dev.view().attempts].count('ready')") == 1
    assert len(kernel.run("%nbprov attempts dev").text.splitlines()) == 2 + 2


def test_ignore_turns_an_error_into_a_warning(kernel: Kernel) -> None:
    cell = f"{CPU}\nbogus: 1"
    assert (
        "spec.unknown-field"
        in kernel.run(f"%%provision dev --dry-run\n{cell}", ok=False).error_text
    )
    assert "warning: " in kernel.run(f"%%provision dev --dry-run --ignore bogus\n{cell}").text


def test_values_that_a_spec_leaves_open(kernel: Kernel) -> None:
    cell = f"{CPU}\nenvs: {{RUN_ID: null}}\nsetup: echo $RUN_ID > id"
    missing = kernel.run(f"%%provision dev --yes --wait\n{cell}", ok=False).error_text
    assert missing.startswith("no value for RUN_ID  [env.missing]")
    kernel.run(f"%%provision dev --yes --wait --env RUN_ID=a=b\n{cell}")
    assert kernel.run("%%on dev --bash\ncat id").text == "a=b\n"
    assert kernel.run("%nbprov logs dev setup").text == ""
    assert "ok" in kernel.run("%nbprov jobs dev").everything


def test_a_person_is_asked_for_what_is_missing(kernel: Kernel) -> None:
    kernel.client.stdin_channel.start()
    kernel.client.allow_stdin = True
    request = kernel.send(
        f"%%provision dev\n{CPU}\nenvs: {{RUN_ID: null}}\nsecrets: {{TOKEN: null}}"
    )
    for prompt, hidden in (("RUN_ID: ", False), ("TOKEN: ", True)):
        asked = kernel.client.get_stdin_msg(timeout=DEADLINE)["content"]
        assert (asked["prompt"], asked["password"]) == (prompt, hidden)
        kernel.client.input("canary-4711")
    outcome = kernel.finish(request)
    assert outcome.error is None
    assert "canary" not in str(
        [m["content"] for m in outcome.messages if m["msg_type"] != "execute_input"]
    )


def test_names_that_are_no_variables(kernel: Kernel) -> None:
    assert (
        "the handle of my-gpu.2 is the variable my_gpu_2"
        in kernel.run(f"%%provision my-gpu.2\n{CPU}").text
    )
    assert kernel.value("my_gpu_2.name") == "my-gpu.2"


@pytest.mark.parametrize(
    "command", ["attempts", "blocks", "costs", "log", "sweep", "catalog", "check", "config"]
)
def test_commands_before_anything_was_launched(shared: Kernel, command: str) -> None:
    assert shared.run(f"%nbprov {command}").everything.strip()


def test_every_command_on_a_cluster(shared_cluster: Kernel) -> None:
    say = shared_cluster.run
    assert "dev" in say("%nbprov costs").text
    assert "of which you pay $0" in say("%nbprov costs").text
    assert "you pay $0.00 in total" in say("%nbprov costs").text
    assert "● ready" in say("%nbprov attempts dev").text
    assert "ready" in say("%nbprov log dev").text
    assert "idle" in say("%nbprov autostop dev").text
    assert say("%nbprov jobs dev").text == "dev has no jobs\n"
    assert "its jobs: none" in say("%nbprov logs dev", ok=False).error_text
    assert say("%nbprov sweep").text == "the ledger knows all your machines\n"
    assert "simulated" in say("%nbprov check").everything
    assert "dev" in say("%clusters").displays[0]["data"]["text/plain"]
    assert "live clusters: dev" in say("%nbprov down", ok=False).error_text
    assert "nothing called other has been launched" in say("%nbprov attempts other").text
