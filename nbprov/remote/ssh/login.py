"""Log in to a machine over ssh: whom as, how, and what a failure means."""

from __future__ import annotations

import asyncio
import getpass
import ipaddress
from typing import TYPE_CHECKING

from nbprov.model.clock import Seconds
from nbprov.remote.errors import SshCode, SshError

from .keys import ClusterKeys

if TYPE_CHECKING:
    import asyncssh

KEEPALIVE_SECONDS: Seconds = 15.0
"""Between two keepalives.

Common home routers and cloud NATs forget a silent connection after 60 s.
"""
KEEPALIVE_MISSES = 3
"""Keepalives without an answer before a connection counts as dead.

The 45 s that this takes outlast a Wi-Fi hand-over.
"""
CIPHERS = (
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "chacha20-poly1305@openssh.com",
    "aes256-ctr",
    "aes192-ctr",
    "aes128-ctr",
)
"""asyncssh's own ciphers with AES-GCM first.

Processors compute AES-GCM in hardware: folders of large files move 1.3 to 1.5 times as fast.
"""


async def log_in(
    host: str, port: int, user: str, keys: ClusterKeys, deadline: Seconds, lost: asyncio.Event
) -> asyncssh.SSHClientConnection:
    """Connect to the machine that holds this cluster's host key, and to no other.

    Parameters
    ----------
    deadline
        Seconds allowed, counted from this call.
    lost
        Set once the connection is gone.

    Raises
    ------
    SshError
        The machine is not up, did not answer in time, shows a foreign host key or refuses the
        login; its code says which.
    """
    import asyncssh

    class Watcher(asyncssh.SSHClient):
        def connection_lost(self, exc: Exception | None) -> None:
            lost.set()

    try:
        async with asyncio.timeout(deadline):
            return await asyncssh.connect(
                host,
                port,
                username=user,
                client_factory=Watcher,
                client_keys=[str(keys.client_private_file)],
                known_hosts=([asyncssh.import_public_key(keys.host_public)], [], []),
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
        raise _classified(error, f"{host} port {port}", user, keys) from error


def _classified(error: BaseException, where: str, user: str, keys: ClusterKeys) -> SshError:
    import asyncssh

    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        return SshError(
            SshCode.HOST_KEY,
            f"{where} shows a host key that is not this cluster's ({keys.fingerprint});"
            " not trusted",
        )
    if isinstance(error, asyncssh.KeyExchangeFailed):
        return SshError(
            SshCode.HOST_KEY,
            f"{where} offers no ed25519 host key, so it is not this cluster's machine: {error}",
        )
    if isinstance(error, asyncssh.PermissionDenied):
        return SshError(
            SshCode.AUTH, f"{where} refuses this cluster's key for user {user}: {error}"
        )
    if isinstance(error, TimeoutError):
        return SshError(SshCode.TIMEOUT, f"{where} did not answer in time")
    return SshError(SshCode.NOT_UP, f"{where} does not answer as an ssh server: {error}")


def is_loopback(host: str) -> bool:
    """Return whether an address is this computer's own loopback."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def default_user(host: str) -> str:
    """Return the user to log in as where nothing names one."""
    return getpass.getuser() if is_loopback(host) else "root"
