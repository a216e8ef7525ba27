"""Plain forms: tagged tuples that stand for arrays, tables, dates and the like. Used on both sides.

The notebook's side builds the objects anew (`machines/variables/restricted_unpickler.py`), so that
nothing a machine says can run there.
"""

from __future__ import annotations

import sys
from typing import Any


class NotPlainHere(TypeError):
    """An object that is no plain data."""


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
    raise NotPlainHere(f"a column of pandas type {name}")


known = {"boolean", "float32", "float64"} | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
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
    """Return the plain form of an object of a library that was imported."""
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
