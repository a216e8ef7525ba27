"""Model values to JSON and back, driven by their type hints.

Fields that do not compare (key material) are left out.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar, cast

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """Turn a model value into what `json.dumps` takes."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in fields(value) if f.compare}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{type(value).__name__} does not belong in the ledger")


@lru_cache(maxsize=64)
def _hints(kind: type) -> dict[str, Any]:
    # Of the fields that are stored alone: the others may name types that their module does not
    # import when it runs.
    stored = {f.name: f.type for f in fields(kind) if f.compare}
    return typing.get_type_hints(
        type(kind.__name__, (), {"__annotations__": stored, "__module__": kind.__module__})
    )


def from_plain(kind: type[T], data: Any) -> T:
    """Turn what `json.loads` gave back into a model value; fields that are missing take their
    defaults, unknown ones are passed over.
    """
    return cast("T", _restore(kind, data))


def _restore(hint: Any, data: Any) -> Any:
    origin = typing.get_origin(hint)
    args = typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return (
            None if data is None else _restore(next(a for a in args if a is not type(None)), data)
        )
    if origin is tuple:
        inner = args[:1] * len(data) if len(args) == 2 and args[1] is Ellipsis else args
        return tuple(_restore(a, item) for a, item in zip(inner, data, strict=True))
    if origin is not None and issubclass(origin, Mapping):
        return {key: _restore(args[1], item) for key, item in data.items()}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(data)
    if isinstance(hint, type) and is_dataclass(hint):
        known = _hints(hint)
        return hint(
            **{key: _restore(known[key], item) for key, item in data.items() if key in known}
        )
    return float(data) if hint is float else data
