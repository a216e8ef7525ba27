"""Values that a machine packed, built anew here: numbers, texts, containers, times, arrays and tables, and nothing that runs.

`pickle.loads` does whatever its bytes say. Here only the part of the format that makes plain containers, numbers and texts is understood; all else is a
tagged tuple that `pack_values.py` wrote and one of the functions below turns into a value.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import io
import pathlib
import pickle
import re
import uuid
import zoneinfo
from collections.abc import Callable
from typing import Any

LONGEST_NUMBER = 5_000
"""Digits of a decimal or characters of a moment: their reading takes more than linear time."""

DEEPEST = 200
"""Levels of tuples, and of arrays of objects, within each other: hashing and freeing them takes a level of the C stack each, unguarded."""
MOST_HASHED = 50_000_000
"""Parts of one tuple, those that it holds many times counted as often: its hash walks through all of them, and no interrupt ends that."""

_TUPLES = (pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3)
_ZONE = re.compile(
    r"(?!dateutil)[A-Za-z0-9][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,3}\Z|[+-]\d\d:\d\d\Z"
)
_UTC_OFFSET = re.compile(r"(?:UTC|utc)?([+-])(\d\d):(\d\d)\Z")
_FREQUENCY = re.compile(r"-?\d{0,6}[A-Za-z]{1,5}(?:-[A-Z]{3})?\Z")
_TYPED = re.compile(r"(?:str|string|boolean|U?Int(?:8|16|32|64)|Float(?:32|64))\Z")
_FACTORIES: dict[str, Callable[[], Any] | None] = {
    "": None,
    **{kind.__name__: kind for kind in (int, float, str, list, dict, set, tuple, bool)},
}


class NotPlain(Exception):
    """The bytes hold something else than plain data."""


class _Told(io.BytesIO):
    """Says how far it was read."""

    def __init__(self, data: bytes, told: Callable[[int], None]) -> None:
        super().__init__(data)
        self._told = told

    def read(self, size: int | None = -1) -> bytes:
        self._told(self.tell())
        return super().read(size)


def plain_value(data: bytes, told: Callable[[int], None] | None = None) -> Any:
    """The value that the bytes of a machine stand for.

    Parameters
    ----------
    told
        Called now and then with how many of the bytes were read: a long list takes a while.

    Raises
    ------
    NotPlain
        If anything but plain data is in them, or they are broken.
    """
    try:
        return _Reader(io.BytesIO(data) if told is None else _Told(data, told)).load()
    except NotPlain:
        raise
    except (MemoryError, RecursionError):
        raise NotPlain("it is made to take more room than it should") from None
    except Exception as error:  # whatever a hostile sender can bring about while its bytes are read
        raise NotPlain(f"what came back is broken ({type(error).__name__}: {error})") from None


def _then_measured(act: Callable[[Any], None]) -> Callable[[Any], None]:
    def made(reader: Any) -> None:
        act(reader)
        reader._measured_tuple()

    return made


class _Reader(pickle._Unpickler):
    """The reader in Python, not the one in C: it can be cut down to the few operations that plain data need."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self._measured: dict[int, tuple[Any, int, int]] = {}

    def persistent_load(self, pid: Any) -> Any:
        depth, size = self._measures(pid, of_lists=True)
        value = _built(pid)
        if not isinstance(value, str | int | float):
            self._measured[id(value)] = value, depth, size
        return value

    def _measures(self, parts: Any, *, of_lists: bool = False) -> tuple[int, int]:
        """Levels and parts of what these are the parts of; kept with the object, so that no other can get its number."""
        depth, size = 0, 1
        for part in parts if isinstance(parts, tuple | list) else ():
            more = (
                self._measures(part)
                if of_lists and type(part) is list
                else self._measured.get(id(part), (None, 0, 1))[1:]
            )
            depth, size = max(depth, more[0]), size + more[1]
        if depth >= DEEPEST or size > MOST_HASHED:
            raise NotPlain("it is made to take more room than it should")
        return depth + 1, size

    def _measured_tuple(self) -> None:
        made = self.stack[-1]  # type: ignore[attr-defined]
        self._measured[id(made)] = (made, *self._measures(made))

    def find_class(self, module: str, name: str) -> Any:
        raise NotPlain(f"it holds {module}.{name}")

    # What a class is named by stays known, so that the error can name it; what would call or fill anything is not there at all.
    dispatch = {  # noqa: RUF012 - as the base has it
        code: act
        for code, act in pickle._Unpickler.dispatch.items()
        if bytes((code,))
        in {
            *(
                pickle.PROTO,
                pickle.FRAME,
                pickle.STOP,
                pickle.MARK,
                pickle.POP,
                pickle.POP_MARK,
                pickle.DUP,
            ),
            *(
                pickle.NONE,
                pickle.NEWTRUE,
                pickle.NEWFALSE,
                pickle.BININT,
                pickle.BININT1,
                pickle.BININT2,
                pickle.LONG1,
                pickle.LONG4,
            ),
            *(pickle.BINFLOAT, pickle.BINUNICODE, pickle.SHORT_BINUNICODE, pickle.BINUNICODE8),
            *(pickle.BINBYTES, pickle.SHORT_BINBYTES, pickle.BINBYTES8),
            *(pickle.EMPTY_LIST, pickle.APPEND, pickle.APPENDS, pickle.EMPTY_TUPLE, *_TUPLES),
            *(
                pickle.EMPTY_DICT,
                pickle.SETITEM,
                pickle.SETITEMS,
                pickle.EMPTY_SET,
                pickle.ADDITEMS,
                pickle.FROZENSET,
            ),
            *(
                pickle.MEMOIZE,
                pickle.BINPUT,
                pickle.LONG_BINPUT,
                pickle.BINGET,
                pickle.LONG_BINGET,
                pickle.BINPERSID,
            ),
            *(pickle.GLOBAL, pickle.STACK_GLOBAL),
        }
    }
    for code in _TUPLES:
        dispatch[code[0]] = _then_measured(dispatch[code[0]])


