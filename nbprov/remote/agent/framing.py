"""What may come from a machine's agent. A machine is not believed: what is no answer of an agent ends the line, with one line that says so."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from nbprov.on_machine.agent import framing
from nbprov.remote.errors import RemoteError

T = TypeVar("T")

FOLLOW_LIMIT = 32 * 1024 * 1024
"""Bytes of followed output that wait for a slow reader; beyond that the agent is asked to hold the rest, which it keeps on its disk."""

GREATEST_NUMBER = 2**53
"""Of an output: some millions of years at a thousand a second."""

MOST_TASKS = 20_000
"""That an agent tells of: it keeps some hundred that have ended, and a queue of two thousand."""

LATEST = 253_402_300_000.0
"""Seconds since the epoch: the year 9999. What is later is no instant, and no calendar has it."""

LONGEST_WORD = 2000
"""Characters of a reason, a name or a version that are shown."""

_UNREADABLE = (
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    IndexError,
    OverflowError,
    RecursionError,
)


class AgentError(RemoteError):
    """The agent refused what it was asked, or is no longer there."""

    code = "agent"


def foul(what: str) -> AgentError:
    """The error for a machine that sends what no agent sends."""
    return AgentError(
        f"what the machine sent is no answer of nbprov's agent: {what}",
        hint="somebody else may have written to its ~/.nbprov: do not trust what is on it; %nbprov down ends it",
        code="agent.foul",
    )


def pack(frame: Mapping[str, Any]) -> bytes:
    """A frame as it goes over the line.

    Raises
    ------
    AgentError
        If it is too large.
    """
    try:
        return framing.pack(frame)
    except framing.FrameError as error:
        raise AgentError(
            str(error), hint="copy large data as files", code="agent.too-large"
        ) from None


def size_of(head: bytes) -> int:
    """The length that a frame's head tells.

    Raises
    ------
    AgentError
        If it is beyond what an agent sends.
    """
    try:
        return framing.size_of(head)
    except framing.FrameError as error:
        raise foul(str(error)) from None


def unpack(body: bytes) -> dict[str, Any]:
    """The frame in these bytes, its shape checked: an answer, an event, or the hello.

    Raises
    ------
    AgentError
        If it is none.
    """
    frame = understood(json.loads, body)
    if not isinstance(frame, dict):
        raise foul("a message that is no object")
    if "re" in frame:
        error = frame.get("error")
        is_good = isinstance(frame["re"], int) and (
            error is None or (isinstance(error, dict) and {"code", "message"} <= error.keys())
        )
        if not is_good:
            raise foul("an answer without its number or its words")
    elif not isinstance(frame.get("ev"), str):
        raise foul("a message that is neither an answer nor an event")
    elif frame["ev"] == "out":
        _check_output(frame)
    elif frame["ev"] == "hello":
        _check_hello(frame)
    return frame


def _check_output(frame: Mapping[str, Any]) -> None:
    entries = frame.get("entries")
    if not isinstance(frame.get("follow"), str) or not isinstance(entries, list):
        raise foul("output that belongs to nothing")
    for entry in entries:
        if (
            not isinstance(entry, dict)
            or not isinstance(entry.get("k"), str)
            or not isinstance(entry.get("content", {}), dict)
        ):
            raise foul("an output without a kind")
        if (
            type(entry.get("n")) is not int
            or not 0 < entry["n"] < GREATEST_NUMBER
            or not isinstance(entry.get("t"), (int, float))
        ):
            raise foul("an output without its number")


def _check_hello(frame: Mapping[str, Any]) -> None:
    if not all(isinstance(frame.get(name), str) for name in ("hash", "version")) or not isinstance(
        frame.get("protocol"), int
    ):
        raise foul("a greeting without its version")


def understood(read: Callable[[Any], T], data: Any) -> T:
    """Read a part of an answer.

    Raises
    ------
    AgentError
        If it is not of the form that agents give.
    """
    try:
        return read(data)
    except _UNREADABLE as error:
        raise foul(f"{type(error).__name__} in {getattr(read, '__qualname__', 'it')}") from None


def word(text: object) -> str:
    """Words of a machine as they may be shown: one line, without control characters, not without end.

    Raises
    ------
    TypeError
        If it is no text.

    Examples
    --------
    >>> word("idle\\x1b]52;c;Zm9v\\x07 for 3 s")
    'idle]52;c;Zm9v for 3 s'
    """
    if not isinstance(text, str):
        raise TypeError(f"a text is expected, not {type(text).__name__}")
    return "".join(character for character in text[:LONGEST_WORD] if character.isprintable())


def instant(value: object) -> float:
    """A moment since the epoch; TypeError where no calendar has it."""
    at = number(value)
    if not 0.0 <= at < LATEST:
        raise TypeError("a moment is expected")
    return at


def number(value: object) -> float:
    """A finite number; TypeError where it is none."""
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not abs(value) < float("inf")
    ):
        raise TypeError("a number is expected")
    return float(value)
