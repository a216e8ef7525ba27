"""What a machine's bytes may become here is bounded before it is built, and Ctrl-C is heard."""

from __future__ import annotations

import collections
import io
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nbprov.machines.variables import decode_limits
from nbprov.machines.variables.restricted_unpickler import plain_value
from nbprov.machines.variables.value_builders import NotPlain

SECONDS = 20
"""A refusal takes a few at most; without the bounds each of these takes minutes or gigabytes."""


class Tagged:
    """Stands for a tagged tuple of the packing program."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts


class Packer(pickle.Pickler):
    def persistent_id(self, obj: Any) -> Any:
        return obj.parts if isinstance(obj, Tagged) else None


def packed(value: Any) -> bytes:
    file = io.BytesIO()
    Packer(file, 5).dump(value)
    return file.getvalue()


def array(*shape: int, dtype: str = "<i8") -> tuple[Any, ...]:
    made = np.zeros(shape, dtype)
    return ("array", dtype, shape, "C", made.tobytes())


def ranged(length: int) -> tuple[Any, ...]:
    return ("range", 0, length, 1, None)


ALIKE = [packed((2**61 - 1) * n)[2:-1] for n in range(100_000)]
"""Numbers that hash alike, each as the operations that make it."""
SHARED = b"\0" * 4_000_000
MINUS = b"J\xff\xff\xff\xff", b"J\xfe\xff\xff\xff"
PAIRS = [b"(" + b"".join(MINUS[n >> k & 1] for k in range(13)) + b"t" for n in range(2**13)]
"""Tuples that hash alike."""
HUGE = 5 * 10**8
BOMBS: dict[str, Callable[[], bytes]] = {
    "a single value for each row": lambda: packed(
        Tagged("series", ranged(HUGE), ("numpy", array()), None)
    ),
    "a table of one": lambda: packed(
        Tagged("frame", ranged(HUGE), ranged(1), [("numpy", array())])
    ),
    "a column of a table": lambda: (
        b"\x80\x05" + packed(Tagged("frame", ranged(HUGE), ranged(0), []))[2:-1] + b"K\0K\1s."
    ),
    "categories": lambda: packed(
        Tagged("categorical", ("category", array(1, dtype="<i1"), ranged(HUGE), False))
    ),
    "levels": lambda: packed(
        Tagged("alone", ("multi", [ranged(HUGE)], [array(1, dtype="<i1")], [None]))
    ),
    "one array many times": lambda: packed(
        [Tagged("array", "<i8", (500_000,), "C", SHARED) for _ in range(1000)]
    ),
    "one text many times": lambda: packed([Tagged("bytearray", SHARED) for _ in range(1000)]),
    "one list many times": lambda: packed(
        (lambda items: [Tagged("deque", items, None) for _ in range(2000)])([0] * 500_000)
    ),
    "empty sets": lambda: b"\x80\x05](" + b"\x8f" * 2_000_000 + b"e.",
    "notes": lambda: b"\x80\x05N" + b"\x94" * 2_000_000 + b".",
    "numbers alike in a set": lambda: b"\x80\x05\x8f(" + b"".join(ALIKE) + b"\x90.",
    "tuples alike in a set": lambda: b"\x80\x05\x8f(" + b"".join(PAIRS) + b"\x90.",
    "numbers alike in a frozenset": lambda: b"\x80\x05(" + b"".join(ALIKE) + b"\x91.",
    "keys alike": lambda: b"\x80\x05}(" + b"N".join(ALIKE) + b"Nu.",
    "keys alike, one by one": lambda: b"\x80\x05}" + b"Ns".join(ALIKE) + b"Ns.",
    "pairs alike": lambda: packed(Tagged("ordered", [((2**61 - 1) * n, 1) for n in range(20_000)])),
    "counted alike": lambda: packed(
        Tagged("counter", [((2**61 - 1) * n, 1) for n in range(20_000)])
    ),
    "a list in itself": lambda: b"\x80\x05]\x94h\0a\x85\x8c\x05array\x94h\0\x86Q.",
}


PROGRAM = """
import pandas, pickle, resource, sys
from nbprov.machines.variables.restricted_unpickler import plain_value
from nbprov.machines.variables import decode_limits
from nbprov.machines.variables.value_builders import NotPlain
decode_limits.MOST_BUILT = 100_000_000  # the last million of a gigabyte are counted alike
bombs = pickle.load(sys.stdin.buffer)
now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + 1_000_000_000,) * 2)
for name, data in bombs.items():
    used = int(sum(resource.getrusage(0)[:2]))
    resource.setrlimit(resource.RLIMIT_CPU, (used + SECONDS, -1))
    print(name, end=": ", flush=True)
    try:
        plain_value(data)
    except NotPlain:
        print("refused", flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the test's own bounds are those of Linux")
def test_what_would_become_too_much_is_refused_before_it_is_built() -> None:
    """In a process whose memory and time the system bounds."""
    bombs = {name: make() for name, make in BOMBS.items()}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("SECONDS", str(SECONDS))],
        input=pickle.dumps(bombs),
        capture_output=True,
        timeout=300,
    )
    assert done.stdout.decode().splitlines() == [f"{name}: refused" for name in BOMBS], done.stderr


