"""Remarks about a spec, each with its place in the cell."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Origin:
    """Where in the cell something is written.

    A dotted path, and a line from 1; 0 if it was not written at all.
    """

    path: str
    line: int = 0


class Severity(StrEnum):
    """How important a remark is."""

    NOTE = "note"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark about a spec that is not an error, with its place in the cell."""

    level: Severity
    code: str
    message: str
    origin: Origin = Origin("")
