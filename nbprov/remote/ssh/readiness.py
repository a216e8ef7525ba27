"""Wait until a machine's ssh server answers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from nbprov.model.clock import Seconds
from nbprov.remote.errors import SshCode, SshError

from .connection import CONNECT_SECONDS, Connection
from .keys import ClusterKeys

FIRST_RETRY: Seconds = 0.05
LAST_RETRY: Seconds = 1.0
"""Bounds of the pause between two tries.

It begins short, as some machines boot in a second, and grows, as others take minutes.
"""
REFUSED_RETRY = {SshCode.AUTH: 5.0, SshCode.HOST_KEY: 2.0}
"""Seconds between two tries at a machine that refuses the login because it is not set up yet.

sshd from 9.8 on (PerSourcePenalties) shuts out an address for longer and longer if it comes again
within 5 s of a refused login, or within 1 s of a handshake that was broken off.
"""


async def wait_for_ssh(
    host: str,
    port: int,
    keys: ClusterKeys,
    deadline: Seconds,
    user: str | None = None,
    *,
    boot_grace: Seconds = 0.0,
    on_silence: Callable[[], object] = lambda: None,
) -> Connection:
    """Try to connect until sshd answers or the deadline has passed.

    Parameters
    ----------
    deadline
        Seconds allowed, counted from this call.
    boot_grace
        Seconds for which a foreign host key or a refused login counts as "not up yet". On some
        clouds sshd answers before the start script has put the keys in place. Nothing is ever
        sent to a machine that shows a foreign key.
    on_silence
        Called after each try that nobody answered (see `is_silence`), for instance because a
        firewall drops the packets. It must return at once.

    Raises
    ------
    SshError
        The last failure. Once the grace is over, a foreign host key or a refused login is raised
        at once.
    """
    loop = asyncio.get_running_loop()
    started, pause = loop.time(), FIRST_RETRY
    while True:
        left = deadline - (loop.time() - started)
        try:
            return await Connection.open(
                host, port, keys, min(CONNECT_SECONDS, max(left, FIRST_RETRY)), user
            )
        except SshError as error:
            spent, refused_pause = loop.time() - started, REFUSED_RETRY.get(error.code, 0.0)
            if not error.may_pass and spent >= boot_grace:
                raise
            if is_silence(error):
                on_silence()
            if spent + max(pause, refused_pause) >= deadline:
                raise SshError(
                    error.code if not error.may_pass else SshCode.TIMEOUT,
                    f"no ssh within {deadline:g} s; last: {error.failure.message}",
                ) from error
        await asyncio.sleep(max(pause, refused_pause))
        pause = min(pause * 1.5, LAST_RETRY)


def is_silence(error: SshError) -> bool:
    """Return whether nobody answered a try to connect.

    A refused or reset connection is an answer: the machine is there and has no ssh server yet.
    Silence and "no route" may come from a firewall on the way.
    """
    if error.code is SshCode.TIMEOUT:
        return True
    cause = error.__cause__
    return (
        error.code is SshCode.NOT_UP
        and isinstance(cause, OSError)
        and not isinstance(cause, ConnectionError | socket.gaierror)
    )
