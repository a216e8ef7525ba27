"""Build the wheel from a clean copy of the tree, and check that a user gets all of it.

It holds code, panels, prices and licence.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tree import ROOT, source_files

SHIPPED = {"widgets": "nbprov/_static", "catalogs": "nbprov/_catalogs"}
SHARED = {"widgets/labextensions": "share/jupyter/labextensions"}
"""What a wheel puts below `sys.prefix`, where JupyterLab looks for extensions."""

# Runs against the installed wheel, in a folder from which the checkout cannot be imported by
# chance.
PROBE = """
import pathlib, sys
import nbprov
home = pathlib.Path(sys.argv[1]).resolve()
found = pathlib.Path(nbprov.__file__).resolve()
assert found.is_relative_to(home), f"imported {found}, not the installed wheel"
from nbprov.catalog import default_catalog
clouds = sorted(default_catalog().clouds())
assert len(clouds) >= 8, f"the installed wheel finds prices of {len(clouds)} clouds only: {clouds}"
from importlib.metadata import entry_points
names = {point.name for point in entry_points(group="nbprov.clouds")}
assert "local" in names, f"no entry point for the local cloud: {names}"
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.extension_manager.load_extension("nbprov")
magics = shell.magics_manager.magics
assert "provision" in magics["cell"], "%load_ext nbprov registered no %%provision"
print(f"installed wheel: {len(clouds)} clouds, {len(names)} adapters, magics registered")
"""


class WheelError(Exception):
    """The wheel is not what it should be."""


def copy_sources(target: Path) -> None:
    """Copy what a clone would hold, without the untracked files of the work tree."""
    for relative in source_files():
        destination = target / relative
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / relative, destination)


def build(source: Path, out: Path) -> Path:
    """Build the wheel as a user's pip does, with the build back end in its own environment."""
    _run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "-qq",
            "--disable-pip-version-check",
            "--no-deps",
            "--wheel-dir",
            str(out),
            str(source),
        ]
    )
    wheels = list(out.glob("*.whl"))
    if len(wheels) != 1:
        raise WheelError(f"expected one wheel, got {[wheel.name for wheel in wheels]}")
    return wheels[0]


def compare_content(wheel: Path, source: Path) -> int:
    """Compare the wheel's members with the sources.

    Returns
    -------
    int
        How many members it has.

    Raises
    ------
    WheelError
        Something is missing, or something is in it that a user has no use for.
    """
    with zipfile.ZipFile(wheel) as archive:
        members = set(archive.namelist())
    wanted = {
        path.relative_to(source).as_posix()
        for path in (source / "nbprov").rglob("*")
        if path.is_file()
    }
    name, version = wheel.name.split("-")[:2]
    data = f"{name}-{version}.data/data"
    places = {**SHIPPED, **{folder: f"{data}/{place}" for folder, place in SHARED.items()}}
    for folder, place in places.items():
        files = [path for path in (source / folder).rglob("*") if path.is_file()]
        if not files:
            raise WheelError(f"{folder}/ is empty: the wheel would ship nothing of it")
        wanted |= {f"{place}/{path.relative_to(source / folder).as_posix()}" for path in files}
    if absent := sorted(wanted - members):
        raise WheelError(
            f"{len(absent)} files are missing from the wheel: {', '.join(absent[:10])}"
        )
    if foreign := sorted(name for name in members if not name.startswith(("nbprov/", "nbprov-"))):
        raise WheelError(f"the wheel would install files outside nbprov: {', '.join(foreign[:10])}")
    if not any(name.endswith("LICENSE") for name in members):
        raise WheelError("the wheel holds no LICENSE")
    return len(members)


def probe(wheel: Path, work: Path) -> str:
    """Install the wheel into its own folder and use it from there."""
    target = work / "installed"
    _run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-qq",
            "--disable-pip-version-check",
            "--no-deps",
            "--target",
            str(target),
            str(wheel),
        ]
    )
    elsewhere = work / "elsewhere"
    elsewhere.mkdir()
    environment = {
        **os.environ,
        "PYTHONPATH": str(target),
        "NBPROV_HOME": str(work / "home"),
        "IPYTHONDIR": str(work / "ipython"),
    }
    return _run([sys.executable, "-c", PROBE, str(target)], cwd=elsewhere, env=environment).strip()


def _run(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
        cwd=cwd,
        env=env,
    )
    if done.returncode != 0:
        raise WheelError(
            f"{' '.join(command[:5])} … failed ({done.returncode}):\n{done.stdout}{done.stderr}"
        )
    return done.stdout


def main() -> int:
    """Command line."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory(prefix="nbprov-wheel-") as folder:
        work = Path(folder)
        try:
            copy_sources(work / "source")
            wheel = build(work / "source", work / "out")
            members = compare_content(wheel, work / "source")
            print(f"{wheel.name}: {members} files, {wheel.stat().st_size / 1e6:.1f} MB")
            print(probe(wheel, work))
        except WheelError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
