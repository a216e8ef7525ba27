"""Values from a machine: plain data arrives unchanged, all else is refused before it can act."""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import io
import os
import pathlib
import pickle
import sys
import uuid
import zoneinfo
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbprov.machines.variables.restricted_unpickler import plain_value
from nbprov.machines.variables.value_builders import NotPlain
from nbprov.on_machine import pack_values as there


def packed(value: Any) -> bytes:
    file = io.BytesIO()
    told = there.pack({"x": value}, ["x"], 10**8, True, file)
    assert told == {"sizes": [len(file.getvalue())]}, told
    return file.getvalue()


def there_and_back(value: Any) -> Any:
    return plain_value(packed(value))


ZONE = zoneinfo.ZoneInfo("Europe/Berlin")
PLAIN: list[Any] = [
    None,
    {"a": [1, 2.5, -(2**80), "ä", b"\0", (True, None)], 3: {4, 5}, (1,): frozenset("ab")},
    1 + 2j,
    bytearray(b"xy"),
    range(2, 10**15, 3),
    slice(1, None, 2),
    ...,
    collections.OrderedDict([("b", 1), ("a", [2])]),
    collections.Counter("abca"),
    collections.deque([1, 2], 5),
    datetime.date(2026, 11, 22),
    datetime.datetime(2026, 11, 22, 1, 2, 3, 4),
    datetime.datetime(2026, 11, 22, 1, 2, tzinfo=datetime.UTC),
    datetime.datetime(2026, 10, 25, 2, 30, tzinfo=ZONE, fold=1),
    datetime.time(1, 2, 3),
    datetime.timedelta(-1, 2, 3),
    datetime.timezone(datetime.timedelta(hours=5, minutes=30)),
    decimal.Decimal("1.50"),
    fractions.Fraction(1, 3),
    uuid.UUID(int=7),
]


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: type(value).__name__)
def test_plain_values_come_back_as_they_were(value: Any) -> None:
    back = there_and_back(value)
    assert back == value
    assert type(back) is type(value)


def test_containers_that_hold_themselves_and_defaultdicts_and_paths() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    back = there_and_back(loop)
    assert back[1] is back
    found = there_and_back(collections.defaultdict(list, a=[1]))
    assert found == {"a": [1]}
    assert found["new"] == []
    assert there_and_back(Path("/data/x")) == pathlib.PurePosixPath("/data/x")


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype="<i4").reshape(3, 4),
        np.asfortranarray(np.eye(3, 2)),
        np.zeros((0, 3)),
        np.array(3.5),
        np.array(["a", "längere"]),
        np.array(["2026-11-22"], dtype="M8[ns]"),
        np.array([(1, 2.0)], dtype=[("a", "<i2"), ("b", "<f8", (2,))]),
        np.array([1, "x", None, [2]], dtype=object),
        np.array([True, False])[::-1],
        np.arange(4, dtype=">f4"),
    ],
    ids=lambda array: str(array.dtype)[:20],
)
def test_arrays(array: Any) -> None:
    back = there_and_back([array])[0]
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert repr(back) == repr(array)
    assert back.flags.writeable


def test_numpy_scalars() -> None:
    for value in (
        np.float32(1.5),
        np.int64(-3),
        np.bool_(True),
        np.str_("ä"),
        np.str_(""),
        np.datetime64("2026-11-22"),
    ):
        back = there_and_back(value)
        assert back == value
        assert type(back) is type(value)


def frames() -> list[pd.DataFrame]:
    days = pd.date_range("2026-01-01", periods=3, freq="D", tz="Europe/Berlin")
    mixed = pd.DataFrame(
        {
            "n": [1, 2, 3],
            "x": [0.5, np.nan, 2],
            "s": ["a", None, "ü"],
            "c": pd.Categorical(["lo", "hi", "lo"], categories=["lo", "hi"], ordered=True),
            "t": days,
            "p": pd.period_range("2026-01", periods=3, freq="M"),
            "i": pd.array([1, None, 3], dtype="Int64"),
            "b": pd.array([True, None, False], dtype="boolean"),
            "st": pd.array(["x", None, "z"], dtype="string"),
            "o": pd.Series([1, "x", [2]], dtype=object),
        }
    )
    deep = pd.DataFrame(
        [[1, 2], [3, 4]],
        index=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["k", "m"]),
        columns=pd.MultiIndex.from_tuples([("u", "v"), ("u", "w")]),
    )
    return [
        mixed,
        mixed.set_index("t"),
        deep,
        pd.DataFrame(),
        pd.DataFrame({"a": []}),
        pd.DataFrame([[1, 2]], columns=["same", "same"]),
    ]


