"""One machine: its directory, its scripts, and starting and ending its processes.

This module knows nothing about markets or operations.
"""

from __future__ import annotations

import json
import os
import random
import socket
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbprov.model.clock import Seconds

from . import guest_scripts, hidden_paths, isolation, platform_calls, processes, sshd
from .guest_folder import GuestFolder, remove_tree
from .isolation import Box, IsolationLevel

LISTEN_SECONDS: Seconds = 0.5
"""How long a start waits for the ssh port before the machine counts as running anyway; a start
script may take longer."""
LISTEN_STEP: Seconds = 0.002
"""The pause between two looks at the port; sshd needs 15 ms."""
DIRECTORIES = ("home", "tmp", "boot", "bin", "log", "venv/bin")
"""The directories below a machine's own; the machine may write to all of them."""
CONSOLE_LOG = "log/console.log"
"""The output of its first process and its start script."""
CONSOLE_BYTES = 64 * 1024
"""How much of the console is shown."""
POWEROFF_BYTES = 1024
"""The longest message that a machine may leave when it powers itself off."""


@dataclass(frozen=True, slots=True)
class MachineSettings:
    """What a machine is told about itself.

    Attributes
    ----------
    gpus
        Simulated accelerators, such as `A100:8`; empty without any.
    gpu_memory_mib
        The memory of one, for `nvidia-smi`.
    """

    instance: str
    name: str
    node: int
    gpus: str = ""
    gpu_memory_mib: int = 0


@dataclass(frozen=True, slots=True)
class StartedMachine:
    """A machine whose first process runs: the address of its sshd, and the handle to end it
    with.
    """

    host: str
    port: int
    handle: dict[str, Any]


