"""Real machines for a double.

Those of the `local` cloud (real sshd processes) in a separate folder.

A double with `--machines FOLDER` puts them behind its instances: what the adapter lists can be
reached over ssh, runs its start script and powers itself off. The daemon behind them is the `local`
cloud's own, with a market that never runs out and has no delays.
"""

from __future__ import annotations

import base64
import os
import shlex
import shutil
import socket
import tempfile
import threading
import time
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nbprov.clouds.local.client import DaemonClient
from nbprov.clouds.local.daemon import platform_calls
from nbprov.clouds.local.daemon.daemon import lock
from nbprov.clouds.local.rpc import AnswerLost, Unreachable

OWNER = "double"
CALL_SECONDS = 60.0
"""How long one call to the daemon may take; it needs a millisecond, more if many tests share the
processors."""
END_SECONDS = 60.0
"""How long ending all machines and their daemon may take; one machine takes milliseconds."""
CONNECT_SECONDS = 1.0
"""How long sshd may take to be connected to; on loopback this is at once or never."""
LOOK = 0.01
SHORT = 60
"""The longest folder that is used directly: unix sockets below it have about 100 bytes of path."""

MARKET = """
account = "double"
[timing]
accept = 0
boot = 0
end = 0
gone_shown = 86400
idle_exit = 3600
[[regions]]
name = "here"
zones = ["here-a"]
[[types]]
name = "cpu"
hourly = 0
vcpus = 1
memory_gib = 1
"""
GPU_TYPE = """
[[types]]
name = "{gpus}"
accelerator = "{name}"
count = {count}
device_memory_gib = {memory:g}
family = "{name}"
hourly = 0
vcpus = 1
memory_gib = 1
"""

BEGIN = """#!/bin/sh
# What the machine is told before its own start script runs: which node of its cluster it is.
NBPROV_NODE={node}; export NBPROV_NODE
settings="$NBPROV_MACHINE/boot/sshd_config"
sed 's/"NBPROV_NODE=[0-9]*"/"NBPROV_NODE={node}"/' "$settings" >"$settings.new" &&
  mv -f "$settings.new" "$settings"
script="$NBPROV_MACHINE/boot/user-data.own"
(umask 077; printf %s {script} | base64 -d >"$script")
exec {shell} "$script"
"""


