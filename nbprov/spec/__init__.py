"""What a `%%provision` cell says: YAML text to a `Spec` and back, errors that show their place, and completion.

Knows the language and nothing of any cloud or catalogue. What only some cells need is imported when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .parser import parse
from .reading.mounts import fill_paths
from .schema.registry import Field, Where, fields
from .yaml.diagnostics import Problem, SpecError

if TYPE_CHECKING:
    from .completion import KeyContext, keys_at
    from .writing.skypilot import SkyPilotTask, to_skypilot
    from .writing.spec_yaml import to_yaml

__all__ = [
    "Field",
    "KeyContext",
    "Problem",
    "SkyPilotTask",
    "SpecError",
    "Where",
    "fields",
    "fill_paths",
    "keys_at",
    "parse",
    "to_skypilot",
    "to_yaml",
]

_LATER = {
    "KeyContext": "completion",
    "keys_at": "completion",
    "SkyPilotTask": "writing.skypilot",
    "to_skypilot": "writing.skypilot",
    "to_yaml": "writing.spec_yaml",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_LATER[name]}", __name__), name)
