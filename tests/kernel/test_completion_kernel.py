"""Completion as a front end requests it, with `complete_request`."""

from __future__ import annotations

import time

import pytest
from homes import DEADLINE
from kernels import ANSI, Kernel, new_kernel


def at(kernel: Kernel, marked: str) -> list[str]:
    """Return the completions at the bar in a cell."""
    cursor = marked.index("|")
    return kernel.complete(marked.replace("|", ""), cursor)


def told(kernel: Kernel, marked: str, detail: int = 0) -> str:
    """Return what Shift-Tab shows at the bar in a cell; empty if nothing is found."""
    cursor = marked.index("|")
    answer = kernel.client.inspect(
        marked.replace("|", ""), cursor, detail, reply=True, timeout=DEADLINE
    )["content"]
    assert answer["status"] == "ok"
    return ANSI.sub("", answer["data"].get("text/plain", "")) if answer["found"] else ""


@pytest.mark.parametrize(
    ("cell", "wanted"),
    [
        ("%%provision dev --d|", "--dry-run"),
        ("%%provision dev --on-interrupt |\nresources:", "detach"),
        ("%%on dev --b|\n1", "--bash"),
        ("%clusters --a|", "--all"),
        ("%prices A100 --cloud g|", "gcp"),
        ("%prices A100 --cloud gcp --region us-c|", "us-central1"),
        ("%prices h10|", "H100"),
        ("x = %prices A10|", "A100"),
        ("%nbprov |", "attempts"),
        ("%nbprov do|", "down"),
        ("%nbprov blocks --|", "--clear"),
        ("%%provision dev\nreso|", "resources:"),
        ("%%provision dev\nresources:\n  accel|", "accelerators:"),
        ("%%provision dev\nresources:\n    autostop:\n        |", "idle_minutes:"),
        ("%%provision dev\nresources:\n  any_of:\n    - acc|", "accelerators:"),
        ("%%provision dev\nresources:\n  accelerators: A1|", "A100"),
        ("%%provision dev\nresources:\n  infra: l|", "local"),
        ("%%provision dev\nresources:\n  cloud: a|", "aws"),
        ("%%provision dev\nresources:\n  cloud: gcp\n  region: us-c|", "us-central1"),
        ("%%nbprov plan\nresources:\n  accel|", "accelerators:"),
        ("%%provision dev\nresources:\n  region: |", "eu"),
        ("%%provision dev\nresources:\n  cloud: gcp\n  zone: us-c|", "us-central1-a"),
        ("%%provision dev\nresources:\n  infra: aws/us-e|", "aws/us-east-1"),
        ("%%provision dev\nresources:\n  instance_type: p4d|", "p4d.24xlarge"),
        ("%%provision dev\nresources:\n  |", "accelerators:"),
    ],
)
def test_it_offers(shared: Kernel, cell: str, wanted: str) -> None:
    assert wanted in at(shared, cell)


@pytest.mark.parametrize(
    "cell",
    [
        "%%on |",
        "%nbprov down |",
        "%%provision dev\nresources:\n  infra: nowhere/|",
        "%%provision dev\nresources:\n  instance_type: zzz|",
    ],
)
def test_where_nothing_fits_no_name_of_python_is_offered(shared: Kernel, cell: str) -> None:
    assert at(shared, cell) == []


@pytest.mark.parametrize(
    ("cell", "unwanted"),
    [
        ("%%provision dev\nresources:\n  |", "setup:"),
        ("%%provision dev\n|", "accelerators:"),
        ("%prices A100 --cloud gcp --region |", "eu-west-1"),
        ("pri|", "--dry-run"),
        ("resources:\n  accel|", "accelerators:"),
    ],
)
def test_it_does_not_offer_what_does_not_fit(shared: Kernel, cell: str, unwanted: str) -> None:
    assert unwanted not in at(shared, cell)


def test_what_is_offered_replaces_what_was_typed(shared: Kernel) -> None:
    code = "%prices h10"
    reply = shared.reply(shared.client.complete(code, len(code)))
    assert "H100" in reply["matches"]
    assert code[: reply["cursor_start"]] + "H100" + code[reply["cursor_end"] :] == "%prices H100"


def test_python_cells_are_left_to_python(shared: Kernel) -> None:
    shared.run("import collections")
    assert any(match.endswith("OrderedDict") for match in at(shared, "collections.Ordered|"))


def test_cluster_names(shared_cluster: Kernel) -> None:
    assert at(shared_cluster, "%%on |\n1") == ["dev"]
    assert at(shared_cluster, "%nbprov down d|") == ["dev"]
    assert at(shared_cluster, "%%provision d|\nresources:") == ["dev"]


def test_the_body_of_a_remote_cell_is_completed_from_there(shared_cluster: Kernel) -> None:
    shared_cluster.run(
        "%%on dev\nimport collections\nweights_there = collections.OrderedDict(loss_a=1)"
    )
    # The first Tab only starts the remote completer, which takes longer than a key may wait.
    shared_cluster.until(
        lambda: at(shared_cluster, "%%on dev\nx = 1\nprint(weights_|") == ["weights_there"],
        "the completer there",
    )
    # On a busy machine any answer can come too late for a key press.
    shared_cluster.until(
        lambda: (
            [m.rpartition(".")[2] for m in at(shared_cluster, "%%on dev\nweights_there.move_|")]
            == ["move_to_end"]
        ),
        "an attribute's name",
    )
    assert at(shared_cluster, "%%on dev --bash\nweights_|") == []
    assert at(shared_cluster, "%%on nowhere\nweights_|") == []


