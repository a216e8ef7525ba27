"""The agent's refusal of a request."""

from __future__ import annotations


class RequestError(Exception):
    """A request cannot be done; the client is told its code and message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
