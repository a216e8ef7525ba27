"""Every field a spec may hold: where it belongs, what nbprov does with it, one line of documentation.

The one table behind reading, "did you mean" and completion.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from .field import Field, Use, Where
from .nested import NESTED_FIELDS
from .resources import RESOURCES_FIELDS
from .task import TASK_FIELDS

__all__ = ["ALIASES", "OWN", "Field", "Guess", "Use", "Where", "fields", "find", "guess"]

ALIASES = {"gpus": "accelerators", "accelerator": "accelerators"}
"""Other names under `resources` that mean the same."""

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
"""nbprov's own fields of the task: they may also stand together in the map `nbprov`."""

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
_NOT_SUGGESTED = (Where.CONFIG, Where.ITEM, Where.MOUNT, Where.DOCKER, Where.HOOK)
"""Maps whose names are too common to guess that a misplaced key belongs there."""

_ITEM_LEFT_OUT = frozenset({"any_of", "ordered"})


def _by_place() -> dict[Where, dict[str, Field]]:
    table: dict[Where, dict[str, Field]] = {where: {} for where in Where}
    for field in _ALL:
        table[field.where][field.name] = field
    table[Where.NBPROV] = {name: field for name, field in table[Where.TASK].items() if name in OWN}
    table[Where.ITEM] = {
        n: f for n, f in table[Where.RESOURCES].items() if n not in _ITEM_LEFT_OUT
    } | table[Where.ITEM]
    return table


_TABLE = _by_place()


def fields(where: Where) -> tuple[Field, ...]:
    """The fields that belong in a map, most used first."""
    return tuple(_TABLE[where].values())


def find(where: Where, name: str) -> Field | None:
    """The field of this name in this map, aliases included; None where there is none."""
    if where in (Where.RESOURCES, Where.ITEM):
        name = ALIASES.get(name, name)
    return _TABLE[where].get(name)


@dataclass(frozen=True, slots=True)
class Guess:
    """The field an unknown key was meant to be, and whether it belongs in another map."""

    field: Field
    elsewhere: bool


def guess(where: Where, name: str) -> Guess | None:
    """The nearest known field: in this map first, then where a field of this very name belongs, then any near name elsewhere."""
    here = _TABLE[where]
    lower = name.strip().lower().replace("-", "_").replace(" ", "_")
    wanted = lower if lower in here else ALIASES.get(lower, _SYNONYMS.get(lower, ""))
    if wanted in here:
        return Guess(here[wanted], False)
    others = {f.name: f for f in reversed(_ALL) if f.where not in (where, *_NOT_SUGGESTED)}
    for exact in (lower, wanted):
        if exact in others:
            return Guess(others[exact], True)
    near = get_close_matches(lower, here, 1, 0.7)
    if near:
        return Guess(here[near[0]], False)
    near = get_close_matches(lower, others, 1, 0.8)
    return Guess(others[near[0]], True) if near else None