@pytest.mark.parametrize("number", range(6))
def test_tables(number: int) -> None:
    frame = frames()[number]
    pd.testing.assert_frame_equal(there_and_back(frame), frame, check_column_type=False)


def test_series_indexes_and_moments_of_pandas() -> None:
    series = pd.Series(
        [1.0, 2.0], index=pd.date_range("2026-01-01", periods=2, freq="h"), name="loss"
    )
    pd.testing.assert_series_equal(there_and_back(series), series)
    for index in (
        pd.Index(["a", "b"], name="k"),
        pd.RangeIndex(3),
        pd.CategoricalIndex(["a", "b", "a"]),
    ):
        pd.testing.assert_index_equal(there_and_back(index), index)
    assert there_and_back(
        pd.Timestamp("2026-11-22 01:02:03.000000004", tz="Europe/Berlin")
    ) == pd.Timestamp("2026-11-22 01:02:03.000000004", tz="Europe/Berlin")
    assert there_and_back(pd.Timedelta(5, "ns")) == pd.Timedelta(5, "ns")
    assert there_and_back([pd.NaT, pd.NA]) == [pd.NaT, pd.NA]


class Mine:
    """A class of the user's own."""


@pytest.mark.parametrize(
    "value",
    [Mine(), [Mine], {"f": len}, os.path.join, sys, lambda: 1, collections.namedtuple("T", "a")(1)],
)
def test_what_is_no_plain_data_is_named_there(value: Any) -> None:
    told = there.pack({"x": value}, ["x"], 10**8, True, io.BytesIO())
    assert told["no"] == "cannot"
    assert "it holds a" in told["why"]
    assert told["plain"]


class Evil:
    """A hostile pickle's payload, which acts when it is read."""

    def __init__(self, *act: Any) -> None:
        self.act = act

    def __reduce__(self) -> Any:
        return self.act


ran: list[str] = []


def _run(word: str) -> str:
    ran.append(word)
    return word


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    "value",
    [
        Evil(_run, ("x",)),
        Evil(os.system, ("true",)),
        Evil(eval, ("1",)),
        Evil(getattr, (str, "join")),
        [Evil(np.save, ("x", 1))],
        {"a": Evil(pd.eval, ("1",))},
        np.arange(3),
        pd.Series([1]),
        collections.OrderedDict(a=1),
        Mine(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_pickle_that_names_anything_is_refused_and_runs_nothing(
    value: Any, protocol: int
) -> None:
    with pytest.raises(NotPlain):
        plain_value(pickle.dumps(value, protocol=protocol))
    assert ran == []


def with_tag(tag: Any) -> bytes:
    """Make a pickle with a tagged value of our own."""

    class Tagged:
        pass

    class Packer(pickle.Pickler):
        def persistent_id(self, value: Any) -> Any:
            return tag if isinstance(value, Tagged) else None

    file = io.BytesIO()
    Packer(file, protocol=4).dump([Tagged()])
    return file.getvalue()


@pytest.mark.parametrize(
    "tag",
    [
        ("array", "<f8", (10**12,), "C", b"12345678"),
        ("array", "|O", (1,), "C", b"12345678"),
        ("array", "|V0", (10**9,), "C", b""),
        ("array", [("a", "O")], (1,), "C", b"12345678"),
        ("array", ("<f8", "x"), (1,), "C", b"12345678"),
        ("array", "<f8", (-1,), "C", b"12345678"),
        ("array", "__import__('os')", (1,), "C", b"12345678"),
        ("objects", (10**9,), [1]),
        ("objects", (1,), "x"),
        ("frame", ("range", 0, 2, 1, None), ("range", 0, 1, 1, None), []),
        ("frame", ("eval", "1"), ("range", 0, 1, 1, None), []),
        ("timestamp", "2026-01-01", "dateutil//etc/passwd"),
        ("timestamp", "2026-01-01", "../../etc/passwd"),
        ("defaultdict", "eval", {}),
        ("bytearray", 10**12),
        ("decimal", "1" * 10**6),
        ("deque", range(10**12), 5),
        (
            "alone",
            (
                "multi",
                [("range", 0, 2, 1, None)],
                [("array", "|i1", (1,), "C", b"0")],
                range(10**12),
            ),
        ),
        ("unknown",),
        ("__class__",),
        (),
        "array",
    ],
    ids=repr,
)
def test_tagged_values_that_lie_are_refused(tag: Any) -> None:
    with pytest.raises(NotPlain):
        plain_value(with_tag(tag))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"garbage",
        b"\x80\x04\x8e" + (2**62).to_bytes(8, "little") + b"x.",  # BINBYTES8 of four exabytes
        b"\x80\x04\x8b" + (2**31 - 1).to_bytes(4, "little") + b"x.",  # LONG4
        b"\x80\x04]r\xff\xff\xff\xff",  # LONG_BINPUT far out
        b"\x80\x04Nb.",  # BUILD
        b"\x80\x04(i__builtin__\neval\n.",  # INST
        b"\x80\x04\x82\x01.",  # EXT1
        b"\x80\x04P1\n.",  # PERSID
    ],
)
def test_broken_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(NotPlain):
        plain_value(data)


