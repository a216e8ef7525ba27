"""`%%on -i a,b -o c`: variables go to the machine and come back."""

from __future__ import annotations

from kernels import Kernel


def test_variables_go_there_and_come_back(shared_cluster: Kernel) -> None:
    shared_cluster.run("a, b = {'x': [1, 2]}, 'ä'")
    outcome = shared_cluster.run("%%on dev -i a,b -o c -o d\nc = a['x'] + [3]\nd = b * 2\nprint('ran')")
    assert outcome.everything == "ran\n"
    assert shared_cluster.value("[c, d]") == [[1, 2, 3], "ää"]
    assert shared_cluster.run("%%on dev\nprint([n for n in globals() if 'nbprov' in n])").text == "[]\n"


def test_what_is_large_is_sent_in_pieces_and_says_so(shared_cluster: Kernel) -> None:
    shared_cluster.run("big = bytes(range(256)) * 24_000")
    outcome = shared_cluster.run("%%on dev -i big -o back\nback = big[::-1]")
    lines = [d["data"]["text/plain"] for d in outcome.displays]
    assert lines == ["sending big: 0 of 6 MB", "fetching back: 0 of 6 MB"]
    shared_cluster.renewed(outcome.displays[1], "6 of 6 MB")
    assert shared_cluster.value("back == big[::-1]") is True


def test_what_cannot_travel_is_named_with_the_reason(shared_cluster: Kernel) -> None:
    shared_cluster.run("import threading\nlock, small = threading.Lock(), 1\nclass Mine: pass\nmine = Mine()")
    cases = {
        "-i lock": "lock (lock) cannot travel: TypeError: cannot pickle",
        "-i nothere": "there is no variable nothere here",
        "-i mine": "mine cannot be read on the machine: AttributeError: Can't get attribute 'Mine'",
        "-o nothere": "there is no variable nothere on the machine",
        "-o gen": "gen (generator) cannot travel: TypeError: cannot pickle 'generator' object",
        "-i 1x": "%%on -i wants names of variables, not '1x'",
        "-i small --bash": "variables travel with Python cells on the head alone",
    }
    for flags, words in cases.items():
        told = shared_cluster.run(f"%%on dev {flags}\ngen = (x for x in [])", ok=False).error_text
        assert told.startswith(words), told
        assert "\n  next: " in told


def test_too_much_is_refused_before_anything_is_sent(shared_cluster: Kernel) -> None:
    shared_cluster.run("import nbprov.notebook.travelling as t\nmost, t.MOST_BYTES = t.MOST_BYTES, 1_000_000\nwide = bytes(2_000_000)")
    try:
        told = shared_cluster.run("%%on dev -i wide\nprint('ran')", ok=False)
        assert told.error_text.startswith("wide makes it 2 MB, and at most 1 MB travel with a cell")
        back = shared_cluster.run("%%on dev -o wide\nwide = bytes(2_000_000)", ok=False)
        assert back.error_text.startswith("wide makes it 2 MB, and at most 1 MB travel with a cell")
        assert told.text == ""
    finally:
        shared_cluster.run("t.MOST_BYTES = most")
