"""ipykernel on a machine that has none: only the packages whose digests are in our source."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from index_double import serving, wheel
from packaging.markers import default_environment
from packaging.requirements import Requirement

import nbprov.on_machine.agent as agent
from nbprov.machines.python.pins import pinned
from nbprov.on_machine.agent.kernels.interpreter import KernelInterpreter
from nbprov.on_machine.agent.tasks.scripts import ScriptRunner
from nbprov.remote.agent.archive import agent_archive

LIST = "kernels/kernel-requirements.txt"
PYTHONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.15")
SYSTEMS = ("linux", "darwin")
MODULES = {"ipykernel": "ipykernel", "jupyter-client": "jupyter_client", "pyzmq": "zmq"}
"""What a kernel imports, by package."""


class Machine:
    """A home whose only Python has no ipykernel, with an archive that names packages of ours."""

    def __init__(self, folder: Path, wheels: Path) -> None:
        self.home, self.wheels = folder / "home", wheels
        self.listed = ""
        (self.home / ".nbprov").mkdir(parents=True)
        self._make(self.home / "python", "--without-pip")
        self.packages = next((self.home / "python").glob("lib/python*/site-packages"))
        self.venv = self.home / ".nbprov" / "venv"

    def _make(self, place: Path, *options: str) -> None:
        subprocess.run([sys.executable, "-m", "venv", *options, place], check=True)

    def pin(self, name: str, *, needs: tuple[str, ...] = ()) -> None:
        """Add a package to the index and to the archive's list."""
        files = {f"{MODULES.get(name, name)}/__init__.py": ""}
        made = wheel(self.wheels, name, "2.0", files=files, requires=needs)
        digest = hashlib.sha256(made.read_bytes()).hexdigest()
        self.listed += f"{name}==2.0 \\\n    --hash=sha256:{digest}\n"

    def find(self) -> tuple[str | None, list[str]]:
        """Return the interpreter that kernels get, and what was said."""
        folder, said = self.home / ".nbprov", list[str]()

        async def find() -> str | None:
            scripts = ScriptRunner(folder, 0o022)
            found = KernelInterpreter(folder, scripts, str(self._archive()))
            return await found.find(said.append, lambda process: None)

        return asyncio.run(find()), said

    def _archive(self) -> Path:
        path = self.home / ".nbprov" / "agent.pyz"
        with (
            zipfile.ZipFile(io.BytesIO(agent_archive().content)) as shipped,
            zipfile.ZipFile(path, "w") as made,
        ):
            for name in shipped.namelist():
                is_list = name == f"nbprov_agent/{LIST}"
                made.writestr(name, self.listed if is_list else shipped.read(name))
        return path

    def installed(self) -> set[str]:
        """Return what was installed beside the machine's own packages."""
        found = self.venv.glob("lib/python*/site-packages/*.dist-info")
        names = {path.name.removesuffix(".dist-info") for path in found}
        return {name for name in names if not name.startswith(("pip-", "setuptools-"))}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path, tmp_path / "wheels")
    for name in MODULES:
        made.pin(name)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.setenv("PATH", f"{made.home / 'python' / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "VIRTUAL_ENV"):
        monkeypatch.delenv(name, raising=False)
    # The agent's own Python is asked, too; here that is the tests'.
    monkeypatch.setattr(sys, "executable", str(made.home / "python" / "bin" / "python3"))
    return made


def test_what_has_the_known_digest_is_installed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(machine.wheels) as index:
        index.add("ipykernel", "3.0")  # a later release is not looked at
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        python, said = machine.find()
    assert python == str(machine.venv / "bin" / "python"), said
    assert machine.installed() == {"ipykernel-2.0", "jupyter_client-2.0", "pyzmq-2.0"}


def test_what_has_another_digest_is_not_installed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(machine.wheels, "pyzmq", "2.0", files={"zmq/__init__.py": "raise SystemExit\n"})
    with serving(machine.wheels) as index:
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        python, said = machine.find()
    assert python is None
    assert any("DO NOT MATCH THE HASHES" in line for line in said), said
    assert machine.installed() == set()


def test_what_the_machine_has_stays_unless_it_is_unfit(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other programs of the machine share these packages with our kernel."""
    machine.pin("fitting")
    machine.pin("older", needs=("oldest>=2",))
    machine.pin("oldest")
    machine.pin("user", needs=("fitting>=1", "older>=2", "odd>=9; extra == 'x'"))
    # A user's own folder is seen by the environment, as the system's packages are.
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    own = machine.home / ".local" / "lib" / version / "site-packages"
    for name in ("fitting", "older", "oldest"):
        made = wheel(machine.home / "own", name, "1.0")
        with zipfile.ZipFile(made) as archive:
            archive.extractall(own)
    monkeypatch.delenv("PYTHONNOUSERSITE", raising=False)
    with serving(machine.wheels) as index:
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        python, said = machine.find()
    assert python is not None, said
    assert {"user-2.0", "older-2.0", "oldest-2.0"} <= machine.installed()
    assert "fitting-2.0" not in machine.installed()


def test_the_shipped_list_is_complete_for_every_python() -> None:
    text = (Path(agent.__file__).parent / LIST).read_text(encoding="ascii")
    lines = text.splitlines()
    named = [number for number, line in enumerate(lines) if line[:1] not in ("#", " ")]
    every = [Requirement(lines[number].rstrip("\\ ")) for number in named]
    for python in PYTHONS:
        for system in SYSTEMS:
            place = {**default_environment(), "implementation_name": "cpython"}
            place |= {"python_full_version": f"{python}.1", "python_version": python}
            place |= {"platform_python_implementation": "CPython", "sys_platform": system}
            names = [one.name for one in every if not one.marker or one.marker.evaluate(place)]
            assert len(names) == len(set(names)), (python, system)
            assert {*MODULES, "ipython", "tornado", "traitlets", "debugpy"} <= set(names)
    assert all(str(one.specifier).startswith("==") for one in every)
    assert all(lines[number + 1].startswith("    --hash=sha256:") for number in named)
    # An environment of a spec's `python` has the same versions, and pip.
    assert text in pinned()
    assert "\npip==" in pinned()
