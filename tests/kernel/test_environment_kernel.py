"""`python`: the same interpreter and packages on every node, made by the real uv, and failed
setups."""

from __future__ import annotations

from pathlib import Path

from kernels import CPU, Kernel, new_kernel

PAIR = "num_nodes: 2\nresources: {cpus: 2, infra: local}"
LOOK = (
    "%%on dev --nodes all\nimport six, sys\n"
    "print(six.__version__, sys.prefix.rpartition('.nbprov/')[2][:5])"
)


def test_both_nodes_have_it_and_it_is_made_once(kernel: Kernel) -> None:
    cell = (
        f"%%provision dev --yes --wait\n{PAIR}\npython: {{requirements: [six==1.16.0, tomli]}}\n"
        f"setup: pip --version; echo $VIRTUAL_ENV"
    )
    kernel.run(cell)
    assert sorted(kernel.run(LOOK).text.splitlines()) == ["[0] 1.16.0 envs/", "[1] 1.16.0 envs/"]
    here = kernel.run(
        "%%on dev --bash --nodes all\n"
        "python -c 'import sys, tomli; print(sys.prefix == \"'$VIRTUAL_ENV'\")'"
    ).text
    assert sorted(here.splitlines()) == ["[0] True", "[1] True"]
    told = kernel.run("%nbprov logs dev setup").text
    assert told.startswith("pip ")
    assert ".nbprov/envs/" in told
    assert "python: made in" in kernel.run("%nbprov logs dev python").text
    # The same cell asks for nothing again, and a requested setup finds the existing environment.
    assert "python: as before" in kernel.run(cell).text
    kernel.run("%nbprov setup dev")
    assert kernel.run("%nbprov logs dev python").text.startswith("python: as before: Python 3.")

    # Another list gets another environment, and kernels move there between two cells.
    kernel.run("%%on dev\nkept = 1")
    kernel.run(cell.replace("1.16.0", "1.15.0"))
    moved = kernel.run(LOOK)
    assert sorted(moved.text.splitlines()) == ["[0] 1.15.0 envs/", "[1] 1.15.0 envs/"]
    assert moved.stderr.count("the Python environment of the machine is another one now") == 2
    assert "NameError" in kernel.run("%%on dev\nkept", ok=False).error_text
    # Going back makes nothing new.
    kernel.run(cell)
    assert kernel.run("%nbprov logs dev python").text.startswith("python: as before")
    assert sorted(kernel.run(LOOK).text.splitlines())[0] == "[0] 1.16.0 envs/"

    # A list that cannot be installed: the error has its last lines, and the machines are unchanged.
    error = kernel.run(cell.replace("six==1.16.0", "six==99"), ok=False).error_text
    assert "python ended with code 1 on node 0" in error
    assert "no version of six==99" in error
    assert sorted(kernel.run(LOOK).text.splitlines())[0] == "[0] 1.16.0 envs/"


def test_a_file_is_read_before_anything_is_launched(home: Path, kernel: Kernel) -> None:
    kernel.run(f"import os; os.chdir({str(home)!r})")
    error = kernel.run(
        f"%%provision dev --yes --wait\n{CPU}\npython: nowhere.txt", ok=False
    ).error_text
    assert "nowhere.txt cannot be read" in error
    (home / "list.txt").write_text("-e .\n")
    assert (
        "list.txt, line 1"
        in kernel.run(f"%%provision dev --yes --wait\n{CPU}\npython: list.txt", ok=False).error_text
    )
    kernel.run("import nbprov")
    assert kernel.value("[c.name for c in nbprov.clusters(ended=True)]") == []