def _built(pid: Any) -> Any:
    if (
        not isinstance(pid, tuple)
        or not pid
        or not isinstance(pid[0], str)
        or pid[0] not in _BUILDERS
    ):
        raise NotPlain("what came back is broken (an unknown kind of value)")
    try:
        return _BUILDERS[pid[0]](*pid[1:])
    except NotPlain:
        raise
    except ImportError as error:
        raise NotPlain(f"it needs {error.name}, which is not installed here") from None
    except (MemoryError, RecursionError):
        raise
    except Exception as error:  # a constructor refused what it was given
        raise NotPlain(
            f"what came back is broken ({pid[0]}: {type(error).__name__}: {str(error)[:200]})"
        ) from None


def _number(value: Any) -> int:
    """A whole number that is one already: to make one of a decimal of a few characters may take for ever."""
    if type(value) is not int or value.bit_length() > 4 * LONGEST_NUMBER:
        raise NotPlain("what came back is broken (a number)")
    return value


def _text(value: Any, most: int = LONGEST_NUMBER) -> str:
    if not isinstance(value, str) or len(value) > most:
        raise NotPlain("what came back is broken (a text is too long)")
    return value


# ---------------------------------------------------------------- numpy


def _dtype(descr: Any) -> Any:
    import numpy as np

    if not _is_descr(descr):
        raise NotPlain("what came back is broken (a type of array)")
    dtype: Any = np.lib.format.descr_to_dtype(descr)
    if dtype.hasobject or dtype.itemsize == 0:
        raise NotPlain("what came back is broken (a type of array)")
    return dtype


def _is_descr(descr: Any, depth: int = 0) -> bool:
    if isinstance(descr, str):
        return (
            re.match(r"[<>|=]?[a-zA-Z]\d{0,9}(?:\[\d{0,4}[a-zA-Zμ]{1,2}\])?\Z", descr) is not None
        )
    if depth > 4 or not isinstance(descr, list | tuple):
        return False
    if isinstance(descr, tuple):  # a sub-array: (descr, shape)
        return len(descr) == 2 and _is_descr(descr[0], depth + 1) and _is_shape(descr[1])
    return all(
        isinstance(part, tuple)
        and len(part) in (2, 3)
        and (
            isinstance(part[0], str)
            or (isinstance(part[0], tuple) and all(isinstance(name, str) for name in part[0]))
        )
        and _is_descr(part[1], depth + 1)
        and (len(part) == 2 or _is_shape(part[2]))
        for part in descr
    )