def test_honest_values_stay_within_the_bounds() -> None:
    value = {
        "grid": {(x, y) for x in range(-200, 200) for y in range(-200, 200)},
        "numbers": set(range(-100_000, 100_000)),
        "rows": [{"name": f"row {n}", "pair": (n, -1.0)} for n in range(20_000)],
        "deep": [[[[[1]]]]],
    }
    assert plain_value(packed(value)) == value
    assert plain_value(packed(Tagged("ordered", [(1, 2), ("a", 3)]))) == collections.OrderedDict(
        [(1, 2), ("a", 3)]
    )
    frame = plain_value(packed(Tagged("frame", ranged(3), ranged(1), [("numpy", array(3))])))
    assert frame.equals(pd.DataFrame([0, 0, 0]))


def alike(length: int) -> np.ndarray[Any, Any]:
    """Return numbers of 64 bits that pandas hashes alike, or nearly so, in no order."""
    high = np.arange(1, length + 1, dtype=np.uint64)
    low = high.copy()
    for _ in range(4):
        low = high ^ ((low << np.uint64(11)) & np.uint64(0xFFFFFFFF))
    keys = ((high << np.uint64(33)) | low).astype(np.int64)
    np.random.default_rng(0).shuffle(keys)
    return keys


def index_of(values: Any) -> tuple[Any, ...]:
    return ("index", values, None, None)


def numbers(values: np.ndarray[Any, Any], dtype: str = "<i8") -> tuple[Any, ...]:
    return ("numpy", ("array", dtype, values.shape, "C", values.astype(dtype).tobytes()))


MANY = 30_000
LABELS: dict[str, Callable[[], tuple[Any, ...]]] = {
    "numbers": lambda: numbers(alike(MANY)),
    "dates": lambda: numbers(alike(MANY), "<M8[ns]"),
    "periods": lambda: ("period", numbers(alike(MANY))[1], "D"),
    "objects": lambda: ("numpy", ("objects", (3000,), [(2**61 - 1) * n for n in range(1, 3001)])),
}


@pytest.mark.parametrize("labels", LABELS)
def test_labels_that_pandas_hashes_alike_are_refused(labels: str) -> None:
    index, codes = index_of(LABELS[labels]()), array(1, dtype="<i4")
    begun = time.thread_time()
    for bomb in (
        Tagged("categorical", ("category", codes, index, False)),
        Tagged("alone", ("multi", [index], [codes], ["a"])),
    ):
        with pytest.raises(NotPlain, match=r"sorted|alike"):
            plain_value(packed(bomb))
    assert time.thread_time() - begun < 2


def test_honest_categories_and_levels_come_back_however_many_they_are() -> None:
    many, codes = np.arange(200_000), array(1, dtype="<i4")
    few = np.random.default_rng(0).permutation(5000)
    for values in (many, many[::-1], few):
        index = index_of(numbers(values))
        made = plain_value(packed(Tagged("categorical", ("category", codes, index, False))))
        assert list(made.categories) == list(values)
        made = plain_value(packed(Tagged("alone", ("multi", [index], [codes], ["a"]))))
        assert list(made.levels[0]) == list(values)
    texts = [f"user {n}" for n in range(50_000)][::-1]
    index = index_of(("typed", "str", texts))
    made = plain_value(packed(Tagged("categorical", ("category", codes, index, False))))
    assert list(made.categories) == texts


def test_time_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode_limits, "MOST_SECONDS", 0.0)
    with pytest.raises(NotPlain, match="more time"):
        plain_value(packed([[n] for n in range(1000)]))
