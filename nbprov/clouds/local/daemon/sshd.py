"""The ssh server of the machines, and its configuration."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from nbprov.model.clock import Seconds

from . import platform_calls

SSHD_VARIABLE = "NBPROV_LOCAL_SSHD"
"""The path of another sshd; `none` selects the asyncssh server."""
ASK_SECONDS: Seconds = 5.0
"""How long sshd may take to say whether it knows an option; it needs 10 ms."""

EXTRA_PATH = ("/usr/sbin", "/usr/local/sbin", "/sbin", "/opt/homebrew/sbin", "/opt/homebrew/bin")
SFTP_PLACES = (
    "/usr/lib/openssh/sftp-server",
    "/usr/libexec/sftp-server",
    "/usr/libexec/openssh/sftp-server",
    "/usr/lib/ssh/sftp-server",
)


@dataclass(frozen=True, slots=True)
class MachineSshd:
    """The ssh server of machines.

    Attributes
    ----------
    binary
        The path of sshd; empty for the asyncssh server.
    options
        Configuration lines that only this release of sshd knows.
    """

    binary: str
    options: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """A description for people."""
        return (
            f"ssh server: {self.binary}"
            if self.binary
            else "ssh server: a stand-in in Python, as no sshd is installed"
        )


@cache
def find() -> MachineSshd | None:
    """Return the ssh server that can be used here; None without both sshd and asyncssh."""
    named = os.environ.get(SSHD_VARIABLE, "")
    search = os.pathsep.join([os.environ.get("PATH", ""), *EXTRA_PATH])
    binary = None if named == "none" else named or shutil.which("sshd", path=search)
    if binary and _can_run(binary):
        return MachineSshd(binary, _known(binary, ("PerSourcePenalties no",)))
    return MachineSshd("") if find_spec("asyncssh") is not None else None


def _can_run(binary: str) -> bool:
    if not os.access(binary, os.X_OK):
        return False
    # As root, sshd switches to an account of its own before it reads network input.
    return "Privilege separation user" not in _ask(binary)


def _known(binary: str, options: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        o
        for o in options
        if "Bad configuration option" not in _ask(binary, "-o", o.replace(" ", "=", 1))
    )


def _ask(binary: str, *arguments: str) -> str:
    if platform_calls.user_id() == 0:
        make_privilege_dir()
    done = subprocess.run(
        [binary, "-t", "-f", "/dev/null", "-h", "/nonexistent", *arguments],
        capture_output=True,
        text=True,
        timeout=ASK_SECONDS,
        check=False,
    )
    return done.stderr


def make_privilege_dir() -> None:
    """As root, create the empty directory that sshd needs, which is missing after a container's
    boot.
    """
    place = Path("/run/sshd")
    if place.parent.is_dir():
        place.mkdir(mode=0o755, exist_ok=True)


def configuration(
    server: MachineSshd,
    boot: Path,
    host: str,
    port: int,
    env: Mapping[str, str],
    forced: Path | None,
) -> str:
    """Return the sshd_config of one machine; `forced` is a script that every session runs
    through.
    """
    lines = [
        f"ListenAddress {host}:{port}",
        f'HostKey "{boot / "host_key"}"',
        # Only this path may hold %-tokens.
        'AuthorizedKeysFile "' + str(boot / "authorized_keys").replace("%", "%%") + '"',
        "PidFile none",
        "UsePAM no",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "StrictModes no",
        "UseDNS no",
        "PrintMotd no",
        "PrintLastLog no",
        "Subsystem sftp internal-sftp",
        "MaxSessions 64",
        "MaxStartups 64:30:256",
        # The post-quantum exchange costs 60 ms for each connection and protects nothing on
        # loopback.
        "KexAlgorithms curve25519-sha256,curve25519-sha256@libssh.org,ecdh-sha2-nistp256",
        "PermitRootLogin prohibit-password",
        "AcceptEnv LANG LC_*",
        *server.options,
        "SetEnv " + " ".join(f'"{name}={value}"' for name, value in env.items()),
    ]
    if forced is not None:
        lines.append(f"ForceCommand /bin/sh {shlex.quote(str(forced))}")
    return "\n".join(lines) + "\n"


def session_script(shell: str) -> str:
    """Return a script that sets the home and shell of every session.

    It is needed where those of the account itself cannot be replaced.
    """
    sftp = next((p for p in SFTP_PLACES if os.access(p, os.X_OK)), "sftp-server")
    return f"""#!/bin/sh
cd "$HOME" || exit 1
SHELL={shell}
export SHELL
case "$SSH_ORIGINAL_COMMAND" in
"") exec {shell} -l ;;
internal-sftp*) exec {sftp} ;;
*) exec {shell} -c "$SSH_ORIGINAL_COMMAND" ;;
esac
"""
