"""Shell commands on a machine: how one is put together, and how it ended."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from nbprov.model.clock import Seconds
from nbprov.remote.errors import RemoteError

# The machine itself ends a command that takes too long: sshd passes signals on for some users
# only, and ends nothing when a channel closes.
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

    @classmethod
    def of(
        cls, exit_code: int | None, stdout: bytes | str | None, stderr: bytes | str | None
    ) -> Completed:
        """Make the result from what asyncssh returns."""
        return cls(-1 if exit_code is None else exit_code, _text(stdout), _text(stderr))

    def check(self, what: str) -> Completed:
        """Return itself if the exit code is 0.

        Raises
        ------
        RemoteError
            The exit code is another. The message names `what` and quotes the command's last line.
        """
        if self.exit_code == 0:
            return self
        lines = (self.stderr.strip() or self.stdout.strip()).splitlines()
        last = lines[-1] if lines else "no output"
        raise RemoteError(
            f"{what} failed on the machine (exit code {self.exit_code}): {last}",
            code="remote.command",
        )


def bounded(command: str, deadline: Seconds) -> str:
    """Return a command that runs another with `sh`, and ends it after `deadline` seconds."""
    return f"exec sh -c {shlex.quote(_BOUNDED)} {deadline:.0f} {shlex.quote(command)}"


def exports(env: Mapping[str, str]) -> bytes:
    """Return the shell text that sets variables.

    Raises
    ------
    RemoteError
        A name is none of an environment variable.
    """
    for name in env:
        if not _ENV_NAME.match(name):
            raise RemoteError(
                f"{name!r} is not a name of an environment variable",
                hint="use letters, digits and _",
                code="remote.env",
            )
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in env.items()).encode()


def _text(data: bytes | str | None) -> str:
    return data.decode("utf-8", "replace") if isinstance(data, bytes) else data or ""
