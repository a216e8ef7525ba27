"""`%nbprov sync`: a summary first, then the transfer, both ways; an interrupt leaves complete
files."""

from __future__ import annotations

from kernels import Kernel

MAKE = """
import os, pathlib, nbprov
def write(folder, **files):
    for name, size in files.items():
        path = pathlib.Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size))
"""


def test_a_folder_goes_there_and_comes_back(shared_cluster: Kernel) -> None:
    shared_cluster.run(
        MAKE
        + (
            "write('runs', a=2_000_000, b=10)\nwrite('runs/logs', x=5)\n"
            "open('runs/.nbprovignore', 'w').write('logs/\\n')"
        )
    )
    dry = shared_cluster.run("%nbprov sync dev runs --push --dry").text
    assert dry.splitlines()[:2] == [
        "runs to ~/runs on dev: 3 files, 2.0 MB (3 new); a dry run, nothing is changed",
        "  largest: a 2.0 MB, b 10 B, .nbprovignore 6 B",
    ]
    assert "ignored by the folder's ignore file, or .git: 1 (logs/)" in dry
    assert shared_cluster.run("%%on dev --bash\nls runs 2>/dev/null || echo none").text == "none\n"
    pushed = shared_cluster.run("%nbprov sync dev runs --push").text
    assert "\n  3 files moved and verified, 2.0 MB over the line, " in pushed
    assert (
        shared_cluster.run("%%on dev --bash\nls runs; echo result > runs/out.txt").text == "a\nb\n"
    )
    both = shared_cluster.run("%nbprov sync dev runs").text
    assert both.startswith(
        "runs and ~/runs on dev: 0 files up and 1 down, 7 B (1 new), 3 are the same\n"
    )
    assert shared_cluster.value("open('runs/out.txt').read()") == "result\n"
    again = shared_cluster.run("%nbprov sync dev runs:~/runs").text.splitlines()
    assert (again[0], again[-1]) == (
        "runs and ~/runs on dev: nothing to move, 4 are the same",
        "  in step",
    )


def test_what_is_deleted_is_named_first(shared_cluster: Kernel) -> None:
    shared_cluster.run(MAKE + "write('less', keep=1)")
    shared_cluster.run("%%on dev --bash\nmkdir -p less; touch less/old less/older")
    assert "deleted" not in shared_cluster.run("%nbprov sync dev less --push").text
    assert (
        "  would be deleted there: 2 (old, older)\n"
        in shared_cluster.run("%nbprov sync dev less --push --delete --dry").text
    )
    done = shared_cluster.run("%nbprov sync dev less --push --delete").text
    assert "  is deleted there: 2 (old, older)\n" in done
    assert ", 2 deleted, " in done
    assert shared_cluster.run("%%on dev --bash\nls less").text == "keep\n"


def test_the_handle_and_its_twin(shared_cluster: Kernel) -> None:
    shared_cluster.run(
        MAKE + "write('data', **{'a.csv': 10, 'b.csv': 20})\ndev_handle = nbprov.cluster('dev')"
    )
    assert shared_cluster.value("dev_handle.push('data', '~/data').files") == 2
    assert shared_cluster.value("dev_handle.pull('~/data', 'back').files") == 2
    assert shared_cluster.run("(await nbprov.aio.pull('dev', '~/data', 'again')).files").values == [
        "2"
    ]
    assert (
        shared_cluster.value("open('again/a.csv', 'rb').read() == open('data/a.csv', 'rb').read()")
        is True
    )


def test_errors_are_short(shared_cluster: Kernel) -> None:
    cases = {
        "dev nothere --push": "there is no folder ",
        "dev back:~/nothere --pull": "there is no folder ~/nothere on the machine",
        "dev x:": "%nbprov sync takes PATH or PATH:REMOTE, not 'x:'",
        "dev . --push --pull": "%nbprov sync: argument --pull: not allowed with argument --push",
        "dev data:~ --push": "~ holds the machine's whole home",
        "dev data --push --node 7": "dev has no node 7",
    }
    shared_cluster.run(MAKE + "write('data', a=10)")
    for line, words in cases.items():
        told = shared_cluster.run(f"%nbprov sync {line}", ok=False).error_text
        assert told.startswith(words), told
        assert len(told.splitlines()) == 2


def test_an_interrupt_leaves_whole_files_and_the_next_goes_on(shared_cluster: Kernel) -> None:
    shared_cluster.run(MAKE + "write('wide', big=150_000_000)")
    # Interrupted by its own progress, so that it happens at once however slow the machine is.
    shared_cluster.run(
        "import nbprov.notebook.commands.sync as s, _thread\n"
        "class Hasty(s._SyncDisplay):\n"
        "    def at(self, sent):\n"
        "        super().at(sent)\n"
        "        if sent > 3_000_000 and not getattr(self, 'done', False):\n"
        "            self.done = True\n"
        "            _thread.interrupt_main()\n"
        "usual, s._SyncDisplay = s._SyncDisplay, Hasty"
    )
    told = shared_cluster.run("%nbprov sync dev wide --push", ok=False).error_text
    assert told.startswith("interrupted; every file is complete")
    shared_cluster.run("s._SyncDisplay = usual")
    assert shared_cluster.run("%%on dev --bash\nls wide").text == ""
    outcome = shared_cluster.run("%nbprov sync dev wide --push")
    assert "1 file moved and verified" in outcome.text
    assert [d["data"]["text/plain"] for d in outcome.displays] == ["push wide: 0 of 150 MB"]
    shared_cluster.renewed(outcome.displays[0], "150 of 150 MB")
