"""`%%on`: cells that run on the machine and show their output here."""

from __future__ import annotations

import re
import time

import pytest
from homes import market
from kernels import CPU, Kernel, new_kernel

RICH = """%%on dev
from IPython.display import display, HTML, Image
import base64
display(HTML("<b>made by hand</b>"))
display(Image(base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")))
shown = display("before", display_id=True)
shown.update("after")
"""

# Break the engine's ssh connections abruptly, without a closing message or a flush.
CUT = """
import asyncio, nbprov
def _cut():
    for live in _engine.live.values():
        for node in live.nodes:
            node.agent.connection.abort()
_engine = nbprov.session().engine
_engine.thread.soon(_cut)
"""


def test_state_lives_on_between_cells(shared_cluster: Kernel) -> None:
    shared_cluster.run("%%on dev\nweights = [1, 2]")
    assert (
        shared_cluster.run(
            "%%on dev\nweights.append(3)\nprint('sum', sum(weights))\nweights"
        ).everything
        == "sum 6\n[1, 2, 3]"
    )
    assert "weights" not in shared_cluster.value("sorted(globals())")


def test_rich_output_arrives_as_rich_output(shared_cluster: Kernel) -> None:
    outcome = shared_cluster.run(RICH)
    assert outcome.displays[0]["data"]["text/html"] == "<b>made by hand</b>"
    assert outcome.displays[1]["data"]["image/png"].startswith("iVBORw0KGgo")
    renewed = [m["content"] for m in outcome.messages if m["msg_type"] == "update_display_data"]
    assert renewed[0]["data"]["text/plain"] == "'after'"
    assert renewed[0]["transient"]["display_id"] == outcome.displays[2]["transient"]["display_id"]


def test_an_error_there_is_an_error_here_with_its_own_traceback(shared_cluster: Kernel) -> None:
    outcome = shared_cluster.run("%%on dev\ndef divide(n):\n    return 1 / n\ndivide(0)", ok=False)
    assert "ZeroDivisionError: division by zero" in outcome.error_text
    assert "----> " in outcome.error_text
    assert "in divide(n)" in outcome.error_text
    assert "nbprov" not in outcome.error_text


def test_stderr_stays_stderr(shared_cluster: Kernel) -> None:
    outcome = shared_cluster.run(
        "%%on dev\nimport sys\nprint('out')\nprint('err', file=sys.stderr)"
    )
    assert (outcome.text, outcome.stderr) == ("out\n", "err\n")


def test_output_comes_while_the_cell_runs(shared_cluster: Kernel) -> None:
    request = shared_cluster.send(
        "%%on dev --bash\necho first\nwhile [ ! -e go ]; do sleep 0.02; done\necho second"
    )
    shared_cluster.until(
        lambda: shared_cluster.outcome(request).text == "first\n", "the first line"
    )
    _touch(shared_cluster, "go")
    assert shared_cluster.finish(request).text == "first\nsecond\n"
    shared_cluster.run("%%on dev --bash\nrm go")


def _touch(kernel: Kernel, name: str) -> None:
    """Create a file on the machine from outside, since its home is a folder of this computer."""
    homes = list((kernel.home / "local" / "i").glob("*/home"))
    assert len(homes) == 1
    (homes[0] / name).touch()


def test_a_script_that_fails_says_its_code(shared_cluster: Kernel) -> None:
    outcome = shared_cluster.run("%%on dev --bash\necho before\nexit 3", ok=False)
    assert outcome.text == "before\n"
    assert outcome.error_text == "the script ended with code 3  [remote.exit-code]"


def test_interrupt_leaves_the_variables_there(shared_cluster: Kernel) -> None:
    shared_cluster.run("%%on dev\nkept = 'still here'")
    request = shared_cluster.send(
        "%%on dev\nimport time\nprint('in')\ntime.sleep(60)\nkept = 'gone'"
    )
    shared_cluster.until(
        lambda: shared_cluster.outcome(request).text == "in\n", "the cell's first line"
    )
    pressed = shared_cluster.interrupt(request)
    assert (
        shared_cluster.finish(request).error_text
        == "interrupted on dev; its variables are still there"
    )
    assert time.monotonic() - pressed < 2.0
    assert shared_cluster.run("%%on dev\nkept").values + shared_cluster.run(
        "%%on dev\nkept"
    ).everything.split("\n") == ["'still here'"]


