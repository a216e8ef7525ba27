"""One verified ssh connection to one machine: run, stream, copy. Nothing of the user's own ssh set-up is used."""

from __future__ import annotations

import asyncio
import getpass
import ipaddress
import re
import shlex
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nbprov.model.clock import Seconds
from nbprov.model.failures import CloudError
from nbprov.remote.errors import RemoteError, SshCode, SshError

from .asyncssh_patches import bound
from .keys import ClusterKeys
from .port_forward import open_channel
from .tar_copy import plan_copy, send
from .warm_programs import Spares

if TYPE_CHECKING:
    import asyncssh

CONNECT_SECONDS: Seconds = 15.0
"""One try to connect: a handshake takes 0.2 s nearby and 2 s round the world; beyond this a fresh try does better."""
KEEPALIVE_SECONDS: Seconds = 15.0
"""Between two keepalives: below the 60 s after which common home routers and cloud NATs forget a silent connection."""
KEEPALIVE_MISSES = 3
"""Keepalives without an answer before a connection counts as dead: 45 s outlast a Wi-Fi hand-over."""
CIPHERS = (
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "chacha20-poly1305@openssh.com",
    "aes256-ctr",
    "aes192-ctr",
    "aes128-ctr",
)
"""asyncssh's own choice with AES-GCM first, which processors do in hardware: folders of large files move 1.3 to 1.5 times as fast."""
MAX_SESSIONS = 8
"""Channels at once on one connection: sshd's MaxSessions is 10 by default and refuses the eleventh; two stay free for the person's own use."""
CROWDED = 6
"""Channels in use from which on none is kept for a program that only waits."""
RUN_SECONDS: Seconds = 60.0
"""How long `run` waits unless told otherwise: what takes longer belongs into a job."""
FIRST_RETRY: Seconds = 0.05
LAST_RETRY: Seconds = 1.0
"""Bounds of the pause between two tries while sshd comes up: quick where a machine boots in a second, gentle where it takes minutes."""
REFUSED_RETRY = {SshCode.AUTH: 5.0, SshCode.HOST_KEY: 2.0}
"""Seconds between two tries that a machine which is not set up yet turns away: sshd from 9.8 on (PerSourcePenalties) shuts an address out for longer
and longer that comes again within 5 s of a refused login, or 1 s of a handshake that was broken off."""
WINDOW = 2 * 1024 * 1024
"""asyncssh's own."""
LINES_AHEAD = 1000
"""Lines read ahead of whoever consumes a stream, before the machine is made to wait."""

CLOSE_SECONDS: Seconds = 1.0
"""How long a channel's farewell is waited for."""