def test_a_corrected_setup_is_taken_with_its_log(kernel: Kernel) -> None:
    kernel.run(
        f"%%provision dev --yes --wait\n{CPU}\nsetup: echo first; exit 3\nrun: echo ran >> ran",
        ok=False,
    )
    again = kernel.run(
        f"%%provision dev --yes --wait\n{CPU}\nsetup: echo corrected\nrun: echo ran >> ran"
    )
    assert "setting it up failed before" in again.everything
    assert kernel.run("%nbprov logs dev setup").text == "corrected\n"
    kernel.run("import nbprov; nbprov.cluster('dev').wait_job('run')")
    assert kernel.run("%%on dev --bash\ncat ran").text == "ran\n"
    # What is done stays: the same cell changes nothing, and does not mention a setup that was not
    # run.
    assert (
        "not run again"
        not in kernel.run(
            f"%%provision dev --yes --wait\n{CPU}\nsetup: echo corrected\nrun: echo ran >> ran"
        ).text
    )
    kernel.run("%nbprov setup dev")
    assert kernel.value("[j.id for j in nbprov.cluster('dev').jobs()]") == [
        "setup",
        "run",
        "setup-2",
        "run-2",
        "setup-3",
    ]
    assert kernel.run("%%on dev --bash\ncat ran").text == "ran\n"


def test_down_where_that_is_asked_for(kernel: Kernel) -> None:
    spec = f"{CPU}\nsetup: echo last words; exit 3"
    error = kernel.run(
        f"%%provision dev --yes --wait --on-setup-failure down\n{spec}", ok=False
    ).error_text
    assert "setup ended with code 3\n    last words" in error
    assert (
        "it was ended, as on_setup_failure: down asks, confirmed by the cloud's list; it cost $"
        in error
    )
    kernel.run("import nbprov")
    assert kernel.value("[(c.name, c.state.value) for c in nbprov.clusters(ended=True)]") == [
        ["dev", "ended"]
    ]
    # Ending the machine loses none of the setup's output, and there is no `run` whose log could be
    # meant.
    assert "%nbprov logs dev" in error
    assert (
        kernel.run("%nbprov logs dev").text
        == "last words\n(from the local archive; dev has ended)\n"
    )
    # A cluster that was set up once may hold somebody's work, so an error in a later cell ends
    # nothing.
    good = f"{CPU}\non_setup_failure: down\n"
    kernel.run(f"%%provision dev --yes --wait\n{good}setup: test ! -e broken")
    kernel.run("%%on dev --bash\ntouch broken")
    assert "setup ended with code 1" in kernel.run("%nbprov setup dev", ok=False).error_text
    assert kernel.value("[c.state.value for c in nbprov.clusters()]") == ["running"]
    kernel.run("%%on dev --bash\nrm broken")
    kernel.run("%nbprov setup dev")


def test_the_log_is_shown_while_it_is_written(kernel: Kernel) -> None:
    setup = (
        "setup: |\n  for n in 1 2 3; do echo line $n; done\n"
        "  while [ ! -e ~/go ]; do sleep 0.05; done\n  echo over"
    )
    kernel.run(f"%%provision dev --yes\n{CPU}\n{setup}")
    comm = kernel.panels()[0]
    kernel.until(
        lambda: kernel.state(comm).get("log", [])[-3:] == [f"setup: line {n}" for n in (1, 2, 3)],
        "the log in the panel",
    )
    homes = list((kernel.home / "local" / "i").glob("*/home"))
    (homes[0] / "go").touch()
    kernel.until(
        lambda: kernel.state(comm).get("log") == [] and kernel.state(comm)["state"] == "ready",
        "the end of the log",
    )
    assert kernel.run("%nbprov logs dev setup").text.splitlines()[-1] == "over"


def test_where_lines_are_printed_every_line_of_the_log_is(home: Path) -> None:
    setup = "setup: for n in 1 2 3; do echo line $n; sleep 0.05; done"
    lines = ["setup: line 1", "setup: line 2", "setup: line 3"]
    with new_kernel(home, is_notebook=False) as kernel:
        first = kernel.run(f"%%provision dev --yes --wait\n{CPU}\n{setup}; exit 3", ok=False)
        assert [line for line in first.text.splitlines() if line.startswith("setup: line")] == lines
        second = kernel.run(f"%%provision dev --yes --wait\n{CPU}\n{setup}").text
        assert [line for line in second.splitlines() if line.startswith("setup: line")] == lines
        assert "dev is set up: %%on dev runs cells on it" in second
