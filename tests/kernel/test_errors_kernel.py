"""What a failing cell shows: an error of a few lines, with the next step."""

from __future__ import annotations

import nbformat
import pytest
from homes import machines, market
from kernels import CPU, GPU, Kernel, new_kernel
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

BAD = """%%provision bad
resources:
  acelerators: A100
  cpus: many
num_nodes: 0
"""


def test_all_errors_of_a_spec_at_once_each_with_its_place_and_a_hint(shared: Kernel) -> None:
    told = shared.run(BAD, ok=False).error_text.splitlines()
    assert told[0].startswith("3 problems in this cell")
    assert len(told) <= 1 + 3 * 4
    # Lines are counted as the editor shows them, including the line of the magic.
    assert any(
        line.startswith("line 3, column 3") and "[spec.unknown-field]" in line for line in told
    )
    assert any(line.startswith("line 4, column 9") for line in told)
    assert any(line.startswith("line 5") for line in told)
    caret = next(n for n, line in enumerate(told) if line.strip(" |") == "^")
    assert told[caret].index("^") == told[caret - 1].index("acelerators")
    assert "did you mean `accelerators`?" in told[caret + 1]


def test_the_error_stops_nbclient(home) -> None:
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_code_cell("%load_ext nbprov"),
            nbformat.v4.new_code_cell(BAD),
            nbformat.v4.new_code_cell("never = 1"),
        ]
    )
    with pytest.raises(CellExecutionError, match="spec\\.unknown-field"):
        NotebookClient(notebook, timeout=180).execute()
    outputs = notebook.cells[1].outputs
    assert [o.output_type for o in outputs] == ["error"]
    assert len(outputs[0].traceback) <= 13
    assert notebook.cells[2].outputs == []


@pytest.mark.parametrize(
    ("cell", "code", "hint"),
    [
        (f"%%provision --race 0\n{GPU}", "usage", "%%provision --help"),
        (f"%%provision --env novalue\n{GPU}", "env.missing", "novalue=VALUE"),
        (f"%%provision --env OTHER=1\n{GPU}", "env.unknown", "its envs and secrets: none"),
        (f"%%provision -bad-\n{GPU}", "usage", "--help"),
        (f"%%provision bad.\n{GPU}", "cluster.name", "letters, digits"),
        ("%%provision x\nresources: {accelerators: A1000, infra: local}", "A1000", "did you mean"),
        ("%%provision x\nresources: {accelerators: A100, infra: locl}", "locl", "local"),
        ("%%on nosuch\n1", "cluster.not-found", "live clusters"),
        ("%nbprov down nosuch", "cluster.not-found", "live clusters"),
        ("%nbprov down", "name the cluster", "next:"),
        ("%nbprov logs", "usage", "%nbprov logs --help"),
        # The error is found before anything is billed.
        (
            f"%%provision bad --yes --wait\n{CPU}\nworkdir: ./nosuch",
            "sync.missing",
            "the notebook's folder",
        ),
        (
            f"%%provision bad --yes --wait\n{CPU}\nfile_mounts: {{~/all: '~'}}",
            "sync.home",
            "a folder below it",
        ),
        ("%nbprov plan", "usage", "%%nbprov plan"),
        ("%prices A100:0", "catalog.query", "write A100"),
        ("%prices A100 --max-price lots", "usage", "number of dollars"),
        ("%prices it's", "usage", "double quotes"),
    ],
)
def test_errors_of_use_are_short_and_say_what_to_do(
    shared: Kernel, cell: str, code: str, hint: str
) -> None:
    told = shared.run(cell, ok=False).error_text
    assert len(told.splitlines()) <= 6
    assert code in told
    assert hint in told
    assert machines(shared.home) == 0


def test_a_run_without_machines_tells_its_history_and_leaves_its_handle(
    home, kernel: Kernel
) -> None:
    market(home, '[[stock]]\ntype = "gpu"\nleft = 0\n')
    outcome = kernel.run(f"%%provision none --yes --wait\n{GPU}", ok=False)
    told = outcome.error_text.splitlines()
    assert told[0] == "none: no machine in 4 attempts: out of stock (4)  [provision.unavailable]"
    assert [line.split(".")[0].strip() for line in told[1:5]] == ["1", "2", "3", "4"]
    assert "out of stock" in told[1]
    assert "next: allow more regions" in told[5]
    assert kernel.value(
        "[none.state.value, type(none.error).__name__, len(none.error.attempts)]"
    ) == ["failed", "Unavailable", 4]
    # Waiting again raises the same error instead of waiting forever.
    assert "no machine in 4 attempts" in kernel.run("none.wait()", ok=False).error_text
    assert "no machine in 4 attempts" in kernel.run("await none", ok=False).error_text
    # What was refused everywhere is blocked for a while, and a second try says so.
    again = kernel.run(f"%%provision none --yes --wait\n{GPU}", ok=False).error_text
    assert len(again.splitlines()) <= 4
    assert kernel.value("none.plan.chosen is None")
    assert "4 blocks removed" in kernel.run("%nbprov blocks --clear").text
    assert machines(home) == 0


def test_a_failed_setup_shows_its_last_lines_and_keeps_the_cluster(kernel: Kernel) -> None:
    told = kernel.run(
        f"%%provision s --yes --wait\n{CPU}\nsetup: |\n  echo before\n  echo broken >&2\n"
        f"  exit 7\n",
        ok=False,
    ).error_text
    assert "setup ended with code 7" in told
    assert "broken" in told
    assert "%%on s --bash" in told
    assert kernel.run("%%on s --bash\necho it is there").text == "it is there\n"
    assert kernel.value("s.bash('echo its handle, too').text") == "its handle, too\n"
    kernel.run("%nbprov down s")


def test_the_log_goes_to_a_file_and_not_into_a_cell(home, kernel: Kernel) -> None:
    outcome = kernel.run(
        "import logging; logging.getLogger('nbprov.engine').warning('from a thread')"
    )
    assert (outcome.text, outcome.stderr) == ("", "")
    assert "WARNING nbprov.engine: from a thread" in (home / "logs" / "nbprov.log").read_text()


def test_a_ledger_of_a_later_release_is_refused_politely(home) -> None:
    import sqlite3

    with sqlite3.connect(home / "ledger.sqlite3") as db:
        db.execute("PRAGMA user_version = 9999")
    with new_kernel(home, load=False) as kernel:
        told = kernel.run("%load_ext nbprov", ok=False).error_text
        assert len(told.splitlines()) <= 4
        assert "newer" in told
