"""The further Python environments of the suite.

The lowest supported versions, and the other releases of ipykernel.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from prepare import PrepareError, fingerprint, install, make_venv
from tree import ROOT

IPYKERNELS = ("6.31.0", "7.1.0", "7.3.0", "7.4.0")
FROM_EXTRAS = ("ipykernel", "boto3", "google-auth", "google-cloud-compute")
"""The packages that the tests need of the extras, also at their lowest versions."""
DOUBLES = ("moto[ec2,server]>=5.2", "google-api-python-client", "jsonschema")
"""The packages that the clouds' doubles are made of, at any version."""
TEST_TOOLS = ("pytest", "pytest-xdist", "hypothesis", "psutil", "nbclient", "nbconvert", *DOUBLES)


class PinError(ValueError):
    """A requirement has no lowest version that could be pinned."""


def lowest(requirements: Iterable[str]) -> list[str]:
    """Turn `>=` requirements into the constraints that ask for exactly their lowest version.

    Raises
    ------
    PinError
        A requirement states no lower bound, so there is nothing that its lowest version could be.

    Examples
    --------
    >>> lowest(["pandas>=2.0", "ipykernel>=6.31,!=7.0.*"])
    ['pandas==2.0', 'ipykernel==6.31']
    """
    pins = []
    for text in requirements:
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        bounds = [
            item.version for item in requirement.specifier if item.operator in (">=", "==", "~=")
        ]
        if not bounds:
            raise PinError(
                f"{text!r} states no lowest version; write it as {requirement.name}>=VERSION"
            )
        pins.append(f"{canonicalize_name(requirement.name)}=={bounds[0]}")
    return pins


def runtime_requirements(root: Path = ROOT) -> list[str]:
    """What pyproject.toml asks for at run time, and those of its extras that the tests use."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named: dict[str, str] = {}
    for extra, wanted in project["optional-dependencies"].items():
        if extra in ("lab", "aws", "gcp"):
            for text in wanted:
                name = canonicalize_name(Requirement(text).name)
                if name in FROM_EXTRAS:
                    named[name] = text
    return [*project["dependencies"], *(named[name] for name in FROM_EXTRAS if name in named)]


def lowest_environment(root: Path = ROOT) -> tuple[Path, list[str]]:
    """Make `.venv-lowest`, or find it made.

    Returns
    -------
    tuple
        Its interpreter, and the pins it was made with.
    """
    pins = lowest(runtime_requirements(root))
    venv = root / ".venv-lowest"
    python = make_venv(venv, root)
    stamp = venv / "nbprov-lowest.json"
    wanted = fingerprint(root, "\n".join([*pins, *TEST_TOOLS]))
    if not stamp.exists() or json.loads(stamp.read_text(encoding="utf-8")) != wanted:
        constraints = venv / "constraints.txt"
        constraints.write_text("\n".join(pins) + "\n", encoding="utf-8")
        install(
            python,
            "--constraint",
            str(constraints),
            "--editable",
            str(root),
            *FROM_EXTRAS,
            *TEST_TOOLS,
        )
        _verify(python, pins)
        stamp.write_text(json.dumps(wanted), encoding="utf-8")
    return python, pins


def _verify(python: Path, pins: list[str]) -> None:
    """Check that every pin was kept, or a run with the lowest versions would prove nothing."""
    code = (
        "import json, sys; from importlib.metadata import version;"
        " print(json.dumps([version(name) for name in sys.argv[1:]]))"
    )
    names = [pin.split("==")[0] for pin in pins]
    told = subprocess.run(
        [str(python), "-c", code, *names], capture_output=True, text=True, check=True
    ).stdout
    for pin, have in zip(pins, json.loads(told), strict=True):
        if not Requirement(pin).specifier.contains(have, prereleases=True):
            raise PrepareError(f"asked for {pin}, got {have}")


def ipykernel_folder(version: str, python: Path, root: Path = ROOT) -> Path:
    """Return a folder with one release of ipykernel, made if needed.

    It comes before everything else on PYTHONPATH.
    """
    folder = root / ".venv-ipykernel" / version
    done = folder / "nbprov-done"
    if not done.exists():
        # nest-asyncio: releases before 7.3 import it, later ones another package which the main
        # environment has.
        install(
            python,
            "--no-deps",
            "--upgrade",
            "--target",
            str(folder),
            f"ipykernel=={version}",
            "nest-asyncio>=1.6",
        )
        done.touch()
    return folder


def other_ipykernels() -> list[str]:
    """The releases that are not installed here.

    With the one that is, the stage kernel runs all of its tests.
    """
    installed = importlib.metadata.version("ipykernel")
    return [version for version in IPYKERNELS if version != installed]


def main() -> int:
    """Command line: make all of them, or one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["lowest", *IPYKERNELS])
    only = parser.parse_args().only
    try:
        if only in (None, "lowest"):
            print("lowest:", ", ".join(lowest_environment()[1]))
        for version in other_ipykernels() if only is None else IPYKERNELS:
            if only in (None, version):
                print(
                    "ipykernel:", ipykernel_folder(version, Path(sys.executable)).relative_to(ROOT)
                )
    except (PrepareError, PinError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
