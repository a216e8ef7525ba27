"""Read values that a machine packed, without running anything.

`pickle.loads` does whatever its bytes say. This reader understands only the part of the format
that makes plain containers, numbers and texts; everything else is a tagged tuple of the packing
program on the machine, which `value_builders.py` turns into a value.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

from .value_builders import NotPlain, build

DEEPEST = 200
"""Levels of nested tuples and arrays of objects.

Hashing and freeing them takes a level of the C stack for each, which nothing guards.
"""
MOST_HASHED = 50_000_000
"""Parts of one tuple, counting shared parts each time.

The tuple's hash visits all of them, and no interrupt stops it.
"""

_TUPLES = (pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3)


class _ReportingBytes(io.BytesIO):
    """Reports how far it was read."""

    def __init__(self, data: bytes, told: Callable[[int], None]) -> None:
        super().__init__(data)
        self._told = told

    def read(self, size: int | None = -1) -> bytes:
        self._told(self.tell())
        return super().read(size)


def plain_value(data: bytes, told: Callable[[int], None] | None = None) -> Any:
    """Return the value that a machine's bytes stand for.

    Parameters
    ----------
    told
        Called repeatedly with the number of bytes read so far, since a long list takes a while.

    Raises
    ------
    NotPlain
        If they hold anything but plain data, or are broken.
    """
    try:
        return _RestrictedUnpickler(
            io.BytesIO(data) if told is None else _ReportingBytes(data, told)
        ).load()
    except NotPlain:
        raise
    except (MemoryError, RecursionError):
        raise NotPlain("it is made to take more room than it should") from None
    except Exception as error:  # a hostile sender can cause any of them
        raise NotPlain(f"what came back is broken ({type(error).__name__}: {error})") from None


def _then_measured(act: Callable[[Any], None]) -> Callable[[Any], None]:
    def made(reader: Any) -> None:
        act(reader)
        reader._measured_tuple()

    return made


class _RestrictedUnpickler(pickle._Unpickler):
    """The pickle reader written in Python, cut down to the operations that plain data needs."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self._measured: dict[int, tuple[Any, int, int]] = {}

    def persistent_load(self, pid: Any) -> Any:
        depth, size = self._measures(pid, of_lists=True)
        value = build(pid)
        if not isinstance(value, str | int | float):
            self._measured[id(value)] = value, depth, size
        return value

    def _measures(self, parts: Any, *, of_lists: bool = False) -> tuple[int, int]:
        """Return the nesting depth and the number of parts of a container.

        Both are stored with the object itself, so that its id cannot be reused by another.
        """
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

    # Class names are still read, so that the error can tell them; calls are not possible at all.
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
