"""The type of a frame, a journal entry and a state file."""

from __future__ import annotations

from typing import Any, Dict

Json = Dict[str, Any]
