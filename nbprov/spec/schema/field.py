"""One field of a spec: its section, what nbprov does with it, and its documentation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Section(StrEnum):
    """The maps of a spec that fields belong to."""

    TASK = ""
    NBPROV = "nbprov"
    RESOURCES = "resources"
    ITEM = "resources.any_of[]"
    AUTOSTOP = "resources.autostop"
    PLACE = "resources.region"
    RECOVERY = "resources.job_recovery"
    BUDGET = "budget"
    RACE = "race"
    WAIT = "wait"
    CONFIRM = "confirm_above"
    HEALTH = "health"
    PYTHON = "python"
    MOUNT = "file_mounts.TARGET"
    CONFIG = "config"
    DOCKER = "config.docker"
    HOOK = "config.hooks[]"


class FieldUse(StrEnum):
    """What nbprov does with a field today."""

    READ = "read"
    NOTE = "not yet used"
    ERROR = "cannot be honoured; an error unless ignored"
    DROPPED = "internal to SkyPilot; dropped"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a spec.

    Attributes
    ----------
    values
        The words that it may hold, if they are few.
    free
        Whether it may also hold something else than `values`.
    same
        Values that ask for what nbprov does anyway; no remark is made about them.
    advice
        For a field that is not used yet: what to write instead, or what is missing without it.
    example
        Values for the reference page, as they stand after the colon.
    """

    name: str
    where: Section
    doc: str
    use: FieldUse = FieldUse.READ
    values: tuple[str, ...] = ()
    free: bool = True
    advice: str = ""
    same: tuple[str, ...] = ()
    example: tuple[str, ...] = ()