class LocalMachine:
    """The files and processes of one machine, below `root/i/ID`."""

    def __init__(self, root: Path, instance: str) -> None:
        self.root = root
        self.instance = instance
        self.folder = root / "i" / instance
        self.files = GuestFolder(self.folder)

    def create(self, shape: MachineSettings, user_data: str, public_key: str) -> None:
        """Create the directory of a new machine. Repeating it changes only the start script."""
        self.folder.parent.mkdir(mode=0o700, exist_ok=True)
        self._make_directories()
        key = public_key.strip().encode() + b"\n"
        self.files.write("boot/public_key", key)
        self.files.write("boot/authorized_keys", key)
        self.files.write("boot/boot.sh", guest_scripts.BOOT.encode(), 0o700)
        self.files.write("boot/session.sh", sshd.session_script(_shell()).encode(), 0o700)
        for name, script in guest_scripts.scripts(shape.gpus).items():
            self.files.write(f"bin/{name}", script.encode(), 0o700)
        self._create_python()
        self.files.write("home/.profile", f'PATH="{self._path()}"\nexport PATH\n'.encode(), 0o644)
        if user_data:
            text = user_data if user_data.startswith("#!") else f"#!/bin/sh\n{user_data}"
            self.files.write("boot/user-data", text.encode())

    def _make_directories(self) -> None:
        for name in DIRECTORIES:
            self.files.make_directory(name)

    def start(
        self,
        level: IsolationLevel,
        server: sshd.MachineSshd,
        shape: MachineSettings,
        *,
        broken: bool = False,
    ) -> StartedMachine:
        """Start the machine and wait a moment for its sshd. If `broken`, its sshd never starts.

        Raises
        ------
        OSError
            If its first process cannot be started.
        """
        host, port = free_address()
        boot = self.folder / "boot"
        env = self._environment(shape)
        # Whatever a machine made of them: they are written to, and bound into its box.
        self._make_directories()
        accounts = platform_calls.accounts(
            self.folder / "home", _shell(), isolation.guest_id(level)
        )
        self.files.write("boot/passwd", accounts.encode(), 0o644)
        forced = None if level is IsolationLevel.BWRAP else boot / "session.sh"
        self.files.write(
            "boot/sshd_config", sshd.configuration(server, boot, host, port, env, forced).encode()
        )
        serve = guest_scripts.server_command(server, boot, host, port)
        env |= {"NBPROV_SERVE": "while :; do sleep 3600; done" if broken else serve}
        env |= {"NBPROV_KEYGEN": guest_scripts.keygen_command(boot / "host_key")}
        if level is not IsolationLevel.BWRAP and server.binary and platform_calls.user_id() == 0:
            sshd.make_privilege_dir()
        hidden, shown = hidden_paths.hidden_paths([self.root])
        box = Box(self.instance, shape.name[:60] or self.instance, self.folder, hidden, shown)
        command = ["/bin/sh", str(boot / "boot.sh")]
        handle = isolation.spawn(level, box, command, env, self.files.open_log(CONSOLE_LOG))
        if not broken:
            _await_port(host, port, handle)
        return StartedMachine(host, port, handle)

    def end(
        self, handle: Mapping[str, Any] | None, *, keep_disk: bool
    ) -> list[processes.ProcessIdentity]:
        """End all its processes, then remove its directory unless `keep_disk`.

        Returns processes that could not be ended; then the directory stays.
        """
        left = isolation.end(handle, self.instance, self.folder)
        if not left and not keep_disk:
            remove_tree(self.folder)
        return left

    def take_poweroff(self) -> tuple[str, str] | None:
        """Return the mode and reason with which it powered itself off since the last look, or None.

        The mode is `stop` or `terminate`; without one, as with `sudo poweroff`, it is the mode of
        its create.
        """
        try:
            request: bytes | None = self.files.read("poweroff", POWEROFF_BYTES)
        except FileNotFoundError:
            return None
        except OSError:
            request = None  # not what the machine's own script leaves; it must not hide the next
        with suppress(OSError):  # the machine may fill a directory of this name as fast
            self.files.unlink("poweroff")
        if request is None:
            return None
        mode, _, reason = request.decode(errors="replace").partition("\n")
        mode = mode.strip()
        return (mode if mode in ("stop", "terminate") else self._on_shutdown()), " ".join(
            reason.split()
        )

    def console(self) -> str:
        """Return the newest part of its console output."""
        try:
            said = self.files.read(CONSOLE_LOG, CONSOLE_BYTES, from_end=True)
        except OSError:
            return ""  # not there, or replaced by something that is no log
        return said.decode(errors="replace")

    def _on_shutdown(self) -> str:
        """Return the poweroff mode in the daemon's record of its create.

        `terminate` without a record.
        """
        ask = "SELECT body FROM rows WHERE kind = 'machine' AND id = ?"
        try:
            with closing(
                sqlite3.connect(f"{(self.root / 'state.db').as_uri()}?mode=ro", uri=True)
            ) as records:
                row = records.execute(ask, (self.instance,)).fetchone()
        except sqlite3.Error:
            return "terminate"
        return str(json.loads(row[0])["on_shutdown"]) if row is not None else "terminate"

    def _environment(self, shape: MachineSettings) -> dict[str, str]:
        boot = self.folder / "boot"
        env = {
            processes.MARKER: self.instance,
            "NBPROV_NODE": str(shape.node),
            "NBPROV_SIMULATED": "1",
            "NBPROV_SIMULATED_GPUS": shape.gpus,
            "NBPROV_SIMULATED_GPU_MEMORY": str(shape.gpu_memory_mib),
            "NBPROV_MACHINE": str(self.folder),
            "NBPROV_HOST_KEY": str(boot / "host_key"),
            "NBPROV_AUTHORIZED_KEYS": str(boot / "authorized_keys"),
            "HOME": str(self.folder / "home"),
            "PATH": self._path(),
            "LANG": os.environ.get("LANG", "C.UTF-8"),
        }
        return {name: value for name, value in env.items() if value}

    def _path(self) -> str:
        own = [self.folder / "bin", self.folder / "venv" / "bin", Path(sys.executable).parent]
        return ":".join(
            [*map(str, own), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
        )

    def _create_python(self) -> None:
        """Give the machine a Python environment of its own on top of this one's packages.

        So `pip install` there changes nothing here.
        """
        base = str(hidden_paths.base_python())
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        packages = f"venv/lib/{version}/site-packages"
        self.files.make_directory(packages)
        config = f"home = {Path(base).parent}\ninclude-system-site-packages = false\n"
        self.files.write("venv/pyvenv.cfg", config.encode(), 0o644)
        hosts = "".join(
            f"import site; site.addsitedir({p!r})\n" for p in hidden_paths.host_packages()
        )
        self.files.write(f"{packages}/_nbprov_host.pth", hosts.encode(), 0o644)
        for name in ("python", "python3", version):
            self.files.link(f"venv/bin/{name}", base)
        for name in ("pip", "pip3"):
            self.files.write(f"venv/bin/{name}", guest_scripts.PIP.encode(), 0o700)


def free_address() -> tuple[str, int]:
    """Return a free address and port on loopback.

    An address of its own on Linux, 127.0.0.1 elsewhere.
    """
    host = (
        f"127.0.{random.randint(1, 254)}.{random.randint(2, 254)}"
        if platform_calls.IS_LINUX
        else "127.0.0.1"
    )
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
        trial.bind((host, 0))
        return host, int(trial.getsockname()[1])


def _shell() -> str:
    return "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"


def _await_port(host: str, port: int, handle: Mapping[str, Any]) -> None:
    deadline = time.monotonic() + LISTEN_SECONDS
    for _ in _until(deadline):
        try:
            socket.create_connection((host, port), 0.1).close()
            return
        except OSError:
            if not isolation.alive(handle):
                return


def _until(deadline: Seconds) -> Iterator[None]:
    while time.monotonic() < deadline:
        yield
        time.sleep(LISTEN_STEP)