def test_interrupt_of_a_script_ends_it(shared_cluster: Kernel) -> None:
    request = shared_cluster.send(
        "%%on dev --bash\necho $$ > pid\necho in\nsleep 60\necho never > never"
    )
    shared_cluster.until(
        lambda: shared_cluster.outcome(request).text == "in\n", "the script's first line"
    )
    shared_cluster.interrupt(request)
    assert (
        shared_cluster.finish(request).error_text
        == "interrupted on dev; the script there has ended"
    )
    shared_cluster.run(
        '%%on dev --bash\nwhile kill -0 "$(cat pid)" 2>/dev/null; do sleep 0.05; done\n'
        "test ! -e never"
    )


def test_nothing_is_lost_when_the_line_is_cut_in_mid_cell(shared_cluster: Kernel) -> None:
    shared_cluster.run(CUT)
    code = (
        "%%on dev\nimport os, time\nfor n in range(40):\n    print(n, flush=True)\n"
        "    time.sleep(0.03)\nlast = n"
    )
    shared_cluster.run(
        "import threading\nthreading.Timer(0.4, lambda: _engine.thread.soon(_cut)).start()"
    )
    assert shared_cluster.run(code).text == "".join(f"{n}\n" for n in range(40))
    assert shared_cluster.run("%%on dev\nprint(last)").text == "39\n"


def test_python_api_of_a_cluster(shared_cluster: Kernel) -> None:
    # The handle that a %%provision cell stores works as well as the cluster's own.
    assert shared_cluster.value(
        "[type(dev).__name__, dev.cell('6 * 7').value, dev.cluster().name]"
    ) == ["Run", "42", "dev"]
    shared_cluster.run("import nbprov\ndev = nbprov.cluster('dev')")
    assert shared_cluster.value("dev.cell('6 * 7').value") == "42"
    assert shared_cluster.value("dev.bash('echo hi').text") == "hi\n"
    assert shared_cluster.value("[c.name for c in nbprov.clusters()]") == ["dev"]
    caught = (
        "try:\n    dev.cell('1/0')\nexcept Exception as error:\n"
        "    print(error.code, len(error.traceback) > 0)"
    )
    assert shared_cluster.run(caught).text == "remote.raised True\n"
    assert (
        "not done within"
        in shared_cluster.run("dev.bash('sleep 30', timeout=0.3)", ok=False).error_text
    )
    assert "no node" in shared_cluster.run("%%on dev --nodes 7\n1", ok=False).error_text


def test_it_waits_for_the_launch_and_its_setup(home, kernel: Kernel) -> None:
    market(home, accept=0.5)
    kernel.run(f"%%provision dev\n{CPU}\nsetup: echo done > marker")
    told = kernel.run("%%on dev --bash\ncat marker", ok=False).error_text
    assert told.splitlines()[0] == "dev waits for Launch  [run.not-launched]"
    kernel.run("dev.launch()")
    assert kernel.run("%%on dev --bash\ncat marker").text == "done\n"


def test_of_a_launch_that_fails_it_tells_why(home, kernel: Kernel) -> None:
    market(home, '[[stock]]\ntype = "sim-cpu-2"\nleft = 0\n', accept=0.3)
    kernel.run(f"%%provision dev --yes\n{CPU}")
    assert "no machine in 4 attempts" in kernel.run("%%on dev\n1", ok=False).error_text
    assert "no live cluster is called 'dev'" in kernel.run("%%on dev\n1", ok=False).error_text


def test_a_machine_that_was_stopped_says_how_to_start_it(home, kernel: Kernel) -> None:
    kernel.run(f"%%provision dev --yes --wait\n{CPU}")
    kernel.run("%nbprov stop dev")
    assert "%nbprov start dev" in kernel.run("%%on dev\n1", ok=False).error_text
    kernel.run("%nbprov start dev")
    assert kernel.run("%%on dev --bash\necho again").text == "again\n"


