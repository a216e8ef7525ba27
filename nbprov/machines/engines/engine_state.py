"""Where a compute engine runs and listens, as its machines describe it, and its errors."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nbprov.model.errors import NbprovError

FOLDER = "~/.nbprov/engine"
"""On a machine: certificates, state files, and the environment that nbprov made."""

UP_MARK = "nbprov-engine: "
"""Starts the line by which the supervisor says that the process is up.

`on_machine/process_supervisor.py` has the same text. It cannot be imported on Windows.
"""

PORTS_MARK = "nbprov-engine-ports: "
"""Starts the line with the ports that the supervisor chose, printed before any is listened on."""

_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+!_-]{0,63}")
_PATH = re.compile(r"/[^\0\n\r]{1,1000}")


class NoEngine(NbprovError):
    """The cluster's spec does not ask for this engine."""

    code = "engine.none"


class EngineMissing(NbprovError):
    """A package of the engine is not installed here, or could not be installed on a machine."""

    code = "engine.missing"


class EngineVersions(NbprovError):
    """The engine or Python has one version here and another on the machines."""

    code = "engine.versions"


class EngineFailed(NbprovError):
    """The engine did not start, or has ended; the message holds its last lines."""

    code = "engine.failed"


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python interpreter of a machine: program, version, and package versions by name."""

    program: str
    python: str
    packages: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, said: Any) -> Interpreter:
        """Read what a machine says; only text that looks like a path or a version is accepted.

        Raises
        ------
        EngineFailed
            If it is malformed.
        """
        packages = said.get("packages") if isinstance(said, dict) else None
        if (
            not isinstance(packages, dict)
            or not _PATH.fullmatch(str(said.get("program")))
            or not _is_version(said.get("python"))
        ):
            raise EngineFailed(
                "the machine's description of its Python is malformed", code="engine.foul"
            )
        named = {str(k): str(v) for k, v in packages.items() if _is_version(k) and _is_version(v)}
        return cls(str(said["program"]), str(said["python"]), named)


def _is_version(value: object) -> bool:
    return isinstance(value, str) and _VERSION.fullmatch(value) is not None


@dataclass(frozen=True, slots=True)
class RunningEngine:
    """A compute engine that runs.

    Attributes
    ----------
    kind
        `dask` or `ray`.
    ports
        Ports at the head's private address, by name: `scheduler`, `client`, `dashboard`.
    interpreter
        The head's interpreter.
    workers
        The expected number of worker processes (Dask) or nodes (Ray).
    remarks
        Lines that a person should read.
    """

    kind: str
    ports: Mapping[str, int]
    interpreter: Interpreter
    workers: int
    remarks: tuple[str, ...] = ()


def state_of(text: str, names: Sequence[str]) -> tuple[dict[str, int], Interpreter]:
    """Read the state that a supervisor wrote.

    Raises
    ------
    EngineFailed
        If it is malformed.

    Examples
    --------
    >>> text = '{"ports": {"gcs": 1}, "program": "/bin/py", "python": "3.11.7", "packages": {}}'
    >>> state_of(text, ["gcs"])[0]
    {'gcs': 1}
    """
    try:
        said = json.loads(text)
        ports = _ports_of(said["ports"], names)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise EngineFailed(
            "the machine's description of its engine is malformed", code="engine.foul"
        ) from error
    return ports, Interpreter.of(said)


def ports_of(text: str, names: Sequence[str]) -> dict[str, int]:
    """Read the ports that a supervisor chose.

    Raises
    ------
    EngineFailed
        If they are malformed.

    Examples
    --------
    >>> ports_of('{"gcs": 6379}', ["gcs"])
    {'gcs': 6379}
    """
    try:
        return _ports_of(json.loads(text), names)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise EngineFailed(
            "the machine's description of its engine is malformed", code="engine.foul"
        ) from error


def _ports_of(said: Any, names: Sequence[str]) -> dict[str, int]:
    ports = {name: said[name] for name in names}
    if not all(isinstance(port, int) and 0 < port < 65536 for port in ports.values()):
        raise EngineFailed("the machine names invalid ports for its engine", code="engine.foul")
    return ports
