"""The meaning of `$` in each field of a cell."""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import Enum

from .redaction import KeyPath, is_internal_at


class DollarMeaning(Enum):
    """What `$` means in a field."""

    VARIABLE = "a notebook variable"
    ENV = "one of the spec's own envs, else a notebook variable, else itself"
    SHELL = "left to the machine's shell"
    KEPT = "left alone: the field is not used"


_PATHS = frozenset({"file_mounts", "workdir", "volumes", "service"})
_COMMANDS = frozenset(
    {
        ("run",),
        ("setup",),
        ("event_callback",),
        ("health",),
        ("health", "command"),
        ("config", "hooks", "run"),
    }
)
_UNUSED = frozenset({"pool", "execution", "api_server_access"})
_READ_CONFIG = frozenset({"docker", "hooks"})
_MACHINES = frozenset(
    [
        "CUDA_HOME",
        "HOME",
        "HOSTNAME",
        "LD_LIBRARY_PATH",
        "LOGNAME",
        "PATH",
        "PWD",
        "PYTHONPATH",
        "SHELL",
        "TMPDIR",
        "USER",
        "VIRTUAL_ENV",
    ]
)
"""Variables that machines have themselves."""

_SET_ON_MACHINES = ("SKYPILOT_", "NBPROV_")
_NAME = re.compile(r"[A-Za-z_]\w*")


def dollar_meaning(trail: KeyPath) -> DollarMeaning:
    """What `$` means in the field at this key path; a leading `nbprov` is ignored.

    Examples
    --------
    >>> dollar_meaning(("run",)).name, dollar_meaning(("envs", "LR")).name
    ('SHELL', 'VARIABLE')
    >>> dollar_meaning(("nbprov", "health", "command")).name
    'SHELL'
    """
    if trail[:1] == ("nbprov",):
        trail = trail[1:]
    if not trail:
        return DollarMeaning.VARIABLE
    if trail in _COMMANDS or (trail[0] == "resources" and trail[-2:] == ("autostop", "hook")):
        return DollarMeaning.SHELL
    if trail[0] in _PATHS:
        return DollarMeaning.ENV
    if trail[0] in _UNUSED or (
        trail[0] == "config" and len(trail) > 1 and trail[1] not in _READ_CONFIG
    ):
        return DollarMeaning.KEPT
    return (
        DollarMeaning.KEPT
        if any(is_internal_at(trail[:depth]) for depth in range(1, min(len(trail), 3) + 1))
        else DollarMeaning.VARIABLE
    )


def is_the_machines(expression: str, trail: KeyPath, own: Collection[str]) -> bool:
    """Whether a name stays as it is in the value of an env.

    It does if it names another env or a variable that machines have, and no notebook variable.

    Files from SkyPilot hold such values; SkyPilot does not fill them in either.

    Parameters
    ----------
    own
        The names of the spec's own envs and secrets.
    """
    if len(trail) != 2 or trail[0] != "envs" or not _NAME.fullmatch(expression):
        return False
    return expression in own or expression in _MACHINES or expression.startswith(_SET_ON_MACHINES)
