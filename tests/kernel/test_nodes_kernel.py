"""`%%on --nodes`: which machines run the cell, how their lines look, and whose error is raised."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kernels import Kernel, new_kernel

THREE = "resources: {cpus: 2, infra: local}\nnum_nodes: 3"
RANK = "import os; rank = int(os.environ['SKYPILOT_NODE_RANK'])"


@pytest.fixture(scope="module")
def three(shared_home: Path) -> Iterator[Kernel]:
    with new_kernel(shared_home) as kernel:
        kernel.run(f"%%provision gang --yes --wait\n{THREE}")
        kernel.run(f"%%on gang --nodes all\n{RANK}")
        kernel.run("%config Nbprov.badge = False")
        yield kernel


@pytest.mark.parametrize(
    ("nodes", "ranks"),
    [
        ("head", [0]),
        ("2", [2]),
        ("all", [0, 1, 2]),
        ("0,2", [0, 2]),
        ("1-2", [1, 2]),
        ("2,0-1", [0, 1, 2]),
    ],
)
def test_the_nodes_that_are_named_run_it(three: Kernel, nodes: str, ranks: list[int]) -> None:
    text = three.run(f"%%on gang --nodes {nodes}\nprint('rank', rank)").text
    marked = [f"[{rank}] rank {rank}" for rank in ranks] if len(ranks) > 1 else [f"rank {ranks[0]}"]
    assert sorted(text.splitlines()) == marked


@pytest.mark.parametrize("nodes", ["3", "1-3", "2-1", "x", "0,", "-1"])
def test_nodes_that_are_not_there_are_named(three: Kernel, nodes: str) -> None:
    told = three.run(f"%%on gang --nodes={nodes}\n1", ok=False).error_text
    assert "gang has no node" in told
    assert "--nodes: head, all, 0 to 2, a list 0,2 or a range 1-3" in told


def test_lines_stay_whole_and_values_come_in_the_order_of_the_nodes(three: Kernel) -> None:
    code = (
        "import sys, time\nfor n in range(20):\n"
        "    sys.stdout.write(f'{rank}:'); sys.stdout.flush()\n"
        "    time.sleep(0.002 * (3 - rank)); print(n)\nrank * 10"
    )
    lines = three.run(f"%%on gang --nodes all\n{code}").text.splitlines()
    assert lines[-3:] == ["[0] 0", "[1] 10", "[2] 20"]
    for rank in range(3):
        assert [line for line in lines[:-3] if line.startswith(f"[{rank}]")] == [
            f"[{rank}] {rank}:{n}" for n in range(20)
        ]


def test_displays_come_in_the_order_of_the_nodes(three: Kernel) -> None:
    outcome = three.run(
        "%%on gang --nodes all\nfrom IPython.display import HTML\n"
        "import time; time.sleep(0.1 * (2 - rank))\nHTML(f'<b>{rank}</b>')"
    )
    assert [d["data"]["text/html"] for d in outcome.displays] == [
        "<b>0</b>",
        "<b>1</b>",
        "<b>2</b>",
    ]


def test_an_error_names_its_nodes_and_the_others_go_to_their_end(three: Kernel) -> None:
    outcome = three.run(
        "%%on gang --nodes all\nif rank: raise ValueError(f'on {rank}')\n"
        "import time; time.sleep(0.5); print('done')",
        ok=False,
    )
    assert outcome.text == "[0] done\n"
    assert outcome.error_text.startswith("failed on nodes 1, 2 of 3; the first of them:\n[1]\n")
    assert "ValueError: on 1" in outcome.error_text
    assert "nbprov: [2] ValueError: on 2\n" in outcome.stderr
    script = three.run(
        "%%on gang --bash --nodes 1-2\nexit $SKYPILOT_NODE_RANK", ok=False
    ).error_text
    assert (
        script.splitlines()[0].startswith(
            "failed on nodes 1, 2 of 3: [1] the script ended with code 1"
        )
        or "of 2: [1] the script" in script
    )


def test_an_interrupt_reaches_all_of_them(three: Kernel) -> None:
    request = three.send(
        "%%on gang --nodes all\nimport time\nprint('in', flush=True)\ntime.sleep(60)"
    )
    three.until(lambda: three.outcome(request).text.count("in\n") == 3, "all three to begin")
    three.interrupt(request)
    assert three.finish(request).error_text == "interrupted on gang; its variables are still there"
    assert sorted(three.run("%%on gang --nodes all\nprint(rank)").text.splitlines()) == [
        "[0] 0",
        "[1] 1",
        "[2] 2",
    ]
