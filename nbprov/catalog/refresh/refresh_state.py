"""What is remembered of each cloud's refreshes, as one small JSON file a cloud."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from nbprov.model.clock import Instant

from . import atomic_files


@dataclass(frozen=True, slots=True)
class State:
    """What is remembered of one cloud.

    Attributes
    ----------
    source
        `hosted`, `provider`, `shipped` or empty: where the files now in place came from.
    url
        The address they were read from, for the conditional request of the next refresh.
    fetched
        When they were last known to be current; 0 where they never were.
    tried
        When a refresh was last begun.
    marks
        MD5 of each file as nbprov wrote it.
    pending
        What the state will be once the files that are just being put in place are; empty but for
        that moment.
    etag, last_modified
        What the service sent to be asked with next time.
    rows
        Prices in the files.
    error
        What went wrong last time; empty after a success.
    notes
        What a person should know of the files in place.
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
    """The state of a cloud; an empty one where there is none, or it cannot be read.

    Then nothing is known of its files.
    """
    try:
        told = json.loads(path.read_bytes())
        if not isinstance(told, dict):
            return State()
        return of(told)
    except (OSError, ValueError, TypeError):
        return State()


def of(told: Mapping[str, Any]) -> State:
    """A state from JSON; what it does not name has its default.

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
    """Keep a state, with these changes. Returns it."""
    state = replace(state, **changes)
    atomic_files.write(path, json.dumps(asdict(state), indent=1, sort_keys=True).encode())
    return state