def _is_shape(shape: Any) -> bool:
    return (
        isinstance(shape, tuple)
        and len(shape) <= 32
        and all(type(n) is int and 0 <= n < 2**48 for n in shape)
    )


def _array(descr: Any, shape: Any, order: Any, data: Any) -> Any:
    import numpy as np

    dtype = _dtype(descr)
    if not _is_shape(shape) or order not in ("C", "F") or not isinstance(data, bytes):
        raise NotPlain("what came back is broken (an array)")
    # reshape checks that the shape has as many items as there are bytes for: nothing is set aside for a shape that lies.
    return np.frombuffer(data, dtype).reshape(shape, order=order).copy(order=order)


def _objects(shape: Any, items: Any) -> Any:
    import numpy as np

    if not _is_shape(shape) or type(items) is not list:
        raise NotPlain("what came back is broken (an array)")
    flat = np.empty(len(items), dtype=object)
    for number, item in enumerate(items):
        flat[number] = item
    return flat.reshape(shape)


def _scalar(descr: Any, data: Any) -> Any:
    import numpy as np

    if not isinstance(data, bytes):
        raise NotPlain("what came back is broken (a number)")
    if descr in ("<U0", ">U0", "|S0"):
        return np.dtype(descr).type()
    return np.frombuffer(data, _dtype(descr), count=1)[0]


def _nested_array(value: Any) -> Any:
    if not isinstance(value, tuple) or not value or value[0] not in ("array", "objects"):
        raise NotPlain("what came back is broken (an array)")
    return _BUILDERS[value[0]](*value[1:])


# ---------------------------------------------------------------- pandas


def _column(packed: Any) -> Any:
    """The values of a column or an index."""
    import pandas as pd

    kind, *rest = packed
    if kind == "numpy":
        return _nested_array(rest[0])
    if kind == "category":
        return pd.Categorical.from_codes(
            _nested_array(rest[0]), categories=_index(rest[1]), ordered=rest[2] is True
        )
    if kind == "zoned":
        return (
            pd.DatetimeIndex(_nested_array(rest[0]))
            .tz_localize("UTC")
            .tz_convert(_zone_of_pandas(rest[1]))
            .array
        )
    if kind == "period":
        # Not `PeriodIndex.from_ordinals`, which pandas has since 2.2; the stubs do not know how the array is made of numbers.
        make: Any = pd.arrays.PeriodArray
        return make(_nested_array(rest[0]), dtype=pd.PeriodDtype(_frequency(rest[1])))
    if kind == "typed" and _TYPED.match(_text(rest[0])) and type(rest[1]) is list:
        # Before pandas 3 there was no `str`, and texts were objects.
        is_object = rest[0] == "str" and int(pd.__version__.partition(".")[0]) < 3
        return _objects((len(rest[1]),), rest[1]) if is_object else pd.array(rest[1], dtype=rest[0])
    raise NotPlain("what came back is broken (a column)")


def _index(packed: Any) -> Any:
    import pandas as pd

    kind, *rest = packed
    if kind == "range":
        start, stop, step, name = rest
        return pd.RangeIndex(_number(start), _number(stop), _number(step), name=name)
    if kind == "multi":
        levels, codes, names = rest
        made = [_index(level) for level in levels], [_nested_array(code) for code in codes]
        return pd.MultiIndex(levels=made[0], codes=made[1], names=_list(names))
    if kind != "index":
        raise NotPlain("what came back is broken (an index)")
    values, name, freq = rest
    column = _column(values)
    made_index: Any = pd.Index(column, name=name, dtype=column.dtype)
    if freq is not None and hasattr(made_index, "freq"):
        made_index.freq = _frequency(freq)
    return made_index


def _frequency(text: Any) -> Any:
    if not _FREQUENCY.match(_text(text, 40)):
        raise NotPlain("what came back is broken (a frequency)")
    return text


