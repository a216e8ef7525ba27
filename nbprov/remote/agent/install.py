"""Bring the agent to a machine and start it there."""

from __future__ import annotations

import shlex

from nbprov.remote.errors import RemoteError
from nbprov.remote.ssh.connection import Connection

from .archive import agent_archive
from .config import AgentConfig

OLDEST_PYTHON = (3, 8)


def command(config: AgentConfig, mode: str) -> str:
    """Return the shell command that runs the agent's archive in a mode.

    `exec` keeps the login shell from standing between it and sshd. `-I -S` keeps the start short,
    and independent of what a user has installed or set.
    """
    folder = _folder(config)
    python = shlex.quote(config.python)
    return f"exec {python} -I -S {folder}/{agent_archive().name} {mode} {folder}"


async def install(connection: Connection, config: AgentConfig) -> bool:
    """Put the agent's archive in place unless it is there; return whether it was sent.

    Raises
    ------
    RemoteError
        If the machine has no Python that is new enough, or its home cannot be written.
    """
    folder, archive = _folder(config), agent_archive()
    path = f"{folder}/{archive.name}"
    version = "import sys; print(*sys.version_info[:2])"
    probe = (
        f"{shlex.quote(config.python)} -I -S -c '{version}' || echo none\n"
        f"mkdir -p {folder} && chmod 700 {folder} || exit 73\n"
        f"sha256sum {path} 2>/dev/null | cut -c1-64"
    )
    done = (await connection.run(probe)).check("making the agent's folder")
    found = done.stdout.splitlines()
    _check_python(found[0] if found else "none", config.python)
    if len(found) > 1 and found[1] == archive.hash:
        return False
    put = f"umask 077; cat >{path}.new && mv -f {path}.new {path}"
    (await connection.run(put, archive.content)).check("copying the agent")
    return True


async def launch(connection: Connection, config: AgentConfig) -> None:
    """Start the agent's daemon, or find that it runs."""
    (await connection.run(command(config, "serve"))).check("starting the agent")


def _folder(config: AgentConfig) -> str:
    return f'"$HOME"/{shlex.quote(config.folder)}'


def _check_python(found: str, name: str) -> None:
    words = found.split()
    hint = f"choose an image with Python {'.'.join(map(str, OLDEST_PYTHON))} or later"
    if len(words) != 2 or not all(word.isdigit() for word in words):
        raise RemoteError(f"the machine has no {name}", hint=hint, code="remote.no-python")
    if (int(words[0]), int(words[1])) < OLDEST_PYTHON:
        message = f"the machine's {name} is {'.'.join(words)}"
        raise RemoteError(message, hint=hint, code="remote.old-python")
