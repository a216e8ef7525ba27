"""Read what a machine's agent sends, without believing it.

A message that no agent sends ends the channel with a short error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from nbprov.on_machine.agent import framing
from nbprov.remote.errors import RemoteError

T = TypeVar("T")

DISK_FULL_HINT = (
    "look with `df -h` and free room with `rm`, in a cell with --bash, which needs no disk;"
    " or launch a machine with a larger disk_size"
)
FOLLOW_LIMIT = 32 * 1024 * 1024
"""Bytes of followed output that may wait for a slow reader.

Beyond that the agent is asked to hold the rest, which it keeps on its disk.
"""

GREATEST_NUMBER = 2**53
"""The greatest number of an output, which no agent reaches."""

MOST_TASKS = 20_000
"""Tasks that an agent may list: it keeps some hundred ended ones, and a queue of two thousand."""

LIGHT_FRAME = 1_000_000
"""Bytes up to which a frame is read at once: at worst it becomes 25 MB, in 20 ms."""

# To read JSON is one call, in which no Ctrl-C is heard: with these bounds it takes 0.4 s, and 0.7 s
# on a busy computer. A display has at most 16 MB, in which a table has a container for each row,
# and a map one for each point.

MOST_STRUCTURE = 16_000_000
"""Bytes of a frame outside its texts. A comma there takes a reference of 8 bytes, and often a
number."""

MOST_CONTAINERS = 500_000
"""Lists and objects of a frame, of at least 56 bytes each: `[],` takes twenty times its bytes."""

MOST_TEXTS = 2_000_000
"""Texts of a frame, of at least 50 bytes each."""

MOST_KEYS = 200_000
"""Names of a frame's objects that differ. One takes ten times as long to read as a text, where one
that comes again takes no longer."""

LATEST = 253_402_300_000.0
"""Seconds since the epoch: the year 9999, after which there are no calendar dates."""

LONGEST_WORD = 2000
"""Characters of a reason, a name or a version that are shown."""

_IN_TEXT = re.compile(rb'[^"\\]{0,1000}(?:\\.[^"\\]{0,1000}){0,1000}', re.DOTALL)
"""A piece of a text, with what is escaped: a text of 60 MB takes seconds as a whole."""
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


def malformed(what: str) -> AgentError:
    """Return the error for a machine that sends what no agent sends."""
    return AgentError(
        f"what the machine sent is no answer of nbprov's agent: {what}",
        hint="somebody else may have written to its ~/.nbprov: do not trust what is on it;"
        " %nbprov down ends it",
        code="agent.foul",
    )


def pack(frame: Mapping[str, Any]) -> bytes:
    """Return a frame as it is sent.

    Raises
    ------
    AgentError
        If it is too large, or holds half of a character, which a machine cannot write or run.
    """
    try:
        data = framing.pack(frame)
    except framing.FrameError as error:
        raise AgentError(
            str(error), hint="copy large data as files", code="agent.too-large"
        ) from None
    if b"\\ud" in data:  # whole characters may look like this, too
        try:
            json.dumps(frame, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise AgentError(
                f"half of a character ({error.object[error.start]!a}) cannot be sent to a machine",
                hint="remove it from the text",
                code="agent.text",
            ) from None
    return data


def size_of(head: bytes) -> int:
    """Return the length that a frame's head tells.

    Raises
    ------
    AgentError
        If it is more than an agent sends.
    """
    try:
        return framing.size_of(head)
    except framing.FrameError as error:
        raise malformed(str(error)) from None


def unpack(body: bytes) -> dict[str, Any]:
    """Return the frame in these bytes, its shape checked: an answer, an event, or the greeting.

    Raises
    ------
    AgentError
        If it is none of them.
    """
    if len(body) > LIGHT_FRAME:
        _check_weight(body)
    frame = parsed(json.loads, body)
    if not isinstance(frame, dict):
        raise malformed("a message that is no object")
    if "re" in frame:
        error = frame.get("error")
        is_good = isinstance(frame["re"], int) and (
            error is None or (isinstance(error, dict) and {"code", "message"} <= error.keys())
        )
        if not is_good:
            raise malformed("an answer without its number or its words")
    elif not isinstance(frame.get("ev"), str):
        raise malformed("a message that is neither an answer nor an event")
    elif frame["ev"] == "out":
        _check_output(frame)
    elif frame["ev"] == "hello":
        _check_hello(frame)
    return frame


def _check_weight(body: bytes) -> None:
    """Bound what a large frame becomes, before it is read: 64 MB of lists would be gigabytes."""
    if body.count(b'"') > 2 * MOST_TEXTS:
        raise malformed("a message of too many parts")
    size = containers = 0
    keys: set[bytes] = set()
    last = b""
    for structure, text in _parts(body):
        size += len(structure)
        containers += structure.count(b"[") + structure.count(b"{")
        if structure.lstrip().startswith(b":"):
            keys.add(last)
        last = text
        if size > MOST_STRUCTURE or containers > MOST_CONTAINERS or len(keys) > MOST_KEYS:
            raise malformed("a message of too many parts")


def _parts(body: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield what stands before each text, and the text; each step of it takes little time."""
    at = 0
    while (quote := body.find(b'"', at)) >= 0:
        end = quote + 1
        while (more := _IN_TEXT.match(body, end)) and more.end() > end:
            end = more.end()
        yield body[at:quote], body[quote + 1 : end]
        at = end + 1
    yield body[at:], b""


def _check_output(frame: Mapping[str, Any]) -> None:
    entries = frame.get("entries")
    if not isinstance(frame.get("follow"), str) or not isinstance(entries, list):
        raise malformed("output that belongs to nothing")
    for entry in entries:
        if (
            not isinstance(entry, dict)
            or not isinstance(entry.get("k"), str)
            or not isinstance(entry.get("content", {}), dict)
        ):
            raise malformed("an output without a kind")
        if (
            type(entry.get("n")) is not int
            or not 0 < entry["n"] < GREATEST_NUMBER
            or not _is_instant(entry.get("t"))
        ):
            raise malformed("an output without its number")


def _is_instant(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value < LATEST  # type: ignore[operator]


def _check_hello(frame: Mapping[str, Any]) -> None:
    if not all(isinstance(frame.get(name), str) for name in ("hash", "version")) or not isinstance(
        frame.get("protocol"), int
    ):
        raise malformed("a greeting without its version")


def parsed(read: Callable[[Any], T], data: Any) -> T:
    """Read a part of an answer.

    Raises
    ------
    AgentError
        If it does not have the form that agents send.
    """
    try:
        return read(data)
    except _UNREADABLE as error:
        raise malformed(
            f"{type(error).__name__} in {getattr(read, '__qualname__', 'it')}"
        ) from None


def printable(text: object) -> str:
    """Return a machine's text as it may be shown: one short line without control characters.

    Raises
    ------
    TypeError
        If it is no text.

    Examples
    --------
    >>> printable("idle\\x1b]52;c;Zm9v\\x07 for 3 s")
    'idle]52;c;Zm9v for 3 s'
    """
    if not isinstance(text, str):
        raise TypeError(f"a text is expected, not {type(text).__name__}")
    return "".join(character for character in text[:LONGEST_WORD] if character.isprintable())


def instant(value: object) -> float:
    """Return a moment since the epoch; TypeError where no calendar has it."""
    at = number(value)
    if not 0.0 <= at < LATEST:
        raise TypeError("a moment is expected")
    return at


def number(value: object) -> float:
    """Return a finite number; TypeError where it is none."""
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not abs(value) < float("inf")
    ):
        raise TypeError("a number is expected")
    return float(value)