def test_shift_tab_tells_what_is_known_on_the_machine(shared_cluster: Kernel) -> None:
    there = 'def forget(rate: float = 0.5) -> None:\n    "Known \\x1b]0;a title\\x07there alone."\n'
    shared_cluster.run(f"%%on dev\n{there}both = 'there'")
    shared_cluster.run("def known(rate: int) -> None:\n    'Known here.'\nboth = 1")
    assert "Known there alone." in told(shared_cluster, "%%on dev\nx = 1\nforg|et(0.1)")
    assert "rate: float = 0.5" in told(shared_cluster, "\n%%on dev --env A=b -o x\nforget(0.1|)")
    raw = shared_cluster.client.inspect("%%on dev\nforget", 12, 1, reply=True, timeout=DEADLINE)[
        "content"
    ]["data"]
    assert set(raw) == {"text/plain"}
    assert "\x1b]" not in raw["text/plain"]
    assert "def forget" in ANSI.sub("", raw["text/plain"])  # with its source, as requested
    # A name that exists on both sides is the machine's in its cells, and a name of this kernel only
    # is not found.
    assert "str" in told(shared_cluster, "%%on dev\nbo|th")
    assert told(shared_cluster, "%%on dev\nkno|wn(1)") == ""
    # The local kernel answers everything else.
    assert "int" in told(shared_cluster, "bo|th")
    for cell in (
        "kno|wn(1)",
        "%%on dev --bash\nkno|wn",
        "%%on nowhere\nkno|wn(1)",
        "%%time\nkno|wn(1)",
    ):
        assert "Known here." in told(shared_cluster, cell), cell


def test_a_kernel_at_work_offers_nothing_at_once(shared_cluster: Kernel) -> None:
    (home,) = (shared_cluster.home / "local" / "i").glob("*/home")
    code = "import os, time\nwhile not os.path.exists('go-on'): time.sleep(0.01)"
    run = (
        f"nbprov.session().start_remote('dev', lambda live: "
        f"nbprov.machines.cells.cells.python_cell(live, {code!r}))"
    )
    shared_cluster.run(
        f"import collections, nbprov\nhere_alone = collections.OrderedDict()\nbusy = {run}"
    )
    running = "nbprov.session().wait_remote('dev', lambda live: live.head.agent.tasks())[-1].state"
    shared_cluster.until(lambda: shared_cluster.value(running) == "running", "the cell to run")
    started = time.monotonic()
    assert at(shared_cluster, "%%on dev\nweights_|") == []
    assert "OrderedDict" in told(
        shared_cluster, "%%on dev\nhere_a|lone"
    )  # Shift-Tab is answered by the local kernel
    assert time.monotonic() - started < 5
    (home / "go-on").touch()
    shared_cluster.run("busy.result(120)")


def test_a_tab_key_opens_no_connection(shared_cluster: Kernel) -> None:
    with new_kernel(shared_cluster.home) as other:
        assert at(other, "%%on dev\nweights_|") == []
        assert other.value(
            "[len(nbprov.session().engine.live) for nbprov in [__import__('nbprov')]]"
        ) == [0]


@pytest.mark.versions
def test_unloading_leaves_the_kernel_as_it_was(shared: Kernel) -> None:
    with new_kernel(shared.home) as other:
        wrapped = "vars(get_ipython().kernel).get('do_inspect')"
        assert other.value(f"{wrapped} is not None")
        other.run("%unload_ext nbprov")
        assert other.value(wrapped) is None
        # Another wrapper that was added meanwhile stays in place and still answers.
        other.run(
            "%load_ext nbprov\nkernel = get_ipython().kernel\nours = kernel.do_inspect\nseen = []"
        )
        other.run(
            "def theirs(*given):\n    seen.append(given)\n    return ours(*given)\n"
            "kernel.do_inspect = theirs\n%unload_ext nbprov"
        )
        assert "Return the number of items" in told(other, "le|n")
        assert other.value(f"({wrapped} is theirs, len(seen))") == [True, 1]


def test_places_without_a_name_are_not_offered(shared: Kernel) -> None:
    offered = at(shared, "%%provision dev\nresources:\n  region: |")
    assert {"eu", "us", "asia"} <= set(offered)
    assert all(word[:1].isalnum() for word in offered)


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("%%prov|ision dev\nresources:", "usage: %%provision"),
        ("%%o|n dev\n1", "usage: %%on"),
        ("%nbprov do|wn dev", "usage: %nbprov down"),
        ("%nb|prov", "%nbprov COMMAND"),
        ("%%provision dev\nresources:\n  acce|lerators: A100", "accelerators: GPUs of a node"),
        ("%%provision dev\nreso|urces:\n  accelerators: A100", "resources: demands on each node"),
    ],
)
def test_shift_tab_tells_of_magics_commands_and_keys(shared: Kernel, cell: str, words: str) -> None:
    assert words in told(shared, cell)
