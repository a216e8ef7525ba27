"""Bringing the agent to a machine and starting it there."""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from nbprov.remote.errors import RemoteError
from nbprov.remote.ssh.connection import Connection

from .messages import AgentConfig

FILE_NAME = "agent.py"
OLDEST_PYTHON = (3, 8)


@dataclass(frozen=True, slots=True)
class Program:
    """The agent's file as it is shipped, and its hash."""

    content: bytes
    hash: str


@cache
def program() -> Program:
    """Read the agent's file once."""
    content = files("nbprov.on_machine.agent").joinpath(FILE_NAME).read_bytes()
    return Program(content, hashlib.sha256(content).hexdigest())


def command(config: AgentConfig, mode: str) -> str:
    """The shell command that runs the agent's file in a mode. `exec` keeps the login shell from standing between it and sshd."""
    folder = f'"$HOME"/{shlex.quote(config.folder)}'
    return f"exec {shlex.quote(config.python)} {folder}/{FILE_NAME} {mode} {folder}"


async def install(connection: Connection, config: AgentConfig) -> bool:
    """Put the agent's file in place unless the same one is there; True if it was sent.

    Raises
    ------
    RemoteError
        If the machine has no Python that is new enough, or its home cannot be written.
    """
    folder = f'"$HOME"/{shlex.quote(config.folder)}'
    probe = (
        f"{shlex.quote(config.python)} -c 'import sys; print(*sys.version_info[:2])' || echo none\n"
        f"mkdir -p {folder} && chmod 700 {folder} || exit 73\n"
        f"sha256sum {folder}/{FILE_NAME} 2>/dev/null | cut -c1-64"
    )
    found = (await connection.run(probe)).check("making the agent's folder").stdout.splitlines()
    _check_python(found[0] if found else "none", config.python)
    if len(found) > 1 and found[1] == program().hash:
        return False
    put = f"umask 077; cat >{folder}/{FILE_NAME}.new && mv -f {folder}/{FILE_NAME}.new {folder}/{FILE_NAME}"
    (await connection.run(put, program().content)).check("copying the agent")
    return True


def _check_python(found: str, name: str) -> None:
    words = found.split()
    wanted = ".".join(map(str, OLDEST_PYTHON))
    if len(words) != 2 or not all(word.isdigit() for word in words):
        raise RemoteError(
            f"the machine has no {name}",
            hint=f"choose an image with Python {wanted} or later",
            code="remote.no-python",
        )
    if (int(words[0]), int(words[1])) < OLDEST_PYTHON:
        raise RemoteError(
            f"the machine's {name} is {'.'.join(words)}",
            hint=f"choose an image with Python {wanted} or later",
            code="remote.old-python",
        )


async def launch(connection: Connection, config: AgentConfig) -> None:
    """Start the agent's daemon, or find that it runs."""
    (await connection.run(command(config, "serve"))).check("starting the agent")
