"""Packs variables for their way, on either side: weighed while they are packed, so that what is too much is not copied first. Standard library only, Python 3.8.

To the machine goes any pickle, as this kernel is trusted there. From the machine comes a pickle without a single class or function in it: everything but
plain containers and numbers is a tagged tuple, which `plain_values.py` builds anew, so nothing that a machine says can run anything here.
This file is sent there as source, and is run in a namespace of its own: nothing of it stays among the user's variables.
"""

# The machine's Python may be 3.8, which has no other way to format and knows no `strict` of zip.
# ruff: noqa: UP031, B905

from __future__ import annotations

import io
import json
import os
import pickle
import sys
from typing import Any

PROTOCOL = 5
"""Every Python from 3.8 on reads it, and arrays are written with it as they lie, without a copy."""

MARK = "nbprov-said "
"""Begins the line that says how it went."""


class TooMuch(Exception):
    """More than may travel: so many bytes at least."""


class Unwritten(Exception):
    """The file takes no more, most likely since the disk is full."""


class NotPlainHere(TypeError):
    """An object that is no plain data."""


class Room:
    """A file that takes so many bytes and no more."""

    def __init__(self, file: Any, most: int, told: Any = None) -> None:
        self.file, self.most, self.told = file, most, told
        self.size = 0

    def expect(self, size: int) -> None:
        """Refuse what will need at least so many bytes more."""
        if self.size + size > self.most:
            raise TooMuch(self.size + size)

    def write(self, data: Any) -> int:
        size = len(data) if isinstance(data, bytes) else memoryview(data).nbytes
        self.expect(size)
        try:
            self.file.write(data)
        except OSError as error:
            raise Unwritten(str(error)) from None
        self.size += size
        if self.told is not None:
            self.told(self.size)
        return size


def least_weight(value: Any) -> int:
    """Bytes that a value needs packed, at least: what its kind tells at once, without going through it."""
    if isinstance(value, (str, bytes, bytearray, list, tuple, dict, set, frozenset)):
        return len(value)
    if isinstance(value, library("numpy", "ndarray")):
        return int(value.size if value.dtype.hasobject else value.nbytes)
    if isinstance(value, library("torch", "Tensor")):
        return int(value.element_size() * value.nelement())
    if isinstance(value, library("array", "array")):
        return int(len(value) * value.itemsize)
    if isinstance(value, library("pandas", "DataFrame")):
        return sum(column_weight(dtype, value, n) for n, dtype in enumerate(value.dtypes))
    if isinstance(value, library("pandas", "Series")):
        return column_weight(value.dtype, value, None)
    return 0


def library(name: str, kind: str) -> Any:
    """A class of a library, as isinstance wants it: only libraries that were imported can have made anything."""
    return getattr(sys.modules.get(name), kind, ())


def column_weight(dtype: Any, table: Any, number: Any) -> int:
    if isinstance(dtype, library("numpy", "dtype")):
        return len(table) * (1 if dtype.hasobject else int(dtype.itemsize))
    if isinstance(dtype, library("pandas", "StringDtype")):
        # The characters, without what says in Arrow's form where each text begins.
        values = table if number is None else table.iloc[:, number]
        return max(len(table), int(values.nbytes) - 9 * len(table))
    return len(table)


class AnyPacker(pickle.Pickler):
    """Packs what pickle can, and knows which object it was that could not be."""

    def __init__(self, room: Room) -> None:
        super().__init__(room, PROTOCOL)
        self.room, self.last = room, None

    def reducer_override(self, value: Any) -> Any:
        """Weigh what would be copied before it is written; pickle goes on as it would."""
        self.last = value
        if isinstance(value, library("torch", "Tensor")):
            self.room.expect(min(least_weight(value), stored_bytes(value)))
        elif isinstance(value, (library("numpy", "ndarray"), library("array", "array"))):
            self.room.expect(least_weight(value))
        return NotImplemented


def stored_bytes(tensor: Any) -> int:
    """What a tensor has in memory: one that was expanded has less than it shows, and one that is sparse tells nothing."""
    try:
        return int(tensor.untyped_storage().nbytes())
    except (AttributeError, NotImplementedError, RuntimeError):
        return 0


class PlainPacker(pickle.Pickler):
    """Packs plain data as tagged tuples, and refuses all else."""

    def __init__(self, room: Room) -> None:
        super().__init__(room, 4)  # which the reader of plain data knows
        self.room, self.last = room, None

    def persistent_id(self, value: Any) -> Any:
        kind = type(value)
        if kind in SIMPLE:
            return None
        self.room.expect(least_weight(value))
        if kind in NATIVE:
            return None
        self.last = value
        found = of_library(value) or of_standard(value)
        if found is None:
            raise NotPlainHere("it holds a %s" % kind_of(value))
        return found


SIMPLE = (type(None), bool, int, float)
NATIVE = (str, bytes, list, tuple, dict, set, frozenset)

# ---------------------------------------------------------------- plain data


def dtype_of(dtype: Any) -> Any:
    import numpy

    return numpy.lib.format.dtype_to_descr(dtype)