@pytest.mark.versions
def test_a_cluster_of_an_earlier_kernel_is_used_on(home) -> None:
    with new_kernel(home) as kernel:
        kernel.run(f"%%provision dev --yes --wait\n{CPU}")
        kernel.run("%%on dev\nx = 5")
        kernel.restart()
        line = kernel.run("%load_ext nbprov").displays
        assert len(line) == 1
        assert "still running: %%on dev goes on with it" in kernel.renewed(line[0], "still running")
        assert kernel.run("%%on dev\nprint(x)").text == "5\n"


def badges(kernel: Kernel, code: str, *, ok: bool = True) -> list[str]:
    """Return the badges of a cell, without the seconds."""
    shown = [d["data"]["text/plain"] for d in kernel.run(code, ok=ok).displays]
    return [re.sub(r"[\d.]+ s\b", "N s", text) for text in shown if " · " in text]


def test_a_badge_says_where_a_cell_ran(shared_cluster: Kernel) -> None:
    badge = "dev · local/south/south-a · sim-cpu-2 · N s"
    shared_cluster.run("%%on dev\n1")
    assert badges(shared_cluster, "%%on dev\n1") == []
    assert badges(shared_cluster, "%%on dev\nimport time; time.sleep(1)") == [badge]
    shared_cluster.run("%config Nbprov.badge = True")
    assert badges(shared_cluster, "%%on dev\n1") == [badge]
    assert badges(shared_cluster, "%%on dev\n1/0", ok=False) == [f"{badge} · failed"]
    shared_cluster.run("%config Nbprov.badge = False")
    assert badges(shared_cluster, "%%on dev --bash\nsleep 1") == []
    shared_cluster.run("%config Nbprov.badge = 'auto'")


def test_help_is_shown_as_help_is(shared_cluster: Kernel) -> None:
    shared_cluster.run("%%on dev\ndef fitted(rows):\n    'Fits \x1b]0;title\x07the model.'")
    reply = shared_cluster.reply(shared_cluster.send("%%on dev\nfitted?"))
    (page,) = [payload for payload in reply["payload"] if payload["source"] == "page"]
    assert "Fits the model." in page["data"]["text/plain"]
    assert "fitted(rows)" in re.sub(r"\x1b\[[0-9;]*m", "", page["data"]["text/plain"])


def test_time_is_measured_there_and_here(shared_cluster: Kernel) -> None:
    there = shared_cluster.run("%%on dev\n%%time\nx = 2\nx + 1")
    assert "Wall time:" in there.text
    assert "3" in [d["data"]["text/plain"] for d in there.displays]
    here = shared_cluster.run("%%time\n%%on dev\nx + 2")
    assert "Wall time:" in here.text
    assert "4" in [d["data"]["text/plain"] for d in here.displays]


def test_progress_bars_clear_output_and_colours(shared_cluster: Kernel) -> None:
    bar = (
        "%%on dev\nimport sys\nfor n in range(3):\n    print(f'\\r{n}/2', end='', flush=True)\n"
        "print('\\x1b[31m red \\x1b[0m\\x1b]52;c;ZXZpbA==\\x07')"
    )
    outcome = shared_cluster.run(bar)
    raw = "".join(m["content"]["text"] for m in outcome.messages if m["msg_type"] == "stream")
    assert raw == "\r0/2\r1/2\r2/2\x1b[31m red \x1b[0m\n"
    cleared = shared_cluster.run(
        "%%on dev\nfrom IPython.display import clear_output\nprint(1)\n"
        "clear_output(wait=True)\nprint(2)"
    )
    assert [m["content"]["wait"] for m in cleared.messages if m["msg_type"] == "clear_output"] == [
        True
    ]
    tqdm = shared_cluster.run(
        "%%on dev\nfrom tqdm import tqdm\nfor _ in tqdm(range(3), mininterval=0): pass"
    )
    assert "3/3" in tqdm.stderr


