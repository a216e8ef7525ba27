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

from .decode_limits import DEEPEST, MOST_HASHED, DecodeLimits, are_all, too_much, weight_of
from .reporting_bytes import ReportingBytes
from .value_builders import NotPlain, build

_TUPLES = (pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3)


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
            io.BytesIO(data) if told is None else ReportingBytes(data, told)
        ).load()
    except NotPlain:
        raise
    except (MemoryError, RecursionError):
        raise too_much() from None
    except Exception as error:  # a hostile sender can cause any of them
        raise NotPlain(f"what came back is broken ({type(error).__name__}: {error})") from None


def _then_measured(act: Callable[[Any], None]) -> Callable[[Any], None]:
    def made(reader: Any) -> None:
        act(reader)
        reader._measured_tuple()

    return made


_SINGLE = frozenset({bool, bytes, float, int, str, type(None)})
MOST_COUNTED = 50_000_000
"""Parts of one tuple, counting shared parts each time; printing it visits all of them."""

_COSTS = {
    pickle.MARK: 120,
    pickle.DUP: 8,
    pickle.NONE: 8,
    pickle.BININT: 32,
    pickle.BININT2: 32,
    pickle.LONG1: 32,
    pickle.LONG4: 32,
    pickle.BINFLOAT: 24,
    pickle.BINUNICODE: 60,
    pickle.SHORT_BINUNICODE: 60,
    pickle.BINUNICODE8: 60,
    pickle.BINBYTES: 40,
    pickle.SHORT_BINBYTES: 40,
    pickle.BINBYTES8: 40,
    pickle.EMPTY_LIST: 56,
    pickle.EMPTY_DICT: 64,
    pickle.EMPTY_SET: 216,
    pickle.APPEND: 8,
    pickle.SETITEM: 100,
    pickle.MEMOIZE: 100,
    pickle.BINPUT: 100,
    pickle.LONG_BINPUT: 100,
    **dict.fromkeys(_TUPLES, 250),
    pickle.FROZENSET: 216,
}
"""Bytes that an operation takes beside what it reads: the object, and what this reader keeps."""
_ITEM_COSTS = {pickle.APPENDS: 8, pickle.SETITEMS: 50, pickle.ADDITEMS: 60, pickle.FROZENSET: 60}
"""Bytes for each part that an operation takes off the stack."""
_TARGETS: dict[bytes, type] = {
    pickle.APPEND: list,
    pickle.APPENDS: list,
    pickle.SETITEM: dict,
    pickle.SETITEMS: dict,
    pickle.ADDITEMS: set,
}
"""What is added to. A table would take a part as a column of any length."""


def _limited(code: bytes, act: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return an operation that counts what it is about to take."""
    cost, each, target = _COSTS.get(code, 0), _ITEM_COSTS.get(code, 0), _TARGETS.get(code)
    if not (cost or each):
        return act

    def limited(reader: Any) -> None:
        reader.limits.charge(cost + each * len(reader.stack) if each else cost)
        if target is not None or each:
            reader._check_parts(code, target)
        act(reader)

    return limited


class _RestrictedUnpickler(pickle._Unpickler):
    """The pickle reader written in Python, cut down to the operations that plain data needs."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.limits = DecodeLimits()
        self._measured: dict[int, tuple[Any, int, int]] = {}
        self._frozen = 0

    def persistent_load(self, pid: Any) -> Any:
        depth, size = self._measures(pid, of_lists=True)
        weight, parts = weight_of(pid)
        if parts > MOST_HASHED * 4:
            raise too_much()
        self.limits.charge(weight * 3)  # it is copied twice where a table is made of columns
        value = build(pid)
        if not isinstance(value, str | int | float):
            self._measured[id(value)] = value, depth, size
        return value

    def _check_parts(self, code: bytes, target: type | None) -> None:
        """Look at what is added to a container, and at the container, before that is done."""
        stack: list[Any] = self.stack  # type: ignore[attr-defined]
        keys: list[Any] = []
        if code in (pickle.APPEND, pickle.SETITEM):
            container = stack[-2 if code == pickle.APPEND else -3]
            keys = stack[-2:-1] if code == pickle.SETITEM else []
        elif code == pickle.FROZENSET:
            self._frozen -= 1
            container, keys = None, stack
        else:
            container = self.metastack[-1][-1]  # type: ignore[attr-defined]
            keys = {pickle.SETITEMS: stack[::2], pickle.ADDITEMS: stack}.get(code, [])
        if target is not None and type(container) is not target:
            raise NotPlain("what came back is broken (parts of what has none)")
        hashed = sum(self._measured.get(id(key), (None, 0, 1))[2] for key in keys)
        self.limits.keys(self._frozen if container is None else id(container), keys, hashed)

    def _measures(self, parts: Any, *, of_lists: bool = False) -> tuple[int, int]:
        """Return the nesting depth and the number of parts of a container.

        Both are stored with the object itself, so that its id cannot be reused by another.
        """
        depth, size = 0, 1
        if type(parts) is list and are_all(_SINGLE, parts):
            return 1, 1 + len(parts)  # such as a million numbers
        for part in parts if isinstance(parts, tuple | list) else ():
            more = (
                self._measures(part)
                if of_lists and type(part) is list
                else self._measured.get(id(part), (None, 0, 1))[1:]
            )
            depth, size = max(depth, more[0]), size + more[1]
        if depth >= DEEPEST or size > MOST_COUNTED:
            raise too_much()
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
    for byte, act in dispatch.items():
        dispatch[byte] = _limited(bytes((byte,)), act)
