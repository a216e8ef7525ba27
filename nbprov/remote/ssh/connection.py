"""One verified ssh connection to one machine: run commands, open channels, copy files.

Nothing of the user's own ssh configuration is used.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nbprov.model.clock import Seconds
from nbprov.on_machine.transfer_limit import TransferLimit
from nbprov.remote.bounded_transfer import TransferTooSlow, bounded_transfer
from nbprov.remote.errors import SshCode, SshError

from .asyncssh_patches import bound
from .command import Completed, bounded, exports
from .keys import ClusterKeys
from .login import default_user, log_in
from .port_forward import open_channel
from .tar_copy import plan_copy, send
from .warm_programs import WarmPrograms

if TYPE_CHECKING:
    import asyncssh

CONNECT_SECONDS: Seconds = 15.0
"""One try to connect.

A handshake takes 0.2 s nearby and 2 s round the world; beyond 15 s a fresh try does better.
"""
MAX_SESSIONS = 8
"""Channels open at once on one connection.

sshd's MaxSessions is 10 by default, and it refuses the eleventh. Two stay free for the user.
"""
CROWDED = 6
"""Channels in use from which on none is kept open for a program that only waits."""
RUN_SECONDS: Seconds = 60.0
"""How long `run` waits unless told otherwise. What takes longer should be a job."""
SESSION_RETRY: Seconds = 0.05
"""The pause before a channel that sshd refused is asked for again."""
WINDOW = 2 * 1024 * 1024
"""asyncssh's own default for the bytes a command may send ahead of its reader."""
CLOSE_SECONDS: Seconds = 1.0
"""How long a channel may take to close."""


