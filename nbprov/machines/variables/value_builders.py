"""Build values out of the tagged tuples that a machine packed.

Each function checks what it is given, since the sender may be hostile.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import pathlib
import re
import uuid
import zoneinfo
from collections.abc import Callable, Iterable
from typing import Any

LONGEST_NUMBER = 5_000
"""Digits of a decimal, or characters of a date; longer ones take more than linear time to read."""

MOST_ALIKE = 64
"""Keys of one container that hash alike. Honest ones are two (-1 and -2), or some tuples of them.
"""
MOST_UNSORTED = 10_000
"""Numbers or dates that pandas may put into a hash table: a fifth of a second if all hash alike."""
LONGEST_RANGE = 10_000_000
"""Values of an index that is a range, where each is written out: 80 MB."""

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
    """The bytes hold something other than plain data."""


def build(pid: Any) -> Any:
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
    except Exception as error:  # a constructor refused its arguments
        raise NotPlain(
            f"what came back is broken ({pid[0]}: {type(error).__name__}: {str(error)[:200]})"
        ) from None


def _number(value: Any) -> int:
    """Return a whole number that is an int already.

    Converting a decimal of a few characters may take for ever.
    """
    if type(value) is not int or value.bit_length() > 4 * LONGEST_NUMBER:
        raise NotPlain("what came back is broken (a number)")
    return value


def _text(value: Any, most: int = LONGEST_NUMBER) -> str:
    if not isinstance(value, str) or len(value) > most:
        raise NotPlain("what came back is broken (a text is too long)")
    return value


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
    # reshape compares the shape with the bytes that are there, so a false shape allocates nothing.
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


def _column(packed: Any) -> Any:
    """Return the values of a column or an index."""
    import pandas as pd

    kind, *rest = packed
    if kind == "numpy":
        return _nested_array(rest[0])
    if kind == "category":
        return pd.Categorical.from_codes(
            _nested_array(rest[0]), categories=_countable(_index(rest[1])), ordered=rest[2] is True
        )
    if kind == "zoned":
        return (
            pd.DatetimeIndex(_nested_array(rest[0]))
            .tz_localize("UTC")
            .tz_convert(_zone_of_pandas(rest[1]))
            .array
        )
    if kind == "period":
        # `PeriodIndex.from_ordinals` exists only since pandas 2.2; the stubs do not know how to
        # make the array of numbers.
        make: Any = pd.arrays.PeriodArray
        return make(_nested_array(rest[0]), dtype=pd.PeriodDtype(_frequency(rest[1])))
    if kind == "typed" and _TYPED.match(_text(rest[0])) and type(rest[1]) is list:
        # Before pandas 3 there was no `str` type, and texts were objects.
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
        made = (
            [_countable(_index(level)) for level in levels],
            [_nested_array(code) for code in codes],
        )
        return pd.MultiIndex(levels=made[0], codes=made[1], names=_list(names))
    if kind != "index":
        raise NotPlain("what came back is broken (an index)")
    values, name, freq = rest
    column = _column(values)
    made_index: Any = pd.Index(column, name=name, dtype=column.dtype)
    if freq is not None and hasattr(made_index, "freq"):
        made_index.freq = _frequency(freq)
    return made_index


def _countable(index: Any) -> Any:
    """Return an index of which pandas may write out the values and check that none comes twice.

    It does so with a hash table, in one step of C that no Ctrl-C stops. Python's own numbers and
    tuples can be chosen to hash alike, and pandas' hash of other numbers is public. Sorted values
    need no table, and few that hash alike take no time.
    """
    if len(index) > LONGEST_RANGE:
        raise NotPlain("what came back is broken (an index)")
    if index.dtype == object:
        _refuse_alike(index)
    elif (
        len(index) > MOST_UNSORTED
        and not str(index.dtype).startswith("str")
        and not (index.is_monotonic_increasing or index.is_monotonic_decreasing)
    ):
        raise NotPlain(f"it has more than {MOST_UNSORTED:,} categories or levels, not sorted")
    return index


def _refuse_alike(keys: Iterable[Any]) -> None:
    alike = collections.Counter(hash(key) for key in keys if type(key) is not str)
    if alike and max(alike.values()) > MOST_ALIKE:
        raise NotPlain("what came back is broken (keys that are made alike)")


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
    """Return the zone as pandas has it.

    Before pandas 3 it has its own kind for a zone's name, and columns of the two kinds differ.
    """
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

    if getattr(values, "ndim", 1) != 1 or len(values) != len(index):
        # A single value would be repeated for an index of any length.
        raise NotPlain("what came back is broken (a column and its index)")
    return pd.Series(
        values, index=index, name=name, dtype=values.dtype
    )  # with its type, since pandas would guess that of texts


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


def _moment(kind: Any) -> Callable[..., Any]:
    def made(text: Any, zone: Any, fold: Any) -> Any:
        value = kind.fromisoformat(_text(text, 60))
        return value.replace(tzinfo=_zone(zone), fold=1 if fold == 1 else 0) if zone else value

    return made


def _list(value: Any) -> list[Any]:
    """Return a list that is one already.

    A range of a few bytes can claim more parts than fit into memory.
    """
    if type(value) is not list:
        raise NotPlain("what came back is broken (a list)")
    return value


def _dict(value: Any) -> dict[Any, Any]:
    """Return a dictionary that is one already, so that its keys were looked at."""
    if type(value) is not dict:
        raise NotPlain("what came back is broken (a dictionary)")
    return value


def _ordered(items: Any) -> Any:
    _refuse_alike(key for key, _ in _list(items))
    return collections.OrderedDict(items)


def _defaultdict(factory: Any, items: Any) -> Any:
    return collections.defaultdict(_FACTORIES[_text(factory)], _dict(items))


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
    "ordered": _ordered,
    "counter": lambda counts: collections.Counter(_dict(counts)),
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