# The machine itself ends what overstays: sshd passes signals on for some users only, and ends nothing when a channel closes.
_BOUNDED = (
    'command -v timeout >/dev/null 2>&1 && exec timeout -k 5 "$0" sh -c "$1"; exec sh -c "$1"'
)
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(frozen=True, slots=True)
class Completed:
    """How a command ended. `exit_code` is negative where a signal ended it."""

    exit_code: int
    stdout: str
    stderr: str

    def check(self, what: str) -> Completed:
        """Return itself if the exit code is 0, else raise `RemoteError` that names `what` and quotes the last words of the command."""
        if self.exit_code == 0:
            return self
        words = (self.stderr.strip() or self.stdout.strip()).splitlines()
        raise RemoteError(
            f"{what} failed on the machine (exit code {self.exit_code}): {words[-1] if words else 'no output'}",
            code="remote.command",
        )


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
        self._ssh: asyncssh.SSHClientConnection | None = None
        self._lost = asyncio.Event()
        self._sessions = _Sessions(MAX_SESSIONS)
        self.spares = Spares()

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        keys: ClusterKeys,
        deadline: Seconds = CONNECT_SECONDS,
        user: str | None = None,
    ) -> Connection:
        """Connect once, to exactly the machine that holds this cluster's host key.

        Parameters
        ----------
        deadline
            Seconds allowed, counted from this call.
        user
            Whom to log in as. By default `root`, and on this computer's loopback addresses the person who runs this program.

        Raises
        ------
        SshError
            With its code: not up (yet), time out, foreign host key, login refused.
        """
        made = cls(host, port, keys, user or default_user(host))
        await made._connect(deadline)
        return made

    async def reopen(self, deadline: Seconds = CONNECT_SECONDS) -> Connection:
        """A fresh connection to the same machine."""
        return await Connection.open(self.host, self.port, self.keys, deadline, self.user)

    async def _connect(self, deadline: Seconds) -> None:
        import asyncssh

        try:
            async with asyncio.timeout(deadline):
                self._ssh = await asyncssh.connect(
                    self.host,
                    self.port,
                    username=self.user,
                    client_factory=lambda: _watcher(self._lost),
                    client_keys=[str(self.keys.client_private_file)],
                    known_hosts=([asyncssh.import_public_key(self.keys.host_public)], [], []),
                    server_host_key_algs=["ssh-ed25519"],
                    encryption_algs=CIPHERS,
                    preferred_auth="publickey",
                    config=None,
                    agent_path=None,
                    agent_forwarding=False,
                    gss_kex=False,
                    gss_auth=False,
                    keepalive_interval=KEEPALIVE_SECONDS,
                    keepalive_count_max=KEEPALIVE_MISSES,
                    login_timeout=deadline,
                )
        except (OSError, asyncssh.Error, TimeoutError) as error:
            raise self._classify(error) from error

    def _classify(self, error: BaseException) -> SshError:
        import asyncssh

        where = f"{self.host} port {self.port}"
        if isinstance(error, asyncssh.HostKeyNotVerifiable):
            return SshError(
                SshCode.HOST_KEY,
                f"{where} shows a host key that is not this cluster's ({self.keys.fingerprint}); not trusted",
            )
        if isinstance(error, asyncssh.KeyExchangeFailed):
            return SshError(
                SshCode.HOST_KEY,
                f"{where} offers no ed25519 host key, so it is not this cluster's machine: {error}",
            )
        if isinstance(error, asyncssh.PermissionDenied):
            return SshError(
                SshCode.AUTH, f"{where} refuses this cluster's key for user {self.user}: {error}"
            )
        if isinstance(error, TimeoutError):
            return SshError(SshCode.TIMEOUT, f"{where} did not answer in time")
        return SshError(SshCode.NOT_UP, f"{where} does not answer as an ssh server: {error}")

    @property
    def is_open(self) -> bool:
        """Whether the connection is up, as far as is known; a cut cable shows after the keepalives at the latest."""
        return self._ssh is not None and not self._lost.is_set()

    @property
    def is_crowded(self) -> bool:
        """Whether so many channels are in use that none is to be kept for what only waits."""
        return self._sessions.in_use >= CROWDED

    @asynccontextmanager
    async def channel(
        self, command: str, window: int = WINDOW
    ) -> AsyncIterator[asyncssh.SSHClientProcess[bytes]]:
        """Run a command on a channel of its own, in bytes; the channel ends with the block. Waits while all channels are in use.

        Parameters
        ----------
        window
            Bytes that the command may send before its first ones have been read.
        """
        import asyncssh

        if self.is_crowded:
            await self.spares.drop()
        async with self._sessions:
            if self._ssh is None or self._lost.is_set():
                raise SshError(
                    SshCode.LOST, f"the connection to {self.host} port {self.port} is closed"
                )
            # One that is given up while it is being opened would stay open at the machine's end for as long as the connection.
            opening = asyncio.ensure_future(self._new_process(self._ssh, command, window))
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    process = await asyncio.shield(opening)
            except asyncio.CancelledError:
                opening.add_done_callback(_close_late)
                raise
            except (OSError, asyncssh.Error, TimeoutError) as error:
                opening.add_done_callback(_close_late)
                raise SshError(
                    SshCode.LOST,
                    f"no channel to {self.host} port {self.port}: {error or 'no answer in time'}",
                ) from error
            try:
                yield process
            finally:
                process.close()
                with suppress(TimeoutError):
                    async with asyncio.timeout(CLOSE_SECONDS):
                        await process.wait_closed()

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
                # sshd counts a session until its process has gone, which is a little after its channel has.
                if self._lost.is_set():
                    raise
                await self.spares.drop()  # where sshd allows fewer sessions than by default, one that waits may be in the way
                await asyncio.sleep(FIRST_RETRY)

    async def run(
        self,
        command: str,
        stdin: str | bytes | None = None,
        env: Mapping[str, str] | None = None,
        *,
        deadline: Seconds = RUN_SECONDS,
    ) -> Completed:
        """Run a command with `sh` there and collect what it says.

        Parameters
        ----------
        env
            Variables for the command. They travel inside the connection, not on a command line.
        deadline
            Seconds allowed; then `SshError` (time out) is raised, and the machine ends the command.
        """
        data = stdin.encode() if isinstance(stdin, str) else stdin or b""
        if env:
            prelude = _exports(env)
            command, data = f'eval "$(head -c {len(prelude)})"\n{command}', prelude + data
        async with self.channel(
            f"exec sh -c {shlex.quote(_BOUNDED)} {deadline + 1:.0f} {shlex.quote(command)}"
        ) as process:
            try:
                async with asyncio.timeout(deadline):
                    stdout, stderr = await process.communicate(data)
            except TimeoutError:
                raise SshError(
                    SshCode.TIMEOUT, f"a command did not end within {deadline:g} s"
                ) from None
            if self._lost.is_set() and process.returncode is None:
                raise SshError(
                    SshCode.LOST, f"the connection to {self.host} port {self.port} broke"
                )
            return Completed(_exit_code(process.returncode), _text(stdout), _text(stderr))

    async def copy_in(
        self,
        source: Path,
        target: str,
        *,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Copy a local file or folder onto the machine; files that are there and not here stay.

        Parameters
        ----------
        target
            Where it goes: absolute, or relative to the home (`~/x` or `x`). A folder's content goes into `target`, a
            file becomes `target`, or goes into it where it ends in `/`.
        progress
            Called with the number of bytes sent so far.

        Raises
        ------
        CopyError
            If `target` has `..` in it, the source does not exist, or the machine cannot write there.
        """
        plan = await asyncio.to_thread(plan_copy, source)
        # A minute, and another for every 10 MB, which a poor home uplink (1.5 Mbit/s) still keeps.
        allowed = 60.0 + 60.0 * plan.bytes / 10_000_000
        try:
            async with asyncio.timeout(allowed):
                await send(self.channel, plan, target, progress)
        except TimeoutError:
            raise SshError(
                SshCode.TIMEOUT, f"copying {source} did not end within {allowed:g} s"
            ) from None

    async def reach(self, port: int, session: Callable[[], Any], at: str = "127.0.0.1") -> None:
        """Open a channel to a port of the machine's own, for a session as asyncssh calls it.

        Parameters
        ----------
        at
            Its loopback, or another address of its own.

        Notes
        -----
        Cancelling this leaves the opening to its end: its session finds out, and closes the channel.

        Raises
        ------
        SshError
            The connection broke.
        PortRefused
            Nothing listens there, or the machine forwards no ports.
        """
        where = f"{self.host} port {self.port}"
        if self._ssh is None or self._lost.is_set():
            raise SshError(SshCode.LOST, f"the connection to {where} is closed")
        await open_channel(self._ssh, port, session, where, self._lost, at)

    async def close(self) -> None:
        """Close the connection and its channels. What runs on the machine under the agent goes on."""
        if self._ssh is not None:
            self._ssh.close()
            await self.spares.drop()
            try:
                async with asyncio.timeout(2.0):
                    await self._ssh.wait_closed()
            except TimeoutError:
                self._ssh.abort()

    def abort(self) -> None:
        """Drop the connection at once, without a word to the other side."""
        if self._ssh is not None:
            self._ssh.abort()


class _Sessions(asyncio.Semaphore):
    """Channels to be had, and how many are in use."""

    in_use = 0

    async def acquire(self) -> Literal[True]:
        await super().acquire()
        self.in_use += 1
        return True

    def release(self) -> None:
        self.in_use -= 1
        super().release()


def _close_late(opening: asyncio.Future[asyncssh.SSHClientProcess[bytes]]) -> None:
    """End a channel that nobody waits for any more, once it is open."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


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
        Seconds for which a foreign host key or a refused login counts as "not up yet": on clouds where sshd answers before the
        start script has put the keys in place. Nothing is ever sent to a machine that shows a foreign key.
    on_silence
        Called after each try that nobody answered at all (`is_silence`), as where a firewall lets nothing through. It must return at once.

    Raises
    ------
    SshError
        The last failure; a foreign host key or a refused login at once, once the grace is over.
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
            spent, turned_away = loop.time() - started, REFUSED_RETRY.get(error.code, 0.0)
            if not error.may_pass and spent >= boot_grace:
                raise
            if is_silence(error):
                on_silence()
            if spent + max(pause, turned_away) >= deadline:
                raise SshError(
                    error.code if not error.may_pass else SshCode.TIMEOUT,
                    f"no ssh within {deadline:g} s; last: {error.failure.message}",
                ) from error
        await asyncio.sleep(max(pause, turned_away))
        pause = min(pause * 1.5, LAST_RETRY)


def is_silence(error: SshError) -> bool:
    """Whether nobody answered a try to connect: neither an ssh server, nor a machine that has none (yet) and says so.

    A refused or reset connection is an answer; silence and "no route" may be a firewall between.
    """
    if error.code is SshCode.TIMEOUT:
        return True
    met = error.__cause__
    return (
        error.code is SshCode.NOT_UP
        and isinstance(met, OSError)
        and not isinstance(met, ConnectionError | socket.gaierror)
    )


def _watcher(lost: asyncio.Event) -> asyncssh.SSHClient:
    import asyncssh

    class Watcher(asyncssh.SSHClient):
        def connection_lost(self, exc: Exception | None) -> None:
            lost.set()

    return Watcher()


def is_here(host: str) -> bool:
    """Whether an address is this computer's own loopback."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def default_user(host: str) -> str:
    """Whom to log in as where nothing says it."""
    return getpass.getuser() if is_here(host) else "root"


def _exports(env: Mapping[str, str]) -> bytes:
    for name in env:
        if not _ENV_NAME.match(name):
            raise RemoteError(
                f"{name!r} is not a name of an environment variable",
                hint="use letters, digits and _",
                code="remote.env",
            )
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in env.items()).encode()


def _exit_code(code: int | None) -> int:
    return -1 if code is None else code


def _text(data: bytes | str | None) -> str:
    return data.decode("utf-8", "replace") if isinstance(data, bytes) else data or ""


__all__ = [
    "CloudError",
    "Completed",
    "Connection",
    "SshCode",
    "SshError",
    "is_silence",
    "wait_for_ssh",
]