class Connection:
    """A connection made by `Connection.open`.

    Examples
    --------
    ::

        connection = await Connection.open(host, port, keys, deadline=30)
        print((await connection.run("nvidia-smi -L")).stdout)
    """

    def __init__(self, host: str, port: int, keys: ClusterKeys, user: str) -> None:
        self.host, self.port, self.keys, self.user = host, port, keys, user
        self._where = f"{host} port {port}"
        self._ssh: asyncssh.SSHClientConnection | None = None
        self._lost = asyncio.Event()
        self._sessions = _SessionLimit(MAX_SESSIONS)
        self.warm_programs = WarmPrograms()

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        keys: ClusterKeys,
        deadline: Seconds = CONNECT_SECONDS,
        user: str | None = None,
    ) -> Connection:
        """Connect once, to the machine that holds this cluster's host key and to no other.

        Parameters
        ----------
        deadline
            Seconds allowed, counted from this call.
        user
            The user to log in as. By default `root`, and on this computer's loopback addresses the
            user who runs this program.

        Raises
        ------
        SshError
            With its code: not up (yet), time out, foreign host key, login refused.
        """
        made = cls(host, port, keys, user or default_user(host))
        made._ssh = await log_in(host, port, made.user, keys, deadline, made._lost)
        return made

    async def reopen(self, deadline: Seconds = CONNECT_SECONDS) -> Connection:
        """Open a new connection to the same machine."""
        return await Connection.open(self.host, self.port, self.keys, deadline, self.user)

    @property
    def is_open(self) -> bool:
        """Whether the connection is up, as far as is known.

        A cut cable shows when the keepalives go unanswered.
        """
        return self._ssh is not None and not self._lost.is_set()

    @property
    def is_crowded(self) -> bool:
        """Whether too many channels are in use to keep one open for a program that only waits."""
        return self._sessions.in_use >= CROWDED

    @asynccontextmanager
    async def channel(
        self, command: str, window: int = WINDOW
    ) -> AsyncIterator[asyncssh.SSHClientProcess[bytes]]:
        """Run a command on a channel of its own, in bytes; the channel ends with the block.

        Waits while all channels are in use.

        Parameters
        ----------
        window
            Bytes that the command may send before its first ones have been read.

        Raises
        ------
        SshError
            The connection does not carry it.
        """
        import asyncssh

        if self.is_crowded:
            await self.warm_programs.drop()
        async with self._sessions:
            # Shielded: a channel that is cancelled while it is being opened would stay open on the
            # machine for as long as the connection.
            opening = asyncio.ensure_future(self._new_process(self._open_ssh(), command, window))
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    process = await asyncio.shield(opening)
            except asyncio.CancelledError:
                opening.add_done_callback(_close_late)
                raise
            except (OSError, asyncssh.Error, TimeoutError) as error:
                opening.add_done_callback(_close_late)
                raise SshError(
                    SshCode.LOST, f"no channel to {self._where}: {error or 'no answer in time'}"
                ) from error
            try:
                yield process
            finally:
                process.close()
                with suppress(TimeoutError):
                    async with asyncio.timeout(CLOSE_SECONDS):
                        await process.wait_closed()

    def _open_ssh(self) -> asyncssh.SSHClientConnection:
        if self._ssh is None or self._lost.is_set():
            raise SshError(SshCode.LOST, f"the connection to {self._where} is closed")
        return self._ssh

    async def _new_process(
        self, ssh: asyncssh.SSHClientConnection, command: str, window: int
    ) -> asyncssh.SSHClientProcess[bytes]:
        import asyncssh

        while True:
            try:
                process = await ssh.create_process(command, encoding=None, window=window)
                bound(process)
                return process
            except asyncssh.ChannelOpenError:
                # sshd counts a session until its process has gone, which is a little later than
                # the end of its channel.
                if self._lost.is_set():
                    raise
                # The machine's sshd may allow fewer sessions than the default.
                await self.warm_programs.drop()
                await asyncio.sleep(SESSION_RETRY)

    async def run(
        self,
        command: str,
        stdin: str | bytes | None = None,
        env: Mapping[str, str] | None = None,
        *,
        deadline: Seconds = RUN_SECONDS,
    ) -> Completed:
        """Run a command with `sh` on the machine and collect its output.

        Parameters
        ----------
        env
            Variables for the command. They travel inside the connection, not on a command line.
        deadline
            Seconds allowed; then `SshError` (time out) is raised, and the machine ends the command.
        """
        data = stdin.encode() if isinstance(stdin, str) else stdin or b""
        if env:
            prelude = exports(env)
            command, data = f'eval "$(head -c {len(prelude)})"\n{command}', prelude + data
        async with self.channel(bounded(command, deadline + 1)) as process:
            try:
                async with asyncio.timeout(deadline):
                    stdout, stderr = await process.communicate(data)
            except TimeoutError:
                raise SshError(
                    SshCode.TIMEOUT, f"a command did not end within {deadline:g} s"
                ) from None
            if self._lost.is_set() and process.returncode is None:
                raise SshError(SshCode.LOST, f"the connection to {self._where} broke")
            return Completed.of(process.returncode, stdout, stderr)

    async def copy_in(
        self,
        source: Path,
        target: str,
        *,
        progress: Callable[[int], None] | None = None,
        limit: TransferLimit = TransferLimit(),  # noqa: B008 - it does not change
    ) -> None:
        """Copy a local file or folder onto the machine; other files that are there stay.

        Parameters
        ----------
        target
            Absolute, or relative to the home (`~/x` or `x`). A folder's content goes into
            `target`. A file becomes `target`, or goes into it where it ends in `/`.
        progress
            Called with the number of bytes sent so far.
        limit
            The least speed and the longest time.

        Raises
        ------
        CopyError
            If `target` has `..` in it, the source does not exist, or the machine cannot write
            there.
        SshError
            With the code for a time-out, if it is too slow or takes too long.
        """
        plan = await asyncio.to_thread(plan_copy, source)
        try:
            async with bounded_transfer(limit) as watch:
                await send(self.channel, plan, target, watch, progress)
        except TransferTooSlow as slow:
            words = f"copying {source} {slow}, and was ended"
            raise SshError(SshCode.TIMEOUT, words) from None

    async def reach(
        self, port: int, session: Callable[[asyncio.Event], Any], at: str = "127.0.0.1"
    ) -> None:
        """Open a channel to a port of the machine's own, for an asyncssh session.

        Parameters
        ----------
        at
            The machine's loopback, or another address of its own.

        Raises
        ------
        SshError
            The connection broke.
        PortRefused
            Nothing listens there, or the machine forwards no ports.

        Notes
        -----
        After a cancellation the channel is still opened; its session finds out and closes it.
        """
        await open_channel(self._open_ssh(), port, session, self._where, self._lost, at)

    async def close(self) -> None:
        """Close the connection and its channels. What the agent runs on the machine goes on."""
        if self._ssh is not None:
            self._ssh.close()
            await self.warm_programs.drop()
            try:
                async with asyncio.timeout(2.0):
                    await self._ssh.wait_closed()
            except TimeoutError:
                self._ssh.abort()

    def abort(self) -> None:
        """Drop the connection at once, without telling the machine."""
        if self._ssh is not None:
            self._ssh.abort()


class _SessionLimit(asyncio.Semaphore):
    """Limits the channels that are open at once, and counts them."""

    in_use = 0

    async def acquire(self) -> Literal[True]:
        await super().acquire()
        self.in_use += 1
        return True

    def release(self) -> None:
        self.in_use -= 1
        super().release()


def _close_late(opening: asyncio.Future[asyncssh.SSHClientProcess[bytes]]) -> None:
    """Close a channel that opens after its caller has given up."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
