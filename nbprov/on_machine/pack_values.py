"""Packs variables for their way between a notebook and a kernel there. Used on both sides.

They are weighed while they are packed, so that what is too much is not copied first. To the
machine goes any pickle, since this kernel is trusted there. From the machine comes a pickle without
a class or function in it: all but plain containers and numbers is a tagged tuple, which the
notebook's side builds anew, so that nothing a machine says can run here. On the machine this runs
in a namespace of its own, and leaves nothing among the user's variables.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import sys
from typing import Any

from .plain_forms import NotPlainHere, of_library, of_standard

PROTOCOL = 5
"""Every Python from 3.8 on reads it, and arrays are written with it as they lie, without a copy."""

MARK = "nbprov-said "
"""Begins the line that says how it went."""


class TooMuch(Exception):
    """More than may travel; its argument is the bytes at least."""


class Unwritten(Exception):
    """The file takes no more, most likely because the disk is full."""


class Room:
    """A file that takes at most so many bytes."""

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
    """Return the bytes that a value needs at least, as its kind tells without a walk through it."""
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
    """Return a class of a library for isinstance; none if the library was not imported."""
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
    """Packs what pickle can, and knows which object could not be packed."""

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
    """Return what a tensor has in memory; an expanded one has less than it shows."""
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
            raise NotPlainHere(f"it holds a {kind_of(value)}")
        return found


SIMPLE = (type(None), bool, int, float)
NATIVE = (str, bytes, list, tuple, dict, set, frozenset)


def kind_of(value: Any) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


NATURES = {
    "generator": "generator async_generator coroutine map filter zip enumerate reversed "
    "list_iterator",
    "view": "dict_keys dict_values dict_items memoryview mappingproxy",
    "process": "lock RLock Condition Event Thread Popen socket SSLContext Connection Cursor "
    "frame traceback Task Future Queue SimpleQueue",
    "module": "module",
}
LIBRARIES = ("cupy", "jax", "jaxlib", "tensorflow", "polars", "pyarrow", "torch")


def nature_of(value: Any) -> str:
    """Return in a word what an object is that could not be packed."""
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
    """Return what the other side is told of a variable that could not be packed."""
    said = str(error) if isinstance(error, NotPlainHere) else f"{type(error).__name__}: {error}"
    words = " ".join(said.split())[:300]
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


def pack(
    space: Any, names: Any, most: int, is_plain: bool, file: Any, told: Any = None
) -> dict[str, Any]:
    """Write variables into a file, one after the other.

    Returns their sizes, or which of them cannot travel and why.
    """
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
            words = " ".join((f"{type(error).__name__}: {error}").split())[:300]
            return {"no": "unread", "name": name, "why": words}
    space.update(found)
    return {}


def answered(space: Any, request: dict[str, Any]) -> str:
    """Do what was asked with the box at a path, and return the line that says how it went.

    An interrupt leaves no traceback, which would keep what was being copied in memory.
    """
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
