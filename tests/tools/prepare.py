"""Make the virtual environment and install what one profile (demo, lab or test) needs.

It returns at once if everything is there. The Python that runs it needs nothing installed. A stamp
beside the environment records what was done, so that the work is repeated only if pyproject.toml,
the Python or the path of the checkout has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import programs
from tree import ROOT


@dataclass(frozen=True)
class Profile:
    """What a make target needs: extras of the package, and programs outside Python."""

    extra: str
    programs: tuple[programs.Program, ...]
    covered_by: tuple[str, ...] = ()


PROFILES = {
    "demo": Profile("demo", programs.MACHINES, ("lab", "test")),
    "lab": Profile("lab", programs.MACHINES, ("test",)),
    "test": Profile("test", (*programs.MACHINES, *programs.BROWSER, programs.RSYNC)),
}

UV = "uv>=0.9"
OF_PIP = {"UV_DEFAULT_INDEX": "PIP_INDEX_URL", "SSL_CERT_FILE": "PIP_CERT"}
"""uv's variables, and pip's with the same meaning."""
PIP_FLAGS = ("--disable-pip-version-check", "--no-input", "--root-user-action=ignore")


class PrepareError(Exception):
    """The environment could not be made; the message says why and what to do."""


def python_of(venv: Path) -> Path:
    """The interpreter of a virtual environment."""
    return venv / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def fingerprint(root: Path, text: str = "") -> dict[str, str]:
    """Return what an installed environment depends on; a stamp with other values is stale."""
    project = (root / "pyproject.toml").read_bytes() + text.encode()
    return {"root": str(root), "project": hashlib.sha256(project).hexdigest()}


def make_venv(venv: Path, root: Path = ROOT) -> Path:
    """Make the environment unless a working one of this checkout is there.

    Returns
    -------
    Path
        Its interpreter.

    Raises
    ------
    PrepareError
        The venv module is missing or failed.
    """
    python = python_of(venv)
    if _usable(venv, root):
        return python
    print(f"making {venv.name} with Python {sys.version.split()[0]}", flush=True)
    made = subprocess.run(
        [sys.executable, "-m", "venv", "--clear", str(venv)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0 and programs.may_apt() and "ensurepip" in made.stdout + made.stderr:
        programs.apt_install([f"python3.{sys.version_info.minor}-venv"])
        made = subprocess.run(
            [sys.executable, "-m", "venv", "--clear", str(venv)],
            capture_output=True,
            text=True,
            check=False,
        )
    if made.returncode != 0:
        shutil.rmtree(venv, ignore_errors=True)
        raise PrepareError(
            f"{sys.executable} -m venv failed:\n{made.stdout}{made.stderr}on Debian and Ubuntu:"
            " apt-get install python3-venv"
        )
    return python


def install(python: Path, *arguments: str) -> None:
    """Install packages with uv, a third of pip's time, or with pip where uv does not manage.

    uv reads no pip.conf, so that a mirror or a proxy may be known to pip alone. Neither compiles
    what it installs: a module is compiled when it is first imported, and most never are.

    Parameters
    ----------
    python
        The interpreter of the environment.
    arguments
        Of `uv pip install` and of `pip install`.

    Raises
    ------
    PrepareError
        pip ended with an error; it has printed it.
    """
    if (uv := _uv(python)) and _succeeds(
        uv, "pip", "install", "--quiet", "--python", python, *arguments, is_quiet=True
    ):
        return
    # Without warnings, such as a mirror's or a newer pip's, which would bury errors.
    if not _succeeds(python, "-m", "pip", "install", "-qq", *PIP_FLAGS, "--no-compile", *arguments):
        raise PrepareError(f"pip could not install {' '.join(arguments)} (its message is above)")


def _uv(python: Path) -> Path | None:
    """The uv of this environment or of the one that runs this; None if pip finds none."""
    name = "uv.exe" if sys.platform == "win32" else "uv"
    places = (python.parent / name, Path(sys.executable).parent / name)
    if not any(place.exists() for place in places):
        _succeeds(python, "-m", "pip", "install", "-qq", *PIP_FLAGS, UV, is_quiet=True)
    return next((place for place in places if place.exists()), None)


def _succeeds(*command: str | Path, is_quiet: bool = False) -> bool:
    to = subprocess.DEVNULL if is_quiet else None
    environment = dict(os.environ)
    for of_uv, of_pip in OF_PIP.items():
        if of_pip in environment:
            environment.setdefault(of_uv, environment[of_pip])
    # Where pip has a mirror that uv does not know, the package index may not be reachable at all.
    environment.setdefault("UV_HTTP_TIMEOUT", "15")
    ended = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=to,
        stderr=to,
        cwd=ROOT,
        env=environment,
        check=False,
    )
    return ended.returncode == 0


def prepare(name: str, root: Path = ROOT) -> None:
    """Prepare the environment and the programs of a profile.

    Raises
    ------
    PrepareError
        The environment could not be made or filled. Missing programs are named, not raised.
    """
    profile = PROFILES[name]
    venv = root / ".venv"
    declared = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    if profile.extra not in declared:
        raise PrepareError(
            f"pyproject.toml declares no extra named {profile.extra!r}; it has"
            f" {', '.join(sorted(declared))}"
        )
    wanted = fingerprint(root)
    python = make_venv(venv, root)
    if not any(_stamped(venv, stamp) == wanted for stamp in (name, *profile.covered_by)):
        print(
            f"installing nbprov[{profile.extra}] into {venv.name} (the first time takes a minute)",
            flush=True,
        )
        install(python, "--editable", f"{root}[{profile.extra}]")
        _stamp_path(venv, name).write_text(json.dumps(wanted), encoding="utf-8")
    programs.install_missing(profile.programs)


def _usable(venv: Path, root: Path) -> bool:
    python = python_of(venv)
    if not python.exists():
        return False
    moved = [
        stamp
        for name in PROFILES
        if (stamp := _stamped(venv, name)) and stamp.get("root") != str(root)
    ]
    if moved:  # the scripts of a moved environment still name the old place
        return False
    check = "import sys, pip; sys.exit(sys.version_info < (3, 11))"
    return (
        subprocess.run([str(python), "-c", check], capture_output=True, check=False).returncode == 0
    )


def _stamp_path(venv: Path, name: str) -> Path:
    return venv / f"nbprov-{name}.json"


def _stamped(venv: Path, name: str) -> dict[str, str] | None:
    try:
        stamp = json.loads(_stamp_path(venv, name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return stamp if isinstance(stamp, dict) else None


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--profile", choices=sorted(PROFILES), required=True)
    try:
        prepare(parser.parse_args().profile)
    except PrepareError as error:
        print(f"setup failed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