def _zone(text: Any) -> Any:
    offset = _UTC_OFFSET.match(_text(text, 80))
    if offset is not None:
        minutes = int(offset.group(2)) * 60 + int(offset.group(3))
        return datetime.timezone(
            datetime.timedelta(minutes=-minutes if offset.group(1) == "-" else minutes)
        )
    if not _ZONE.match(text):
        raise NotPlain("what came back is broken (a time zone)")
    return datetime.UTC if text == "UTC" else zoneinfo.ZoneInfo(text)


def _zone_of_pandas(text: Any) -> Any:
    """The zone as pandas has it: before pandas 3 its own kind of a zone's name is another than ours, and columns of the two are unlike."""
    zone = _zone(text)
    return text if isinstance(zone, zoneinfo.ZoneInfo) else zone


def _frame(index: Any, columns: Any, parts: Any) -> Any:
    import pandas as pd

    rows, names = _index(index), _index(columns)
    if len(parts) != len(names):
        raise NotPlain("what came back is broken (a table)")
    made = [_made_series(_column(part), rows) for part in parts]
    frame = pd.concat(made, axis=1) if made else pd.DataFrame(index=rows)
    frame.columns = names
    return frame


def _series(index: Any, values: Any, name: Any) -> Any:
    return _made_series(_column(values), _index(index), name)


def _made_series(values: Any, index: Any, name: Any = None) -> Any:
    import pandas as pd

    return pd.Series(
        values, index=index, name=name, dtype=values.dtype
    )  # with its type, or texts would be guessed at


def _categorical(packed: Any) -> Any:
    if packed[0] != "category":
        raise NotPlain("what came back is broken (a column)")
    return _column(packed)


def _timestamp(text: Any, zone: Any) -> Any:
    import pandas as pd

    moment = pd.Timestamp(_text(text, 60))
    return moment.tz_localize("UTC").tz_convert(_zone_of_pandas(zone)) if zone else moment


def _timedelta(nanoseconds: Any) -> Any:
    import pandas as pd

    return pd.Timedelta(_number(nanoseconds), unit="ns")


def _nothing(name: str) -> Callable[[], Any]:
    def made() -> Any:
        import pandas as pd

        return getattr(pd, name)

    return made


# ---------------------------------------------------------------- the standard library


def _moment(kind: Any) -> Callable[..., Any]:
    def made(text: Any, zone: Any, fold: Any) -> Any:
        value = kind.fromisoformat(_text(text, 60))
        return value.replace(tzinfo=_zone(zone), fold=1 if fold == 1 else 0) if zone else value

    return made


def _list(value: Any) -> list[Any]:
    """A list that is one already: a range says in some bytes that it has more parts than there is memory for."""
    if type(value) is not list:
        raise NotPlain("what came back is broken (a list)")
    return value


def _defaultdict(factory: Any, items: Any) -> Any:
    return collections.defaultdict(_FACTORIES[_text(factory)], dict(items))


_BUILDERS: dict[str, Callable[..., Any]] = {
    "array": _array,
    "objects": _objects,
    "scalar": _scalar,
    "frame": _frame,
    "series": _series,
    "alone": _index,
    "categorical": _categorical,
    "timestamp": _timestamp,
    "timedelta": _timedelta,
    "nat": _nothing("NaT"),
    "na": _nothing("NA"),
    "complex": lambda real, imaginary: complex(float(real), float(imaginary)),
    "bytearray": lambda data: bytearray(bytes.join(b"", [data])),
    "range": range,
    "slice": slice,
    "ellipsis": lambda: ...,
    "ordered": lambda items: collections.OrderedDict(items),
    "counter": lambda counts: collections.Counter(dict(counts)),
    "defaultdict": _defaultdict,
    "deque": lambda items, length: collections.deque(_list(items), length),
    "date": _moment(datetime.date),
    "datetime": _moment(datetime.datetime),
    "time": _moment(datetime.time),
    "delta": lambda days, seconds, micros: datetime.timedelta(
        _number(days), _number(seconds), _number(micros)
    ),
    "timezone": lambda seconds: datetime.timezone(datetime.timedelta(seconds=float(seconds))),
    "decimal": lambda text: decimal.Decimal(_text(text)),
    "fraction": lambda above, below: fractions.Fraction(_number(above), _number(below)),
    "uuid": lambda text: uuid.UUID(hex=_text(text)),
    "path": lambda text: pathlib.PurePosixPath(_text(text, 100_000)),
}