class Machines:
    """Machines that a double starts, stops and ends.

    Safe to use from several threads; holds no connection.

    Parameters
    ----------
    folder
        Where their disks lie, made if missing; a long one is replaced by a short one in the suite's
        own folder, which `close` removes.

    Examples
    --------
    ::

        machines = Machines(Path("/tmp/m"))
        one = machines.create(user_data=script, public_key=line)
        while machines.address(one) == ("", 0): ...
        machines.terminate(one)
        machines.close()
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._is_own = _short(folder.absolute())
        self._client = DaemonClient(self.folder)
        self._lock = threading.Lock()
        self._types: dict[str, str] = {}
        self._reached: dict[str, tuple[str, int]] = {}
        write_market(self.folder, self._types.values())
        self._call("describe")

    def create(
        self,
        *,
        user_data: str = "",
        public_key: str = "",
        on_poweroff: str = "terminate",
        gpus: str = "",
        node: int = 0,
        gpu_memory_gib: float = 24,
    ) -> str:
        """Make a machine and return its id at once; it boots by itself.

        Parameters
        ----------
        user_data
            Its start script, run at every start with `NBPROV_HOST_KEY` and `NBPROV_AUTHORIZED_KEYS`
            naming where its keys go.
        on_poweroff
            `terminate` or `stop`: what becomes of it when it powers itself off without saying
            which.
        gpus
            Simulated ones, `A100:8`, as its `nvidia-smi` shows them.
        node
            Its number in its cluster, told it as `NBPROV_NODE`.
        """
        if on_poweroff not in ("terminate", "stop"):
            raise ValueError(f"on_poweroff is terminate or stop, not {on_poweroff!r}")
        token = uuid.uuid4().hex
        arguments: dict[str, Any] = {
            "region": "here",
            "zone": "here-a",
            "type": self._type(gpus, gpu_memory_gib),
            "market": "on-demand",
            "token": token,
            "owner": OWNER,
            "name": "machine",
            "count": 1,
            "disk_gb": 0,
            "image": "",
            "tags": {},
            "user_data": _told(user_data, node) if node else user_data,
            "public_key": public_key,
            "ports": [],
            "on_shutdown": on_poweroff,
            "terminate_after": None,
            "answer_by": 0.0,
        }
        self._call("submit", arguments)
        decided = self._call("poll", {"token": token})
        if decided["state"] != "accepted":
            raise RuntimeError(f"no machine could be made: {decided['code']}: {decided['message']}")
        return str(decided["ids"][0])

    def state(self, machine: str) -> str:
        """`pending`, `running`, `stopping`, `stopped`, `ending` or `gone`, a power-off from inside
        followed.
        """
        row = self._row(machine)
        return str(row["state"]) if row else "gone"

    def reason(self, machine: str) -> str:
        """Return why it is in its state; for a machine that powered itself off, the reason it
        gave.
        """
        row = self._row(machine)
        return str(row["reason"]) if row else ""

    def address(self, machine: str) -> tuple[str, int]:
        """Return the address of its sshd, or `("", 0)`. The port changes at every start."""
        row = self._row(machine)
        if not row or row["state"] != "running" or not row["port"]:
            return "", 0
        place = (str(row["host"]), int(row["port"]))
        if self._reached.get(machine) != place:
            if not _answers(place):
                return "", 0
            self._reached[machine] = place
        return place

    def login(self) -> str:
        """Return the user that its sshd admits: whoever runs the tests."""
        return platform_calls.login_name()

    def console(self, machine: str) -> str:
        """What it and its start script said."""
        return str(self._call("console", {"id": machine}))

    def disk(self, machine: str) -> Path:
        """Return its directory: `home` is the user's, `boot` and `log` are the cloud's."""
        return self.folder / "i" / machine

    def start(self, machine: str) -> None:
        """Start a stopped machine; its start script runs again.

        Raises `rpc.Refusal` if it is gone or stopping.
        """
        self._call("start", {"ids": [machine]})

    def stop(self, machine: str) -> None:
        """Stop a machine and keep its disk."""
        self._call("stop", {"ids": [machine]})

    def terminate(self, machine: str) -> None:
        """End a machine and remove its disk."""
        self._call("terminate", {"ids": [machine]})

    def close(self) -> None:
        """End all machines and the daemon, and wait until nothing of them runs.

        May be called again.
        """
        deadline = time.monotonic() + END_SECONDS
        while True:
            left = any((self.folder / "i").glob("*"))
            try:
                # A daemon that was killed leaves its machines; then a new one ends them.
                self._client.call(
                    "shutdown", {"end_machines": True}, timeout=END_SECONDS, start=left
                )
                break
            except Unreachable:
                if not left:
                    break
                raise
            except AnswerLost:
                # The daemon was ending when it was asked; asking twice is harmless.
                if time.monotonic() > deadline:
                    raise
                time.sleep(LOOK)
        self._await_end()
        if self._is_own:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _await_end(self) -> None:
        """Wait until the daemon has released its folder, shortly after its answer."""
        deadline = time.monotonic() + END_SECONDS
        while (self.folder / "daemon.lock").exists():
            held = lock(self.folder)
            if held is not None:
                held.close()
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"the daemon of {self.folder} did not end")
            time.sleep(LOOK)

    def _call(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        return self._client.call(name, arguments, timeout=CALL_SECONDS)

    def _row(self, machine: str) -> dict[str, Any] | None:
        rows: list[dict[str, Any]] = self._call("list", {"owner": OWNER})
        return next((row for row in rows if row["id"] == machine), None)

    def _type(self, gpus: str, memory: float) -> str:
        if not gpus:
            return "cpu"
        name, _, count = gpus.partition(":")
        with self._lock:
            if gpus not in self._types:
                self._types[gpus] = GPU_TYPE.format(
                    gpus=gpus, name=name, count=count or 1, memory=memory
                )
                write_market(self.folder, self._types.values())
        return gpus


def write_market(folder: Path, types: Iterable[str] = ()) -> None:
    """Write the market of a folder of machines: `cpu`, and these other types as TOML."""
    draft = folder / "market.new"
    draft.write_text(MARKET + "".join(types))
    draft.replace(folder / "market.toml")


def _short(folder: Path) -> tuple[Path, bool]:
    if len(os.fsencode(folder)) <= SHORT:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder, False
    # In the suite's own folder if there is one: its leftovers are reported at the end.
    base = Path(os.environ["NBPROV_HOME"]).parent if "NBPROV_HOME" in os.environ else None
    return Path(tempfile.mkdtemp(prefix="m", dir=base if base and base.is_dir() else None)), True


def _told(user_data: str, node: int) -> str:
    first = user_data.partition("\n")[0]
    shell = first[2:].strip() if first.startswith("#!") else "/bin/sh"
    return BEGIN.format(
        node=node, shell=shell, script=shlex.quote(base64.b64encode(user_data.encode()).decode())
    )


def _answers(place: tuple[str, int]) -> bool:
    try:
        with socket.create_connection(place, CONNECT_SECONDS) as link:
            link.settimeout(CONNECT_SECONDS)
            return link.recv(8).startswith(b"SSH-")
    except OSError:
        return False