def test_input_says_what_to_do_instead(shared_cluster: Kernel) -> None:
    told = shared_cluster.run("%%on dev\ninput('name? ')", ok=False).error_text
    assert "does not support input" in told
    assert (
        "next: a cell on a machine cannot ask; assign the answer here and send it with %%on "
        "NAME -i answer" in told
    )


def test_what_is_active_is_kept_from_the_page(shared_cluster: Kernel) -> None:
    code = """%%on dev
from IPython.display import display, HTML, Javascript, SVG
display(HTML("<script>parent.owned = 1</script>"))
display(Javascript("owned = 2"))
display(SVG("<svg xmlns='http://www.w3.org/2000/svg' onload='owned = 3'></svg>"))
view = {"application/vnd.jupyter.widget-view+json": {"model_id": "x"}}
display({**view, "text/plain": "IntSlider(value=3)"}, raw=True)
_ = display({"text/plain": "x"}, raw=True, display_id="of-another")
"""
    frame, script, picture, widget, named = (
        d for d in shared_cluster.run(code).displays if " · " not in d["data"]["text/plain"]
    )
    assert 'data-nbprov-frame="ask"' in frame["data"]["text/html"]
    assert "parent.owned" not in frame["data"]["text/html"]
    assert "application/javascript" not in script["data"]
    assert "not run" in script["data"]["text/plain"]
    assert 'data-name="SVG picture"' in picture["data"]["text/html"]
    assert "image/svg+xml" not in picture["data"]
    assert widget["data"] == {"text/plain": "IntSlider(value=3)"}
    assert named["transient"]["display_id"].startswith("nbprov-there-")


def test_a_flood_ends_in_a_line_that_says_how_to_read_on(shared_cluster: Kernel) -> None:
    outcome = shared_cluster.run("%%on dev --bash\nyes 0123456789 | head -c 9000000")
    assert 3_900_000 < len(outcome.text) <= 4_100_000
    assert (
        "more output than a page can show; the rest is kept there: %nbprov cells dev bash-"
        in outcome.stderr
    )
    assert len([m for m in outcome.messages if m["msg_type"] == "stream"]) < 2000
    said = shared_cluster.run("%nbprov cells dev last --save flood.txt").text
    assert re.fullmatch(r"flood.txt: 9,000,000 characters of bash-\w+\n", said)
    assert (shared_cluster.home.parent / "flood.txt").stat().st_size == 9_000_000
    # Beyond what the machine keeps, both the file and the line tell of it.
    shared_cluster.run("%%on dev --bash\nyes 0123456789 | head -c 36000000")
    said = shared_cluster.run("%nbprov cells dev last --save flood.txt").text
    assert "some of it is missing: the machine keeps the last 32 MB of a cell\n" in said
    with (shared_cluster.home.parent / "flood.txt").open() as file:
        assert "was dropped here: the machine keeps the last 32 MB" in file.readline()


def test_variables_of_the_environment_go_there_and_are_shown_nowhere(home) -> None:
    with new_kernel(home, CELL_TOKEN="canary-4711-secret") as kernel:
        kernel.run(f"%%provision dev --yes --wait\n{CPU}")
        shown = kernel.run(
            "%%on dev --env CELL_TOKEN --env MODE=fast\nimport os\n"
            "print(len(os.environ['CELL_TOKEN']), os.environ['MODE'])"
        )
        assert shown.text == "18 fast\n"
        assert kernel.run("%%on dev --bash --env CELL_TOKEN\necho ${#CELL_TOKEN}").text == "18\n"
        for wrong, words in {
            "--env NOT_THERE": "the kernel's environment has no NOT_THERE",
            "--env 1x=canary-4711-secret": "'1x' is not a variable name",
        }.items():
            told = kernel.run(f"%%on dev {wrong}\n1", ok=False).error_text
            assert words in told
            assert "canary" not in told
        assert "canary" not in "".join(
            str(m["content"]) for m in kernel.messages if m["msg_type"] != "execute_input"
        )
    for path in home.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert b"canary-4711" not in path.read_bytes(), path
