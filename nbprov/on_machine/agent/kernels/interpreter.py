"""The Python that kernels run in: the spec's, the machine's, or one made with ipykernel."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Callable, Optional

from ..system import home, kill_group
from ..tasks.scripts import ScriptRunner, command_output

INSTALL_SECONDS = 900.0
PROBE_SECONDS = 10.0
QUIET_LINES = ("Downloading", "Using cached", "Requirement already")
LINE_CHARACTERS = 160

Report = Callable[[str], None]
OnInstaller = Callable[[Optional[asyncio.subprocess.Process]], None]


class KernelInterpreter:
    """Finds an interpreter that has ipykernel, and installs ipykernel once where none has.

    Parameters
    ----------
    folder
        The agent's folder; a virtual environment of ours is made below it.
    scripts
        Runs the installation.
    archive
        Holds the program that installs, and what it may install.
    """

    def __init__(self, folder: Path, scripts: ScriptRunner, archive: str) -> None:
        self._venv, self._scripts, self._archive = folder / "venv", scripts, archive
        self._found: str | None = None
        self._lock = asyncio.Lock()

    async def find(self, report: Report, on_installer: OnInstaller) -> str | None:
        """Return the path of an interpreter, or None if there is none and none could be made.

        Parameters
        ----------
        report
            Told what a person should see of it, a line at a time.
        on_installer
            Given the installing process, for whoever interrupts it, and None at its end.
        """
        async with self._lock:
            place = self._scripts.python_folder()
            if place:
                if environment_has(place, "ipykernel"):
                    return os.path.join(place, "bin", "python")
                report(
                    f"nbprov: the environment {place} has lost its ipykernel; "
                    "this kernel runs outside of it"
                )
            own = str(self._venv / "bin" / "python")
            if self._found is None:
                for candidate in (
                    shutil.which("python3"),
                    shutil.which("python"),
                    sys.executable,
                    own,
                ):
                    if candidate and await has_ipykernel(candidate):
                        self._found = candidate
                        return candidate
            if self._found is None and await self._install(report, on_installer):
                self._found = own if await has_ipykernel(own) else None
            return self._found

    async def _install(self, report: Report, on_installer: OnInstaller) -> bool:
        report(
            f"nbprov: this machine's Python has no ipykernel; installing it once into {self._venv}"
        )
        process = await self._scripts.start(
            self._install_script(),
            "nbprov-install",
            {},
            home(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        on_installer(process)
        assert process.stdout is not None
        timer = asyncio.get_event_loop().call_later(INSTALL_SECONDS, kill_group, process.pid)
        try:
            while True:
                line = await process.stdout.readline()
                if not line:
                    break
                text = line.decode("utf-8", "replace").strip()
                if text and not text.startswith(QUIET_LINES):
                    report("  " + text[:LINE_CHARACTERS])
            return await process.wait() == 0
        finally:
            timer.cancel()
            on_installer(None)

    def _install_script(self) -> str:
        python = shlex.quote(shutil.which("python3") or sys.executable)
        place = shlex.quote(str(self._venv))
        make = f"{python} -m venv --clear --system-site-packages {place}"
        root = "" if os.geteuid() == 0 else "sudo -n "
        # Debian's and Ubuntu's Python cannot make virtual environments until this package is there.
        repair = (
            f"command -v apt-get >/dev/null && {root}apt-get update -q "
            f"&& {root}apt-get install -y -q python3-venv"
        )
        install = f"{place}/bin/python {shlex.quote(self._archive)} kernel-install {place}"
        return f"set -e\n{make} || {{ {repair} && {make}; }}\n{install}\n"


def environment_has(place: str, package: str) -> bool:
    """Return whether an environment holds a package.

    Its files are looked for: an import may take long on a disk that is just being read.
    """
    found = Path(place).glob(f"lib/python*/site-packages/{package}/__init__.py")
    return next(found, None) is not None


async def has_ipykernel(python: str) -> bool:
    """Return whether an interpreter can run kernels."""
    code = "import ipykernel, jupyter_client, zmq; print(1)"
    return bool(await command_output(python, "-c", code, seconds=PROBE_SECONDS))
