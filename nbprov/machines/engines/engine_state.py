"""The words of this package: where an engine listens, and what can go wrong with it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nbprov.model.errors import NbprovError

FOLDER = "~/.nbprov/engine"
"""Of a machine: certificates, states, and the environment of our making."""

UP_MARK = "nbprov-engine: "
"""The keeper's word for that the process is up; the same text stands in `on_machine/process_supervisor.py`, which cannot be imported here."""

PORTS_MARK = "nbprov-engine-ports: "
"""The keeper's word for which ports it chose, said before anything listens on them."""

_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+!_-]{0,63}")
_PATH = re.compile(r"/[^\0\n\r]{1,1000}")


class NoEngine(NbprovError):
    """The cluster's spec asks for no such engine."""

    code = "engine.none"


class EngineMissing(NbprovError):
    """A package that the engine needs is not installed: here, or on a machine where it could not be installed."""

    code = "engine.missing"


class EngineVersions(NbprovError):
    """The engine, or Python, is of one version here and of another on the machines."""

    code = "engine.versions"


class EngineFailed(NbprovError):
    """The engine did not start, or has ended; the message has its last words."""

    code = "engine.failed"


@dataclass(frozen=True, slots=True)
class Facts:
    """What the machines' interpreter is: the program, its Python, and versions of packages by name."""

    program: str
    python: str
    packages: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, said: Any) -> Facts:
        """Read what a machine says; nothing of it is believed but text that looks like a path, and like versions.

        Raises
        ------
        EngineFailed
            If it is something else.
        """
        packages = said.get("packages") if isinstance(said, dict) else None
        if (
            not isinstance(packages, dict)
            or not _PATH.fullmatch(str(said.get("program")))
            or not _is_version(said.get("python"))
        ):
            raise EngineFailed(
                "a machine says nothing sensible about its Python", code="engine.foul"
            )
        named = {str(k): str(v) for k, v in packages.items() if _is_version(k) and _is_version(v)}
        return cls(str(said["program"]), str(said["python"]), named)


def _is_version(value: object) -> bool:
    return isinstance(value, str) and _VERSION.fullmatch(value) is not None


@dataclass(frozen=True, slots=True)
class Running:
    """An engine that runs.

    Attributes
    ----------
    kind
        `dask` or `ray`.
    ports
        Of the head's private address, by name: `scheduler`, `client`, `dashboard`.
    facts
        The head's interpreter.
    workers
        Worker processes (Dask) or nodes (Ray) there should be.
    remarks
        What a person should know of it, a line each.
    """

    kind: str
    ports: Mapping[str, int]
    facts: Facts
    workers: int
    remarks: tuple[str, ...] = ()


def state_of(text: str, names: Sequence[str]) -> tuple[dict[str, int], Facts]:
    """Read the state that a keeper wrote.

    Raises
    ------
    EngineFailed
        If it is none.

    Examples
    --------
    >>> state_of('{"ports": {"scheduler": 8786}, "program": "/usr/bin/python3", "python": "3.11.7", "packages": {}}', ["scheduler"])[0]
    {'scheduler': 8786}
    """
    try:
        said = json.loads(text)
        ports = _ports_of(said["ports"], names)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise EngineFailed(
            "a machine says nothing sensible about its engine", code="engine.foul"
        ) from error
    return ports, Facts.of(said)


def ports_of(text: str, names: Sequence[str]) -> dict[str, int]:
    """Read the ports that a keeper chose.

    Raises
    ------
    EngineFailed
        If there are none.

    Examples
    --------
    >>> ports_of('{"gcs": 6379}', ["gcs"])
    {'gcs': 6379}
    """
    try:
        return _ports_of(json.loads(text), names)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise EngineFailed(
            "a machine says nothing sensible about its engine", code="engine.foul"
        ) from error


def _ports_of(said: Any, names: Sequence[str]) -> dict[str, int]:
    ports = {name: said[name] for name in names}
    if not all(isinstance(port, int) and 0 < port < 65536 for port in ports.values()):
        raise EngineFailed("a machine names ports that are none", code="engine.foul")
    return ports
