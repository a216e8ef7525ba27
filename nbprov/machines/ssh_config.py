"""An ssh command and an ssh config file for other programs.

The config is a file of our own; the user's own ssh files are never changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import re
import shlex
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from nbprov.model.clock import Seconds
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import NbprovError, NotFound, UsageError
from nbprov.model.launches import Instance
from nbprov.model.paths import make_folder
from nbprov.remote.ssh.keys import ClusterKeys
from nbprov.runtime.fault_log import log_fault

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine
    from nbprov.provisioning.ledger import ClusterRow

log = logging.getLogger("nbprov.machines")

PREFIX = "nbprov-"
"""Put before a cluster's name, so that it is never one of the user's own hosts."""
RENEW_PAUSE: Seconds = 0.2
"""The file follows changes after this pause, since they come in bursts during a setup."""

_ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:-]{0,254}")
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9._-]{0,63}")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_PLAIN_PATH = re.compile(r"[A-Za-z0-9/:._-]+")
_NOT_IN_A_PATH = re.compile(r'["*?\[\]\x00-\x1f\x7f]|\$\{')

_HEAD = """\
# Written by nbprov, which rewrites it whenever its clusters start, end or move:
# changes made here are lost.
"""


class SshConfigError(NbprovError):
    """A value cannot be written into an ssh command or config without changing its meaning."""

    code = "ssh.cannot-say"


class SshFileUnwritable(NbprovError):
    """A file of ours that ssh reads cannot be written."""

    code = "ssh.unwritable"


def alias(name: str, node: int = 0) -> str:
    """Return a machine's host name in the config file.

    Examples
    --------
    >>> alias("dev"), alias("dev", 1), alias("a b* !c")
    ('nbprov-dev', 'node1.nbprov-dev', 'nbprov-a-b-c-f8ac2bfe')
    """
    if not _PLAIN_NAME.fullmatch(name):
        # No run makes such a name; one from the ledger must not become a pattern or a line.
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        name = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:60] + f"-{digest}"
    return (f"node{node}." if node else "") + PREFIX + name.lstrip("-")


def options_for(instance: Instance, keys: ClusterKeys) -> dict[str, str]:
    """Return the ssh options with which any ssh client reaches a machine as nbprov does.

    Only the cluster's own key and host key are used, and nothing is forwarded.

    Raises
    ------
    SshConfigError
        If the address, the user or our folder cannot be written into an ssh config.
    """
    # Imported here since every session loads this module, and most have no machine yet.
    from nbprov.remote.ssh.login import KEEPALIVE_MISSES, KEEPALIVE_SECONDS, default_user

    host, user = instance.host, instance.user or default_user(instance.host)
    if not _ADDRESS.fullmatch(host) or not _USER.fullmatch(user) or not 0 < instance.port < 65536:
        raise SshConfigError(
            f"the address {user!r} at {host!r} port {instance.port!r}"
            " cannot stand in an ssh command"
        )
    return {
        "HostName": host,
        "Port": str(instance.port),
        "User": user,
        "IdentityFile": _path(keys.client_private_file),
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "PreferredAuthentications": "publickey",
        "ForwardAgent": "no",
        "ForwardX11": "no",
        # The host key belongs to the cluster: another one may have had the same address before.
        "HostKeyAlias": keys.host_alias,
        "HostKeyAlgorithms": "ssh-ed25519",
        "UserKnownHostsFile": _path(keys.known_hosts_file),
        "GlobalKnownHostsFile": os.devnull,
        "StrictHostKeyChecking": "yes",
        "CheckHostIP": "no",
        "UpdateHostKeys": "no",
        "ServerAliveInterval": f"{KEEPALIVE_SECONDS:.0f}",
        "ServerAliveCountMax": str(KEEPALIVE_MISSES),
    }


def _path(path: Path) -> str:
    text = path.absolute().as_posix()
    if _NOT_IN_A_PATH.search(text) or (os.name == "posix" and "\\" in text):
        raise SshConfigError(
            f"the path {text!r} cannot stand in an ssh config",
            hint="set NBPROV_HOME to a folder with a plain name",
        )
    text = text.replace("%", "%%")
    return text if _PLAIN_PATH.fullmatch(text) else f'"{text}"'


def write_known_hosts(keys: ClusterKeys) -> None:
    """Write the cluster's host key where ssh looks for it, unless it is there already.

    Raises
    ------
    SshFileUnwritable
        If it cannot be written.
    """
    _write_private(keys.known_hosts_file, keys.known_hosts)


def _write_private(path: Path, text: str) -> None:
    """Replace a file whose text differs, in one step and never readable by others."""
    draft = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.new")
    try:
        if path.exists() and path.read_text(encoding="utf-8", errors="replace") == text:
            return
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        draft.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        if isinstance(error, OSError):
            raise _unwritable(path, error) from error
        raise


def _unwritable(path: Path, error: OSError) -> SshFileUnwritable:
    return SshFileUnwritable(
        f"{path}, which ssh needs, cannot be written: {error.strerror or error}",
        hint="make room on its disk, or make its folder writable",
    )


def ssh_arguments(engine: Engine, name: str, node: int = 0) -> list[str]:
    """Return the ssh command that logs in to a machine of a cluster, as words. Any thread.

    Raises
    ------
    NotFound
        If no live cluster has this name, or it is not running.
    UsageError
        If it has no such node.
    SshConfigError
        If one of its values cannot be written into a command.
    SshFileUnwritable
        If the file with its host key is missing and cannot be written.
    """
    row = engine.cluster(name)
    instances = _reachable(engine, row)
    if not instances:
        hint = (
            f"start it: %nbprov start {name}"
            if row.state is ClusterState.STOPPED
            else "%clusters shows how far it is"
        )
        raise NotFound(
            f"{name} is {row.state.value}, and has no address now",
            hint=hint,
            code="cluster.not-running",
        )
    instance = next((i for i in instances if i.node == node), None)
    if instance is None:
        raise UsageError(
            f"{name} has no node {node}",
            hint=f"nodes: {', '.join(str(i.node) for i in instances)}",
        )
    keys = ClusterKeys.load(engine.home / "keys" / row.run_id)
    options = options_for(instance, keys)
    write_known_hosts(keys)
    user, host, port = (options.pop(option) for option in ("User", "HostName", "Port"))
    words = [word for option, value in options.items() for word in ("-o", f"{option}={value}")]
    return ["ssh", "-F", "none", *words, "-p", port, f"{user}@{host}"]


def command_line(words: list[str]) -> str:
    """Return the words as a terminal of this computer takes them.

    Examples
    --------
    >>> command_line(["ssh", "-o", "A=x y"]) in ("ssh -o 'A=x y'", 'ssh -o "A=x y"')
    True
    """
    return shlex.join(words) if os.name == "posix" else subprocess.list2cmdline(words)


def _reachable(engine: Engine, row: ClusterRow) -> list[Instance]:
    if row.state not in (ClusterState.RUNNING, ClusterState.UNKNOWN):
        return []
    return [i for i in engine.ledger.instances.members(row.token) if i.host and i.port]


class SshConfig:
    """The ssh config file of all clusters.

    It is made when somebody asks for it, and kept up to date by every kernel from then on.

    Attributes
    ----------
    path
        The file, 0600, in a folder of its own.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.path = engine.home / "ssh" / "config"
        self._timer: asyncio.TimerHandle | None = None
        self._ignore: Callable[[], None] = lambda: None
        self._seen: list[object] | None = None

    @property
    def include(self) -> str:
        """The line to put at the top of the user's own config.

        Raises
        ------
        SshConfigError
            If the path of the file cannot be written into one.
        """
        return f"Include {_path(self.path)}"

    def names(self) -> list[str]:
        """Return the hosts that the file has now. Any thread."""
        return [
            alias(row.name, i.node)
            for row in self._engine.ledger.clusters.latest(live_only=True)
            for i in _reachable(self._engine, row)
        ]

    def write(self) -> None:
        """Rewrite the file. Any thread.

        Raises
        ------
        SshFileUnwritable
            If it cannot be written.
        """
        text = _HEAD + "".join(self._blocks())
        try:
            make_folder(self.path.parent, self._engine.home)
        except OSError as error:
            raise _unwritable(self.path, error) from error
        _write_private(self.path, text)

    def _blocks(self) -> Iterator[str]:
        for row in sorted(
            self._engine.ledger.clusters.latest(live_only=True), key=lambda r: (r.name, r.run_id)
        ):
            instances = _reachable(self._engine, row)
            if not instances:
                yield f"\n# {alias(row.name)} is {row.state.value}\n"
            for instance in instances:
                name = alias(row.name, instance.node)
                try:
                    keys = ClusterKeys.load(self._engine.home / "keys" / row.run_id)
                    options = options_for(instance, keys)
                    write_known_hosts(keys)
                except (NbprovError, OSError) as error:
                    log.warning("%s is left out of %s: %s", name, self.path, error)
                    yield f"\n# {name} is left out; nbprov's log says why\n"
                    continue
                yield f"\nHost {name}\n" + "".join(
                    f"    {option} {value}\n" for option, value in options.items()
                )

    def follow(self) -> None:
        """Rewrite the file after changes from now on, while it exists; on the engine's thread."""
        self._ignore()
        self._ignore = self._engine.subscribe(self._changed)
        self._changed()

    def leave(self) -> None:
        """Follow no more."""
        self._ignore()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _changed(self) -> None:
        if self._timer is None and self.path.exists():
            self._timer = asyncio.get_running_loop().call_later(RENEW_PAUSE, self._renew)

    def _renew(self) -> None:
        self._timer = None
        try:
            rows = self._engine.ledger.clusters.latest(live_only=True)
            seen: list[object] = [
                (row.name, row.run_id, row.state, _reachable(self._engine, row)) for row in rows
            ]
            if seen != self._seen:
                self.write()
                self._seen = seen
        except Exception as error:
            log_fault(log, error, "%s could not be renewed", self.path)
