"""The programs outside Python that the suite uses.

It finds those that are there, installs missing ones, and prints one line that says what to install.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

OPENED_BY_INSTALL = "openssh-server"


@dataclass(frozen=True)
class Program:
    """One program (or font) and the places and packages it is found under.

    Parameters
    ----------
    name
        What people call it.
    commands
        Names on PATH, any of which will do.
    paths
        Files that count as well, for programs outside PATH.
    debian, fedora, homebrew
        The package that brings it; empty where the system has it or it is not to be had.
    """

    name: str
    commands: tuple[str, ...]
    paths: tuple[str, ...]
    debian: str
    fedora: str
    homebrew: str

    def find(self) -> Path | None:
        """Where it is, or None."""
        for command in self.commands:
            if found := shutil.which(command):
                return Path(found)
        return next((Path(path) for path in self.paths if Path(path).exists()), None)


SSHD = Program(
    "sshd",
    ("sshd",),
    ("/usr/sbin/sshd", "/usr/local/sbin/sshd"),
    "openssh-server",
    "openssh-server",
    "",
)
BUBBLEWRAP = Program("bubblewrap", ("bwrap",), (), "bubblewrap", "bubblewrap", "")
CHROMIUM = Program(
    "chromium",
    # The shell draws no window of a browser around each page: a third less processor time a page.
    (
        "chromium-headless-shell",
        "chromium",
        "chromium-browser",
        "google-chrome",
        "google-chrome-stable",
    ),
    (
        "/Applications/Chromium.app/Contents/MacOS/Chromium",
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    ),
    "chromium-headless-shell",
    "chromium",
    "--cask chromium",
)
FIREFOX = Program(
    "firefox",
    ("firefox-esr", "firefox"),
    ("/Applications/Firefox.app/Contents/MacOS/firefox",),
    "firefox-esr",
    "firefox",
    "--cask firefox",
)
FONTS = Program(
    "DejaVu fonts",
    (),
    (
        "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
        "/usr/share/fonts/dejavu-sans-fonts/DejaVuSans.ttf",
        "/System/Library/Fonts",
    ),
    "fonts-dejavu-core",
    "dejavu-sans-fonts",
    "",
)
RSYNC = Program("rsync", ("rsync",), (), "rsync", "rsync", "rsync")

MACHINES = (SSHD,) if sys.platform == "darwin" else (SSHD, BUBBLEWRAP)
WHOLE_CHROMIUM = "chromium"
BROWSER = (CHROMIUM, FONTS)


def missing(programs: Iterable[Program]) -> list[Program]:
    """The programs that are not on this machine."""
    return [program for program in programs if program.find() is None]


def version(program: Program) -> str:
    """What a program that is there says of its version."""
    found = program.find()
    assert found is not None, f"{program.name} is missing"
    done = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def advice(programs: Iterable[Program]) -> str:
    """One line that says how to install the programs on this kind of machine."""
    wanted = list(programs)
    names = ", ".join(program.name for program in wanted)
    if sys.platform == "darwin":
        packages = " ".join(program.homebrew for program in wanted if program.homebrew)
        return (
            f"missing: {names}; install with: brew install {packages}"
            if packages
            else f"missing: {names}; macOS should have it"
        )
    if shutil.which("apt-get"):
        return (
            f"missing: {names}; install with: sudo apt-get install"
            f" {' '.join(program.debian for program in wanted)}"
        )
    if shutil.which("dnf"):
        return (
            f"missing: {names}; install with: sudo dnf install"
            f" {' '.join(program.fedora for program in wanted)}"
        )
    return f"missing: {names}; install them with this system's package manager"


def install_missing(programs: Iterable[Program]) -> list[Program]:
    """Install missing programs if that needs no question: on Debian, as root.

    Elsewhere, and if apt-get fails, nothing is raised: whatever uses a program reports that it is
    missing.

    Returns
    -------
    list of Program
        What is still missing; the advice for it has been printed.
    """
    wanted = missing(programs)
    if not wanted:
        return []
    if may_apt():
        offered = [
            program for program in wanted if program is not CHROMIUM or not _chromium_is_a_snap()
        ]
        apt_install([program.debian for program in offered])
        if CHROMIUM in offered and CHROMIUM.find() is None:
            # Some archives lack its shell, and apt-get then installs none of the packages.
            rest = [program.debian for program in missing(offered) if program is not CHROMIUM]
            apt_install([*rest, WHOLE_CHROMIUM])
        wanted = missing(wanted)
    if wanted:
        print(advice(wanted), file=sys.stderr, flush=True)
    return wanted


def may_apt() -> bool:
    """Whether packages can be installed here without asking.

    Debian or a relative of it, as root.
    """
    return sys.platform != "win32" and os.geteuid() == 0 and shutil.which("apt-get") is not None


def apt_install(packages: list[str]) -> bool:
    """Install Debian packages; print apt-get's output only if it fails.

    A server that comes with a package is neither started nor enabled: the suite and the demo start
    their own on loopback, and a machine without an open ssh port must not get one.
    """
    if not packages:
        return True
    print(f"installing {', '.join(packages)} (apt-get)", flush=True)
    quiet = ["-qq", "-o", "Dpkg::Use-Pty=0", "-o", "DPkg::Lock::Timeout=120"]
    with _NoServiceStart():
        done = _run(["apt-get", "update", *quiet]) and _run(
            ["apt-get", "install", "-y", "--no-install-recommends", *quiet, *packages]
        )
    if done and OPENED_BY_INSTALL in packages and Path("/run/systemd/system").exists():
        _run(["systemctl", "disable", "--quiet", "ssh.service", "ssh.socket"])
    return done


class _NoServiceStart:
    """While this is held, package scripts start no service (Debian's policy-rc.d answers 101)."""

    def __init__(self) -> None:
        self._policy = Path("/usr/sbin/policy-rc.d")
        self._ours = False

    def __enter__(self) -> None:
        if not self._policy.exists():
            self._policy.write_text("#!/bin/sh\nexit 101\n", encoding="utf-8")
            self._policy.chmod(0o755)
            self._ours = True

    def __exit__(self, *_: object) -> None:
        if self._ours:
            self._policy.unlink(missing_ok=True)


def _chromium_is_a_snap() -> bool:
    """Ubuntu's package of that name installs a snap, which hangs where no snap daemon runs."""
    release = Path("/etc/os-release")
    return release.exists() and "ID=ubuntu" in release.read_text(encoding="utf-8").splitlines()


def _run(command: list[str]) -> bool:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
    )
    if done.returncode != 0:
        print(
            f"{' '.join(command)} failed ({done.returncode}):\n{done.stdout}",
            file=sys.stderr,
            flush=True,
        )
    return done.returncode == 0
