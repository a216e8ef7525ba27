"""The spec language: YAML text to a `Spec` and back, errors with their place, and completion.

It may import the model alone, and knows no cloud and no catalogue. What only some cells need is
imported on first use. Start reading at `parser.py`: it uses `yaml/` (the tree of a cell),
`interpolation/` (notebook variables and secrets) and `reading/` (one reader for each field).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .parser import parse
from .reading.mounts import fill_paths
from .reading.path_variables import variables_in
from .schema.registry import Field, Section, fields
from .yaml.diagnostics import SpecError, SpecProblem

if TYPE_CHECKING:
    from .completion import KeyContext, keys_at
    from .writing.skypilot import SkyPilotTask, to_skypilot
    from .writing.spec_yaml import to_yaml

__all__ = [
    "Field",
    "KeyContext",
    "Section",
    "SkyPilotTask",
    "SpecError",
    "SpecProblem",
    "fields",
    "fill_paths",
    "keys_at",
    "parse",
    "to_skypilot",
    "to_yaml",
    "variables_in",
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
