"""Blotting secrets out of what machines print: of a whole text, and of one that comes in pieces."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import suppress
from functools import lru_cache

from nbprov.model.clock import Seconds
from nbprov.model.secret import Secret
from nbprov.remote.agent.messages import Environment

LEAST_SECRET = 4
"""Shorter values are not blotted out: a secret `1` would blot out half of every log."""
BLOT = "***"
HELD_SECONDS: Seconds = 1.0
"""So long what may be the first letters of a secret waits for the rest: longer than a line's pieces lie apart, and no prompt waits to be read."""


class Masker:
    """Blots values out of a text.

    Attributes
    ----------
    values
        What is blotted out, the longest first, without the blanks around it: a token that was read from a file has a line end, what prints it has none.

    Examples
    --------
    >>> masker({"T": Secret("hf_abc")})("clone https://hf_abc@host")
    'clone https://***@host'
    """

    def __init__(self, values: Iterable[str]) -> None:
        self.values = tuple(
            sorted(
                {v for v in map(str.strip, values) if len(v) >= LEAST_SECRET},
                key=lambda v: (-len(v), v),
            )
        )

    def __call__(self, text: str) -> str:
        """The text without them."""
        for value in self.values:
            text = text.replace(value, BLOT)
        return text


def masker(env: Environment) -> Masker:
    """What blots out the secrets of an environment."""
    return Masker(value.reveal() for value in env.values() if isinstance(value, Secret))


class StreamMasker:
    """Blots values out of a text that comes in pieces, wherever it is cut: what may be the beginning of one is held back until that is told.

    Parameters
    ----------
    values
        Asked with each piece: there may be more of them than before.

    Examples
    --------
    >>> stream = StreamMasker(lambda: ["hf_abcdef"])
    >>> [stream.add("token hf_a"), stream.add("bcdef ok h"), stream.end()]
    ['token ', '*** ok ', 'h']
    """

    def __init__(self, values: Callable[[], Iterable[str]]) -> None:
        self._values = values
        self._shown = self._held = ""

    @property
    def is_brief(self) -> bool:
        """Whether so little is held back that it may be shown: of a secret no more than a text too short to be one."""
        return bool(self._held) and len(self._shown + self._held) < LEAST_SECRET

    def add(self, piece: str) -> str:
        """What may be shown once this piece has come."""
        values = Masker(self._values()).values
        text, skip = self._shown + self._held + piece, len(self._shown)
        spans = spans_of(values, text)
        cut = min((beginning_of(value, text) for value in values), default=len(text))
        # A secret that ends within the beginning of another one is shown whole, or not at all.
        cut = next((start for start, end in spans if start < cut < end), cut)
        self._shown, self._held = text[cut:skip], text[max(cut, skip) :]
        return blotted(text[:cut], [span for span in spans if span[1] <= cut], skip)

    def early(self) -> str:
        """Show what is held back, where it is brief. What was shown so is remembered: the rest of a secret is blotted out all the same."""
        if not self.is_brief:
            return ""
        shown, self._held = self._held, ""
        self._shown += shown
        return shown

    def end(self) -> str:
        """What is left at the end."""
        text, skip = self._shown + self._held, len(self._shown)
        self._shown = self._held = ""
        return blotted(text, spans_of(Masker(self._values()).values, text), skip)


@lru_cache(maxsize=4)
def _pattern(values: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, values)))


def spans_of(values: tuple[str, ...], text: str) -> list[tuple[int, int]]:
    """Where a text holds values, the longest of those that begin at a place; the agent has the same."""
    there = tuple(value for value in values if value in text)
    return [match.span() for match in _pattern(there).finditer(text)] if there else []


def beginning_of(value: str, text: str) -> int:
    """Where the longest end of a text starts with which the value begins, and does not end; its length where there is none."""
    first, head = max(0, len(text) - len(value) + 1), value[:LEAST_SECRET]
    at = text.find(head, first)
    while at >= 0:
        if value.startswith(text[at:]):
            return at
        at = text.find(head, at + 1)
    return next(
        (
            at
            for at in range(max(first, len(text) - LEAST_SECRET + 1), len(text))
            if value.startswith(text[at:])
        ),
        len(text),
    )


def blotted(text: str, spans: Iterable[tuple[int, int]], skip: int) -> str:
    """A text from `skip` on, blots in place of the spans."""
    found, place = [], skip
    for start, end in spans:
        if end > place:
            found += [text[place : max(place, start)], BLOT]
            place = end
    return "".join([*found, text[place:]])


async def masked(
    pieces: AsyncGenerator[str, None], values: Callable[[], Iterable[str]]
) -> AsyncIterator[str]:
    """A text that comes in pieces, values blotted out of it. The pieces are closed with this."""
    stream = StreamMasker(values)
    waiting: asyncio.Future[str] | None = None
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(anext(pieces))
            await asyncio.wait({waiting}, timeout=HELD_SECONDS if stream.is_brief else None)
            if waiting.done():
                try:
                    text = stream.add(waiting.result())
                except StopAsyncIteration:
                    break
                finally:
                    waiting = None
            else:
                text = stream.early()
            if text:
                yield text
        if text := stream.end():
            yield text
    finally:
        if waiting is not None:
            waiting.cancel()
            with suppress(asyncio.CancelledError, StopAsyncIteration):
                await waiting
        await pieces.aclose()
