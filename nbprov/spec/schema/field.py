"""One field of a spec: where it belongs, what nbprov does with it, one line of documentation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Where(StrEnum):
    """The maps that fields belong in."""

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


class Use(StrEnum):
    """What nbprov does with a field today."""

    READ = "read"
    NOTE = "not yet used"
    ERROR = "cannot be honoured; an error unless ignored"
    DROPPED = "internal to SkyPilot; dropped"


@dataclass(frozen=True, slots=True)
class Field:
    """One field.

    Attributes
    ----------
    values
        The words it may hold, where these are few; for the others `free` is True.
    free
        Whether it may hold anything else than `values`.
    same
        Values that ask for what nbprov does anyway: nothing is said of them.
    advice
        For a field that is not used, or not acted on yet: what to write instead, or what being without it means.
    example
        Values worth showing on the reference page, as they stand after the colon.
    """

    name: str
    where: Where
    doc: str
    use: Use = Use.READ
    values: tuple[str, ...] = ()
    free: bool = True
    advice: str = ""
    same: tuple[str, ...] = ()
    example: tuple[str, ...] = ()
