"""Renew the lists of what brings ipykernel and pip to a machine: each version and its SHA-256.

uv resolves for every Python that a machine may have. Of what it finds the wheels of Linux and macOS
are kept: a machine has no other system, and nothing is built from source there.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from tree import ROOT

ON_MACHINE = ROOT / "nbprov" / "on_machine"
LISTS = {
    "ipykernel": ON_MACHINE / "agent" / "kernels" / "kernel-requirements.txt",
    "pip": ON_MACHINE / "pip-requirements.txt",
}
OLDEST = "3.8"
HEADER = "# Made by `make kernel-pins`: versions, and SHA-256 of the wheels for Linux and macOS.\n"
OTHERS = re.compile(r"sys_platform == 'win32'|implementation_name == 'pypy'")
"""Markers of packages that no machine needs."""
SYSTEMS = re.compile(
    r"any|.*(many|musl)linux\w*_(x86_64|aarch64)|macosx_\w+_(x86_64|arm64|universal2)"
)
"""Platforms of wheels."""
PYTHONS = re.compile(r"py3|py2\.py3|cp3\d+")


def resolve(package: str) -> dict[str, Any]:
    """Return uv's lock of a package with all that it needs, for every Python and system."""
    with tempfile.TemporaryDirectory() as folder:
        lock = Path(folder) / "pylock.toml"
        command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal"]
        command += ["--python-version", OLDEST, "--only-binary", ":all:", "--format", "pylock.toml"]
        command += ["--output-file", str(lock), "-"]
        subprocess.run(command, input=package, text=True, check=True)
        return tomllib.loads(lock.read_text(encoding="utf-8"))


def is_for_machines(wheel: str) -> bool:
    """Return whether a machine may need a wheel, by its file's name.

    Examples
    --------
    >>> is_for_machines("pyzmq-27.1.0-cp312-abi3-manylinux_2_28_x86_64.whl")
    True
    >>> is_for_machines("pyzmq-27.1.0-cp312-abi3-win_amd64.whl")
    False
    """
    _, python, _, platform = wheel.removesuffix(".whl").rsplit("-", 3)
    return bool(PYTHONS.fullmatch(python) and SYSTEMS.fullmatch(platform))


def requirement_list(lock: dict[str, Any]) -> str:
    """Return a lock as pip's list with hashes.

    Raises
    ------
    SystemExit
        If a package that machines need has no wheel for them.
    """
    text = HEADER
    for package in lock["packages"]:
        marker = package.get("marker", "")
        if OTHERS.search(marker):
            continue
        names = {wheel["url"].rpartition("/")[2]: wheel for wheel in package.get("wheels", ())}
        digests = sorted(
            {w["hashes"]["sha256"] for name, w in names.items() if is_for_machines(name)}
        )
        if not digests:
            raise SystemExit(f"{package['name']} {package['version']} has no wheel for machines")
        text += f"{package['name']}=={package['version']}" + (f" ; {marker}" if marker else "")
        text += "".join(f" \\\n    --hash=sha256:{digest}" for digest in digests) + "\n"
    return text


def main() -> None:
    """Write the lists."""
    for package, path in LISTS.items():
        path.write_text(requirement_list(resolve(package)), encoding="ascii")


if __name__ == "__main__":
    main()
