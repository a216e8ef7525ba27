"""Masking of a spec's secrets in what machines print."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import suppress

from nbprov.model.secret import Secret
from nbprov.on_machine.agent.masking import HELD_SECONDS, Masker, StreamMasker, ordered
from nbprov.remote.agent.messages import Environment


def masker(env: Environment) -> Masker:
    """Return what masks the secrets of an environment.

    Examples
    --------
    >>> masker({"T": Secret("hf_abc")})("clone https://hf_abc@host")
    'clone https://***@host'
    """
    return Masker(value.reveal() for value in env.values() if isinstance(value, Secret))


async def masked(
    pieces: AsyncGenerator[str, None], values: Callable[[], Iterable[str]]
) -> AsyncIterator[str]:
    """Yield a text that comes in pieces with values masked; the pieces are closed with this.

    Parameters
    ----------
    values
        Asked with each piece, since there may be more of them than before.
    """
    stream = StreamMasker(lambda: ordered(values()))
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
