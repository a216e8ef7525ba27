"""Values that a machine packed, built anew here: numbers, texts, containers, times, arrays and tables, and nothing that runs.

`pickle.loads` does whatever its bytes say. Here only the part of the format that makes plain containers, numbers and texts is understood; all else is a
tagged tuple that `packing_there.py` wrote and one of the functions below turns into a value.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

from .value_builders import NotPlain, build

DEEPEST = 200
"""Levels of tuples, and of arrays of objects, within each other: hashing and freeing them takes a level of the C stack each, unguarded."""
MOST_HASHED = 50_000_000
"""Parts of one tuple, those that it holds many times counted as often: its hash walks through all of them, and no interrupt ends that."""

_TUPLES = (pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3)


class _ReportingBytes(io.BytesIO):
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
        return _RestrictedUnpickler(
            io.BytesIO(data) if told is None else _ReportingBytes(data, told)
        ).load()
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


class _RestrictedUnpickler(pickle._Unpickler):
    """The reader in Python, not the one in C: it can be cut down to the few operations that plain data need."""

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