def array(value: Any) -> Any:
    import numpy

    value = numpy.asarray(value)
    if value.dtype.hasobject:
        if value.dtype != object:
            raise NotPlainHere("an array of records with objects in it")
        return ("objects", value.shape, value.ravel().tolist())
    order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
    return ("array", dtype_of(value.dtype), value.shape, order, value.tobytes(order))


def column(values: Any) -> Any:
    """The values of a Series or an Index."""
    import numpy
    import pandas

    dtype = values.dtype
    if isinstance(dtype, numpy.dtype):
        return ("numpy", array(values.to_numpy()))
    if isinstance(dtype, pandas.CategoricalDtype):
        found = values.array
        return ("category", array(found.codes), index(dtype.categories), bool(dtype.ordered))
    if isinstance(dtype, pandas.DatetimeTZDtype):
        plain = values.array.tz_convert("UTC").tz_localize(None)
        return ("zoned", array(numpy.asarray(plain)), str(dtype.tz))
    if isinstance(dtype, pandas.PeriodDtype):
        return ("period", array(values.array.asi8), str(dtype)[len("period[") : -1])
    name = str(dtype)
    if isinstance(dtype, pandas.StringDtype) or name.lower() in known:
        missing = [bool(one) for one in pandas.isna(values.array)]
        plain = [
            None if gone else one
            for gone, one in zip(missing, values.array.astype(object).tolist())
        ]
        return (
            "typed",
            ("str" if name == "str" else "string")
            if isinstance(dtype, pandas.StringDtype)
            else name,
            plain,
        )
    raise NotPlainHere("a column of pandas type %s" % name)


known = {"boolean", "float32", "float64"} | {
    "%sint%d" % (sign, bits) for sign in ("", "u") for bits in (8, 16, 32, 64)
}


def index(value: Any) -> Any:
    import pandas

    if isinstance(value, pandas.RangeIndex):
        return ("range", value.start, value.stop, value.step, value.name)
    if isinstance(value, pandas.MultiIndex):
        return (
            "multi",
            [index(level) for level in value.levels],
            [array(code) for code in value.codes],
            list(value.names),
        )
    freq = (
        getattr(value, "freqstr", None)
        if isinstance(value, (pandas.DatetimeIndex, pandas.TimedeltaIndex))
        else None
    )
    return ("index", column(value), value.name, freq)


def of_pandas(value: Any) -> Any:
    import pandas

    kind = type(value)
    if value is pandas.NaT:
        return ("nat",)
    if value is pandas.NA:
        return ("na",)
    if kind is pandas.DataFrame:
        return (
            "frame",
            index(value.index),
            index(value.columns),
            [column(value.iloc[:, n]) for n in range(value.shape[1])],
        )
    if kind is pandas.Series:
        return ("series", index(value.index), column(value), value.name)
    if isinstance(value, pandas.Index):
        return ("alone", index(value))
    if kind is pandas.Categorical:
        return ("categorical", column(pandas.Series(value)))
    if kind is pandas.Timestamp:
        return (
            "timestamp",
            value.tz_convert("UTC").tz_localize(None).isoformat()
            if value.tz
            else value.isoformat(),
            str(value.tz or ""),
        )
    if kind is pandas.Timedelta:
        return ("timedelta", int(value.value))
    return None


def of_library(value: Any) -> Any:
    """What an installed library made; only libraries that were imported can have made anything."""
    numpy, pandas, torch = (sys.modules.get(name) for name in ("numpy", "pandas", "torch"))
    if numpy is not None and type(value) is numpy.ndarray:
        return array(value)
    if numpy is not None and isinstance(value, numpy.generic) and not value.dtype.hasobject:
        return ("scalar", dtype_of(value.dtype), value.tobytes())
    if torch is not None and isinstance(value, torch.Tensor):
        plain = value.detach().cpu()
        return array((plain.float() if plain.dtype is torch.bfloat16 else plain).numpy())
    if pandas is not None and hasattr(pandas, "DataFrame"):
        return of_pandas(value)
    return None


def of_standard(value: Any) -> Any:
    import collections
    import datetime
    import decimal
    import fractions
    import pathlib
    import uuid

    kind = type(value)
    if kind is complex:
        return ("complex", value.real, value.imag)
    if kind is bytearray:
        return ("bytearray", bytes(value))
    if kind in (range, slice):
        return (kind.__name__, value.start, value.stop, value.step)
    if value is Ellipsis:
        return ("ellipsis",)
    if kind is collections.OrderedDict:
        return ("ordered", list(value.items()))
    if kind is collections.Counter:
        return ("counter", dict(value))
    if kind is collections.defaultdict:
        factory = value.default_factory
        if factory is None or factory in (int, float, str, list, dict, set, tuple, bool):
            return ("defaultdict", factory.__name__ if factory else "", dict(value))
    if kind is collections.deque:
        return ("deque", list(value), value.maxlen)
    if kind in (datetime.date, datetime.datetime, datetime.time):
        return of_moment(value, kind.__name__)
    if kind is datetime.timedelta:
        return ("delta", value.days, value.seconds, value.microseconds)
    if kind is datetime.timezone:
        return ("timezone", value.utcoffset(None).total_seconds())
    if kind is decimal.Decimal:
        return ("decimal", str(value))
    if kind is fractions.Fraction:
        return ("fraction", value.numerator, value.denominator)
    if kind is uuid.UUID:
        return ("uuid", value.hex)
    if isinstance(value, pathlib.PurePath):
        return ("path", str(value))
    return None


