"""The scripts of a machine: its boot, its poweroff, and its simulated GPUs.

A command that is meant to power a machine off must never reach the computer that runs it. `bin/`
stands first in the PATH of everything that runs in a machine, and replaces such commands by name.
In bubblewrap this is complete: a forced poweroff ends only the machine's own process namespace, and
the sockets of the computer's init are not visible. With weaker isolation only the names are
replaced: an absolute path without sudo, or a new PATH, reaches the computer's own command with the
rights of the notebook's user.
"""

from __future__ import annotations

import shlex
import sys
from importlib.resources import files
from pathlib import Path

from .sshd import MachineSshd


def _script(name: str) -> str:
    return (files(__package__) / "scripts" / name).read_text(encoding="utf-8")


BOOT = _script("boot.sh")
POWEROFF = _script("poweroff.sh")
POWER = _script("power_command.sh")
POWER_NAMES = ("poweroff", "shutdown", "halt", "reboot", "init", "telinit", "systemctl", "loginctl")
"""The commands that `POWER` replaces; it looks at its own name."""
SUDO = _script("sudo.sh")
SSH = _script("ssh.sh")
PIP = _script("pip.sh")
NVIDIA_SMI = _script("nvidia_smi.sh")


def scripts(gpus: str) -> dict[str, str]:
    """What is in a machine's `bin`, by name."""
    found = {
        "nbprov-poweroff": POWEROFF,
        "sudo": SUDO,
        "ssh": SSH,
        **dict.fromkeys(POWER_NAMES, POWER),
    }
    return found | {"nvidia-smi": NVIDIA_SMI} if gpus else found


def server_command(server: MachineSshd, boot: Path, host: str, port: int) -> str:
    """The shell command that serves ssh, in the foreground."""
    if server.binary:
        return "exec " + shlex.join([server.binary, "-D", "-e", "-f", str(boot / "sshd_config")])
    stand_in = [
        sys.executable,
        str(Path(__file__).with_name("asyncssh_server.py")),
        "serve",
        str(boot / "sshd_config"),
        host,
        str(port),
    ]
    return "exec " + shlex.join(stand_in)


def keygen_command(key: Path) -> str:
    """The shell command that makes a host key where the start script left none."""
    stand_in = shlex.join(
        [sys.executable, str(Path(__file__).with_name("asyncssh_server.py")), "keygen", str(key)]
    )
    ours = shlex.join(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)])
    return f"if command -v ssh-keygen >/dev/null; then {ours}; else {stand_in}; fi"
