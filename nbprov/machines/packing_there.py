"""Runs on the machine, in the user's kernel there: packs variables for the way back. Standard library only, Python 3.8 or later.

Sent as source. What it makes is a pickle without a single class or function in it: everything but plain containers and numbers is a tagged tuple, which
`plain_values.py` builds anew. So nothing that this side says can run anything on the other.
"""

# The machine's Python may be 3.8, which has no other way to format and knows no `strict` of zip; annotations are texts, since only the function is sent.
# ruff: noqa: UP031, B905

from typing import Any


def _nbprov_give(space: "Any", names: "Any", most: "Any", is_trusted: "Any") -> "Any":
    """The packed variables, and a line that says how it went."""
    import io
    import pickle
    import sys

    native = (type(None), bool, int, float, str, bytes, list, tuple, dict, set, frozenset)

    def dtype_of(dtype: "Any") -> "Any":
        import numpy

        return numpy.lib.format.dtype_to_descr(dtype)

    def array(value: "Any") -> "Any":
        import numpy

        value = numpy.asarray(value)
        if value.dtype.hasobject:
            if value.dtype != object:
                raise TypeError("an array of records with objects in it")
            return ("objects", value.shape, value.ravel().tolist())
        order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
        return ("array", dtype_of(value.dtype), value.shape, order, value.tobytes(order))

    def column(values: "Any") -> "Any":
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
            plain = [None if gone else one for gone, one in zip(missing, values.array.astype(object).tolist())]
            return ("typed", ("str" if name == "str" else "string") if isinstance(dtype, pandas.StringDtype) else name, plain)
        raise TypeError("a column of pandas type %s" % name)

    known = {"boolean", "float32", "float64"} | {"%sint%d" % (sign, bits) for sign in ("", "u") for bits in (8, 16, 32, 64)}

    def index(value: "Any") -> "Any":
        import pandas

        if isinstance(value, pandas.RangeIndex):
            return ("range", value.start, value.stop, value.step, value.name)
        if isinstance(value, pandas.MultiIndex):
            return ("multi", [index(level) for level in value.levels], [array(code) for code in value.codes], list(value.names))
        freq = getattr(value, "freqstr", None) if isinstance(value, (pandas.DatetimeIndex, pandas.TimedeltaIndex)) else None
        return ("index", column(value), value.name, freq)

    def of_pandas(value: "Any") -> "Any":
        import pandas

        kind = type(value)
        if value is pandas.NaT:
            return ("nat",)
        if value is pandas.NA:
            return ("na",)
        if kind is pandas.DataFrame:
            return ("frame", index(value.index), index(value.columns), [column(value.iloc[:, n]) for n in range(value.shape[1])])
        if kind is pandas.Series:
            return ("series", index(value.index), column(value), value.name)
        if isinstance(value, pandas.Index):
            return ("alone", index(value))
        if kind is pandas.Categorical:
            return ("categorical", column(pandas.Series(value)))
        if kind is pandas.Timestamp:
            return (
                "timestamp",
                value.tz_convert("UTC").tz_localize(None).isoformat() if value.tz else value.isoformat(),
                str(value.tz or ""),
            )
        if kind is pandas.Timedelta:
            return ("timedelta", int(value.value))
        return None

    def of_library(value: "Any") -> "Any":
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

    def of_standard(value: "Any") -> "Any":
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

    def of_moment(value: "Any", name: "Any") -> "Any":
        zone = getattr(value, "tzinfo", None)
        if zone is None:
            return (name, value.isoformat(), "", 0)
        if getattr(zone, "key", None):
            return (name, value.replace(tzinfo=None).isoformat(), zone.key, value.fold)
        return (name, value.isoformat(), "", 0)

    class Packer(pickle.Pickler):
        def persistent_id(self, value: "Any") -> "Any":
            if type(value) in native:
                return None
            found = of_library(value) or of_standard(value)
            if found is None:
                kind = type(value)
                raise TypeError("it holds a %s.%s" % (kind.__module__, kind.__qualname__))
            return found

    parts, size = {}, 0
    for name in names:
        if name not in space:
            return b"", "nbprov-no there is no variable %s on the machine" % name
        try:
            if is_trusted:
                part = pickle.dumps(space[name], protocol=4)
            else:
                file = io.BytesIO()
                Packer(file, protocol=4).dump(space[name])
                part = file.getvalue()
        except Exception as error:
            why = " ".join(("%s: %s" % (type(error).__name__, error)).split())
            return b"", "nbprov-no %s (%s) cannot travel: %s" % (name, type(space[name]).__name__, why)
        size += len(part)
        if size > most:
            return b"", "nbprov-no %s makes it %d MB, and at most %d MB travel with a cell" % (name, size // 10**6, most // 10**6)
        parts[name] = part
    data = pickle.dumps(parts, protocol=4)
    return data, "nbprov-ok %d" % len(data)
