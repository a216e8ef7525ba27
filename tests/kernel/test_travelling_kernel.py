"""`%%on -i a,b -o c`: variables go to the machine and come back."""

from __future__ import annotations

import re

from kernels import Kernel


def test_variables_go_there_and_come_back(shared_cluster: Kernel) -> None:
    shared_cluster.run("a, b = {'x': [1, 2]}, 'ä'")
    outcome = shared_cluster.run(
        "%%on dev -i a,b -o c -o d\nc = a['x'] + [3]\nd = b * 2\nprint('ran')"
    )
    assert outcome.text == "ran\n"
    assert shared_cluster.value("[c, d]") == [[1, 2, 3], "ää"]
    assert (
        shared_cluster.run("%%on dev\nprint([n for n in globals() if 'nbprov' in n])").text
        == "[]\n"
    )
    (agent,) = shared_cluster.home.glob("local/i/*/home/.nbprov")
    shared_cluster.until(
        lambda: list((agent / "boxes").iterdir()) == [], "nothing is left of what travelled"
    )


def test_what_is_large_is_sent_in_pieces_and_says_so(shared_cluster: Kernel) -> None:
    shared_cluster.run("big = bytes(range(256)) * 24_000")
    outcome = shared_cluster.run("%%on dev -i big -o back\nback = big[::-1]")
    lines = [
        d["data"]["text/plain"] for d in outcome.displays if "·" not in d["data"]["text/plain"]
    ]
    assert len(lines) == 2, (
        lines
    )  # one there and one back; on a busy machine lines about earlier work come first
    for display, end in zip(
        [d for d in outcome.displays if "·" not in d["data"]["text/plain"]],
        ("sending big", "fetching back"),
        strict=True,
    ):
        shared_cluster.renewed(display, f"{end}: 6 of 6 MB")
    assert shared_cluster.value("back == big[::-1]") is True


def test_what_cannot_travel_is_named_with_the_reason(shared_cluster: Kernel) -> None:
    shared_cluster.run(
        "import threading\nlock, small = threading.Lock(), 1\nclass Mine: pass\nmine = Mine()"
    )
    cases = {
        "-i lock": "lock (lock) cannot be copied: it belongs to the process that created it",
        "-i nothere": "there is no variable nothere here",
        "-i mine": "mine cannot be read on dev: its class or function Mine is only defined in a "
        "cell "
        "here",
        "-o nothere": "there is no variable nothere on the machine",
        "-o gen": "gen (generator) cannot be copied: a generator or iterator is code in the middle "
        "of "
        "running",
        "-o gen --trust": "gen (generator) cannot be copied: a generator or iterator is code in "
        "the "
        "middle "
        "of "
        "running",
        "-i small --trust": "--trust only applies to variables that -o brings back",
        "-i 1x": "%%on -i takes names of variables, not '1x'",
        "-i small --bash": "-i and -o only work with Python cells on the head node",
    }
    for flags, words in cases.items():
        told = shared_cluster.run(f"%%on dev {flags}\ngen = (x for x in [])", ok=False).error_text
        assert told.startswith(words), told
        assert "\n  next: " in told


def test_too_much_is_refused_before_anything_is_sent(shared_cluster: Kernel) -> None:
    shared_cluster.run(
        "import nbprov.notebook.magics.on_variables as t\n"
        "most, t.MOST_BYTES = t.MOST_BYTES, 1_000_000\nwide = bytes(2_000_000)"
    )
    try:
        told = shared_cluster.run("%%on dev -i wide\nprint('ran')", ok=False)
        assert told.error_text.startswith(
            "with wide (bytes) the variables take 2 MB or more, and a cell can copy at most 1 MB"
        )
        back = shared_cluster.run("%%on dev -o wide\nwide = bytes(2_000_000)", ok=False)
        assert back.error_text.startswith(
            "with wide (bytes) the variables take 2 MB or more, and a cell can copy at most 1 MB"
        )
        assert told.text == ""
    finally:
        shared_cluster.run("t.MOST_BYTES = most")


HOSTILE = """%%on dev
# What a hostile machine would do: the variable is a program, and so is the pickler.
import pickle
class Evil:
    def __reduce__(self):
        import os
        return os.system, ("touch {flag}",)
evil = Evil()
_real = pickle.Pickler
class Pickler(_real):
    def __init__(self, file, protocol):
        self.file = file
    def dump(self, value):
        self.file.write(pickle.dumps(value))
pickle.Pickler = Pickler
"""


