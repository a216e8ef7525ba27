"""All fields of a spec: their sections, what nbprov does with them, and their documentation.

Reading, suggestions ("did you mean") and completion use this one table.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from .field import Field, FieldUse, Section
from .nested import NESTED_FIELDS
from .resources import RESOURCES_FIELDS
from .task import TASK_FIELDS

__all__ = [
    "ALIASES",
    "OWN",
    "Field",
    "FieldGuess",
    "FieldUse",
    "Section",
    "fields",
    "find",
    "guess",
]

ALIASES = {"gpus": "accelerators", "accelerator": "accelerators"}
"""Other names with the same meaning under `resources`."""

OWN = frozenset(
    {
        "max_lifetime",
        "budget",
        "prefer",
        "race",
        "wait",
        "confirm_above",
        "engine",
        "health",
        "expose",
        "outputs",
        "python",
        "on_setup_failure",
    }
)
"""nbprov's own fields of a task; they may also stand together in the map `nbprov`."""

_SYNONYMS = {
    "gpu": "accelerators",
    "gpu_type": "accelerators",
    "cpu": "cpus",
    "vcpus": "cpus",
    "ram": "memory",
    "mem": "memory",
    "disk": "disk_size",
    "spot": "use_spot",
    "image": "image_id",
    "instance": "instance_type",
    "machine_type": "instance_type",
    "provider": "cloud",
    "port": "ports",
    "tags": "labels",
    "max_cost": "max_price",
    "nodes": "num_nodes",
    "command": "run",
    "cmd": "run",
    "script": "run",
    "env": "envs",
    "environment": "envs",
    "variables": "envs",
    "mounts": "file_mounts",
    "timeout": "max_lifetime",
    "idle_timeout": "autostop",
}

_ALL = (*TASK_FIELDS, *RESOURCES_FIELDS, *NESTED_FIELDS)
_NOT_SUGGESTED = (Section.CONFIG, Section.ITEM, Section.MOUNT, Section.DOCKER, Section.HOOK)
"""Sections whose names are too common to guess that a misplaced key belongs there."""

_ITEM_LEFT_OUT = frozenset({"any_of", "ordered"})


def _by_place() -> dict[Section, dict[str, Field]]:
    table: dict[Section, dict[str, Field]] = {where: {} for where in Section}
    for field in _ALL:
        table[field.where][field.name] = field
    table[Section.NBPROV] = {
        name: field for name, field in table[Section.TASK].items() if name in OWN
    }
    table[Section.ITEM] = {
        n: f for n, f in table[Section.RESOURCES].items() if n not in _ITEM_LEFT_OUT
    } | table[Section.ITEM]
    return table


_TABLE = _by_place()


def fields(where: Section) -> tuple[Field, ...]:
    """The fields of a section, most used first."""
    return tuple(_TABLE[where].values())


def find(where: Section, name: str) -> Field | None:
    """The field with this name or alias in a section; None if there is none."""
    if where in (Section.RESOURCES, Section.ITEM):
        name = ALIASES.get(name, name)
    return _TABLE[where].get(name)


@dataclass(frozen=True, slots=True)
class FieldGuess:
    """The field that an unknown key probably means, and whether it belongs to another section."""

    field: Field
    elsewhere: bool


def guess(where: Section, name: str) -> FieldGuess | None:
    """The known field most like a name.

    Fields of this section come first, then a field of exactly this name elsewhere, then similar
    names elsewhere.
    """
    here = _TABLE[where]
    lower = name.strip().lower().replace("-", "_").replace(" ", "_")
    wanted = lower if lower in here else ALIASES.get(lower, _SYNONYMS.get(lower, ""))
    if wanted in here:
        return FieldGuess(here[wanted], False)
    others = {f.name: f for f in reversed(_ALL) if f.where not in (where, *_NOT_SUGGESTED)}
    for exact in (lower, wanted):
        if exact in others:
            return FieldGuess(others[exact], True)
    near = get_close_matches(lower, here, 1, 0.7)
    if near:
        return FieldGuess(here[near[0]], False)
    near = get_close_matches(lower, others, 1, 0.8)
    return FieldGuess(others[near[0]], True) if near else None