@given(st.binary(max_size=60))
def test_no_bytes_do_more_than_be_refused(data: bytes) -> None:
    try:
        plain_value(b"\x80\x04" + data)
    except NotPlain:
        return


@given(st.integers(0, 400), st.integers(0, 255))
def test_a_changed_byte_gives_a_value_or_a_refusal(place: int, byte: int) -> None:
    data = bytearray(SAMPLE)
    data[place % len(data)] = byte
    try:
        plain_value(bytes(data))
    except NotPlain:
        return


SAMPLE = packed(
    {"a": [np.arange(3), pd.Series(["x"]), datetime.datetime(2026, 1, 1)], "b": {1.5: "y"}}
)


def _stream(body: bytes) -> bytes:
    return b"\x80\x04" + body + b"."


def _said(text: str) -> bytes:
    return b"\x8c" + bytes([len(text)]) + text.encode()


DEEP = 1000
SHARED = b")\x94" + b"".join(b"h" + bytes([n]) + b"h" + bytes([n]) + b"\x86\x94" for n in range(26))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            b"})" + b"\x85" * DEEP + b"K\x01s",
            id="a key of tuples in tuples: its hash overruns the stack",
        ),
        pytest.param(
            b"}" + SHARED + b"K\x01s",
            id="a key of tuples that hold another twice each: its hash never ends",
        ),
        pytest.param((b"(" + _said("slice")) * DEEP + b"N" + b"NNtQ" * DEEP, id="slices in slices"),
        pytest.param(
            (b"(" + _said("objects") + b"K\x01\x85]") * DEEP + b"N" + b"atQ" * DEEP,
            id="arrays of objects in arrays of objects",
        ),
        pytest.param(
            b"(" + _said("timedelta") + b"(" + _said("decimal") + _said("1e99999") + b"tQtQ",
            id="a number from a short text",
        ),
        pytest.param(
            b"(" + _said("fraction") + b"K\x01\x8b\xff\xff\x00\x00" + b"\x01" * 65535 + b"tQ",
            id="a fraction of numbers without end",
        ),
    ],
)
def test_what_would_bring_this_kernel_down_is_refused(body: bytes) -> None:
    with pytest.raises(NotPlain):
        plain_value(_stream(body))


def test_tuples_of_many_and_of_the_same_are_taken() -> None:
    same = (1, 2)
    value = [tuple((same, n) for n in range(1000)), {((same, same), same): 1}]
    assert there_and_back(value) == value
