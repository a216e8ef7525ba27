"""End a transfer that is too slow or takes too long, whatever it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nbprov.on_machine.transfer_limit import TransferLimit, TransferWatch

LOOKS = 4
"""How often a transfer is looked at while it may be slow."""


class TransferTooSlow(Exception):
    """A transfer was ended; its text says why, as the end of a sentence."""


@asynccontextmanager
async def bounded_transfer(limit: TransferLimit) -> AsyncIterator[TransferWatch]:
    """Yield the watch of the transfer that this block is.

    Raises
    ------
    TransferTooSlow
        In place of whatever the block waits for, once the limit is passed.
    """
    watch, why = limit.watch(), ""

    async def look(end: asyncio.Timeout) -> None:
        nonlocal why
        while not why:
            await asyncio.sleep(min(1.0, limit.seconds / LOOKS))
            why = watch.trouble()
        end.reschedule(asyncio.get_running_loop().time())

    try:
        async with asyncio.timeout(None) as end:
            looking = asyncio.create_task(look(end))
            try:
                yield watch
            finally:
                looking.cancel()
    except TimeoutError:
        if not end.expired():
            raise
        raise TransferTooSlow(why) from None