def of_moment(value: Any, name: Any) -> Any:
    zone = getattr(value, "tzinfo", None)
    if zone is None:
        return (name, value.isoformat(), "", 0)
    if getattr(zone, "key", None):
        return (name, value.replace(tzinfo=None).isoformat(), zone.key, value.fold)
    return (name, value.isoformat(), "", 0)


# ---------------------------------------------------------------- why not


def kind_of(value: Any) -> str:
    kind = type(value)
    return "%s.%s" % (kind.__module__, kind.__qualname__)


NATURES = {
    "generator": "generator async_generator coroutine map filter zip enumerate reversed list_iterator",
    "view": "dict_keys dict_values dict_items memoryview mappingproxy",
    "process": "lock RLock Condition Event Thread Popen socket SSLContext Connection Cursor frame traceback Task Future Queue SimpleQueue",
    "module": "module",
}
LIBRARIES = ("cupy", "jax", "jaxlib", "tensorflow", "polars", "pyarrow", "torch")


def nature_of(value: Any) -> str:
    """What an object is that could not be packed, in a word that the other side has an advice for."""
    kind, module = type(value).__name__, type(value).__module__.partition(".")[0]
    if isinstance(value, io.IOBase):
        return "file"
    if isinstance(value, type):
        return "class"
    if kind in ("function", "method", "builtin_function_or_method"):
        return "lambda" if getattr(value, "__name__", "") == "<lambda>" else "function"
    if module in LIBRARIES:
        return module
    found = [nature for nature, kinds in NATURES.items() if kind in kinds.split()]
    return found[0] if found else "own" if module == "__main__" else ""


def why_not(name: str, value: Any, packer: Any, error: BaseException) -> dict[str, Any]:
    """What is told of a variable that could not be packed."""
    words = " ".join(("%s: %s" % (type(error).__name__, error)).split())[:300]
    told: dict[str, Any] = {
        "no": "cannot",
        "name": name,
        "kind": type(value).__name__,
        "why": words,
    }
    if isinstance(error, TooMuch):
        told.update(no="too-much", size=error.args[0])
    elif isinstance(error, Unwritten):
        told.update(no="unwritten", why=str(error))
    elif isinstance(error, (RecursionError, MemoryError)):
        told.update(nature="deep" if isinstance(error, RecursionError) else "memory")
    else:
        held = value if getattr(packer, "last", None) is None else packer.last
        told.update(
            nature=nature_of(held), held=kind_of(held), plain=isinstance(error, NotPlainHere)
        )
    return told


# ---------------------------------------------------------------- both ways


def pack(
    space: Any, names: Any, most: int, is_plain: bool, file: Any, told: Any = None
) -> dict[str, Any]:
    """Write variables into a file, one behind the other; their sizes, or which of them cannot travel and why."""
    room, sizes = Room(file, most, told), []
    for name in names:
        if name not in space:
            return {"no": "missing", "name": name}
        packer, begun = None, room.size
        try:
            packer = (PlainPacker if is_plain else AnyPacker)(room)
            if is_plain or not isinstance(space[name], library("torch", "Tensor")):
                room.expect(least_weight(space[name]))
            packer.dump(space[name])
        except Exception as error:
            return why_not(name, space[name], packer, error)
        sizes.append(room.size - begun)
    return {"sizes": sizes}


def take(space: Any, names: Any, file: Any) -> dict[str, Any]:
    """Read variables that `pack` wrote, all of them or none."""
    found = {}
    for name in names:
        try:
            found[name] = pickle.load(file)
        except Exception as error:
            words = " ".join(("%s: %s" % (type(error).__name__, error)).split())[:300]
            return {"no": "unread", "name": name, "why": words}
    space.update(found)
    return {}


def answered(space: Any, request: dict[str, Any]) -> str:
    """Do what was asked with the box at a path, and say how it went. An interrupt is no traceback, which would hold on to what was being copied."""
    path = request["path"]
    try:
        if request["do"] == "take":
            with open(path, "rb") as file:
                if os.fstat(file.fileno()).st_size != request["size"]:
                    return MARK + json.dumps({"no": "torn"})
                told = take(space, request["names"], file)
        else:
            with open(path, "r+b") as file:
                file.truncate(0)
                told = pack(space, request["names"], request["most"], request["is_plain"], file)
        if request["do"] == "take" or "no" in told:
            os.unlink(path)
    except KeyboardInterrupt:
        told = {"no": "interrupted"}
    except OSError as error:
        told = {"no": "torn" if request["do"] == "take" else "unwritten", "why": str(error)}
    return MARK + json.dumps(told)