def test_what_a_hostile_machine_sends_is_not_run(shared_cluster: Kernel) -> None:
    flag = shared_cluster.home / "owned"
    shared_cluster.run(HOSTILE.format(flag=flag))
    try:
        told = shared_cluster.run("%%on dev -o evil\npass", ok=False).error_text
        assert told.startswith("evil arrived, but is not accepted: it holds posix.system"), told
        assert "--trust" in told
        assert not flag.exists()
    finally:
        shared_cluster.run("%%on dev\npickle.Pickler = _real")
    named = shared_cluster.run("%%on dev -o evil\npass", ok=False).error_text
    assert named.startswith(
        "evil (Evil) cannot be copied: its class is defined in a notebook or cell"
    )
    assert "--trust" in named
    shared_cluster.run("%%on dev -o evil --trust\npass")
    assert flag.exists()  # which shows that the other checks could have failed


def test_arrays_and_tables_travel(shared_cluster: Kernel) -> None:
    shared_cluster.run(
        "import numpy as np, pandas as pd\ntable = pd.DataFrame({'n': [1, 2], 's': ['a', None]})"
    )
    shared_cluster.run(
        "%%on dev -i table -o table2,arrays\nimport numpy as np\n"
        "table2 = table.assign(m=table.n * 2)\narrays = {'w': np.eye(2)}"
    )
    assert shared_cluster.value("table2.equals(table.assign(m=table.n * 2))") is True
    assert shared_cluster.value("arrays['w'].tolist()") == [[1, 0], [0, 1]]


def test_an_interrupt_is_heard_while_a_large_value_is_built_here(shared_cluster: Kernel) -> None:
    def lines() -> list[str]:
        texts = [
            m["content"]["data"].get("text/plain", "")
            for m in shared_cluster.outcome(request).messages
            if m["msg_type"] in ("display_data", "update_display_data")
        ]
        return [text for text in texts if text.startswith("reading large")]

    # Building this takes many seconds here; the machine packs it in one.
    request = shared_cluster.send("%%on dev -o large\nlarge = [7] * 16_000_000")
    shared_cluster.until(lines, "it is said that it is built")
    shared_cluster.interrupt(request)
    told = shared_cluster.finish(request).error_text
    assert told.startswith("interrupted; the cell ran, and large is still on dev")
    # The building stopped in the middle: whoever hears only at its end gets to all 32 MB.
    done, total = map(int, re.fullmatch(r"reading large: (\d+) of (\d+) MB", lines()[-1]).groups())
    assert (done < 24, total) == (True, 32)
    assert shared_cluster.value("'large' in globals()") is False
    assert shared_cluster.run("%%on dev -o few\nfew = large[:2]\ndel large").error is None
    assert shared_cluster.value("few") == [7, 7]


SLOW = """%%on dev -o slow --trust
import os, time
class Slow:
    def __reduce__(self):
        open('packing', 'w').close()
        while not os.path.exists('never'): time.sleep(0.01)
slow = Slow()
"""


def test_a_copy_that_takes_long_says_so_and_an_interrupt_of_it_reaches_the_machine(
    shared_cluster: Kernel,
) -> None:
    (machine,) = shared_cluster.home.glob("local/i/*/home")
    request = shared_cluster.send(SLOW)
    said = shared_cluster.until(
        lambda: [
            d
            for d in shared_cluster.outcome(request).displays
            if "packing" in d["data"]["text/plain"]
        ],
        "it is said that it packs",
    )
    assert said[0]["data"]["text/plain"] == "packing slow there …"
    assert (machine / "packing").exists()
    shared_cluster.interrupt(request)
    told = shared_cluster.finish(request).error_text
    assert (
        told
        == "interrupted; the cell ran, and slow is still on dev: %%on dev -o slow fetches again"
    )
    assert shared_cluster.run("%%on dev\nprint('free', type(slow).__name__)").text == "free Slow\n"
    shared_cluster.until(
        lambda: list((machine / ".nbprov" / "boxes").iterdir()) == [],
        "nothing is left of what was on its way",
    )
