"""The remembered state of each cloud's refreshes, as one small JSON file a cloud."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from nbprov.model.clock import Instant
from nbprov.model.files import durable


@dataclass(frozen=True, slots=True)
class State:
    """The remembered state of one cloud.

    Attributes
    ----------
    source
        `hosted`, `provider`, `shipped` or empty: where the files now in place came from.
    url
        The address of the files, for the conditional request of the next refresh.
    fetched
        When the files were last known to be current; 0 if they never were.
    tried
        When the last refresh began.
    marks
        MD5 of each file as nbprov wrote it.
    pending
        The state that holds once a replacement of the files is done; empty when none is under way.
    etag, last_modified
        The validators that the service sent for the next conditional request.
    rows
        Number of prices in the files.
    error
        The error of the last refresh; empty after a success.
    notes
        Remarks on the files in place, for people to read.
    changes
        What the refresh that wrote them changed, by kind.
    """

    source: str = ""
    url: str = ""
    fetched: Instant = 0.0
    tried: Instant = 0.0
    marks: Mapping[str, str] = field(default_factory=dict)
    pending: Mapping[str, Any] = field(default_factory=dict)
    etag: str = ""
    last_modified: str = ""
    rows: int = 0
    error: str = ""
    notes: tuple[str, ...] = ()
    changes: Mapping[str, int] = field(default_factory=dict)


def read(path: Path) -> State:
    """Read the state of a cloud; return an empty one if there is none or it cannot be read.

    An empty state means that nothing is known of the cloud's files.
    """
    try:
        told = json.loads(path.read_bytes())
        if not isinstance(told, dict):
            return State()
        return of(told)
    except (OSError, ValueError, TypeError):
        return State()


def of(told: Mapping[str, Any]) -> State:
    """Make a state from JSON; what the JSON does not name has its default.

    Raises
    ------
    TypeError
        If it names anything else, or a value is of the wrong kind.
    """
    state = State(**{**told, "notes": tuple(told.get("notes", ()))})
    for f in fields(State):
        kind = type(getattr(State(), f.name))
        value = getattr(state, f.name)
        if not isinstance(value, (int, float) if kind in (int, float) else kind):
            raise TypeError(f"{f.name} is {value!r}")
    return state


def write(path: Path, state: State, **changes: Any) -> State:
    """Store a state with these changes, and return it."""
    state = replace(state, **changes)
    durable.write(path, json.dumps(asdict(state), indent=1, sort_keys=True).encode())
    return state
