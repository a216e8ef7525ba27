"""What a `%%provision` cell says: YAML text to a `Spec` and back, errors that show their place, and completion.

Knows the language and nothing of any cloud or catalogue.
"""

from .completion import KeyContext, keys_at
from .fields import Field, Where, fields
from .mounts import fill_paths
from .problems import Problem, SpecError
from .skypilot import SkyPilotTask, to_skypilot
from .task import parse
from .writer import to_yaml

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
