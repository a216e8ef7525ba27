"""Python environments made by the real uv, as a job makes them on a machine, from an index on
loopback. No interpreter is fetched.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from index_double import Index, serving
from shell_machine import shell_node

from nbprov.machines.python.environment import (
    copy_head_environment,
    follow_environment,
    job_script,
    read_record,
    start_python,
)
from nbprov.machines.python.requirement_files import PythonFilesError, PythonSource, read_source
from nbprov.machines.setup.setup_jobs import SetupSteps
from nbprov.model.spec import PythonEnvironment
from nbprov.on_machine import python_env, uv
from nbprov.provisioning.live_cluster import LiveCluster

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="machines are never Windows")

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
UV = Path(sys.executable).parent / "uv"
"""Of the extra `test`: without it these tests fail."""
MOST_SECONDS = 300.0


class Computer:
    """A machine's home and what its shell finds."""

    def __init__(self, folder: Path, index: Index, cache: Path) -> None:
        assert UV.exists(), "pip install nbprov[test] brings it"
        self.home, self.bin = folder, folder / "bin"
        self.bin.mkdir(parents=True)
        (self.bin / "uv").symlink_to(UV)
        (self.bin / "python3").symlink_to(
            os.path.realpath(getattr(sys, "_base_executable", sys.executable))
        )
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PIP_", "UV_", "PYTHON", "VIRTUAL_ENV"))
        }
        uv = {
            "UV_DEFAULT_INDEX": index.url,
            "UV_CACHE_DIR": str(cache),
            "UV_PYTHON_DOWNLOADS": "never",
            "UV_NO_CONFIG": "1",
        }
        self.env = {
            **kept,
            **uv,
            "HOME": str(folder),
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "PIP_CONFIG_FILE": os.devnull,
        }

    def run(self, *command: str, folder: Path | None = None) -> tuple[int, list[str]]:
        done = subprocess.run(
            command,
            env=self.env,
            cwd=folder or self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=MOST_SECONDS,
            check=False,
        )
        return done.returncode, done.stdout.splitlines()

    def make(
        self, source: PythonSource, *, lock: str = "", python: str = ""
    ) -> tuple[int, list[str]]:
        """What the job of a bring-up does."""
        return self.run("bash", "-c", job_script(source.request(lock=lock, python=python)))

    def packages(self) -> dict[str, str]:
        """What the machine's environment has."""
        return dict(asyncio.run(read_record(shell_node(self.home))).packages)

    def says(self, code: str) -> str:
        """What its interpreter says."""
        exit_code, lines = self.run(
            str(self.home / ".nbprov" / "python" / "bin" / "python"), "-c", code
        )
        assert exit_code == 0, lines
        return "\n".join(lines)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    with serving(tmp_path_factory.mktemp("wheels")) as served:
        for name, version in (
            ("letters", "1.0"),
            ("letters", "1.1"),
            ("ipykernel", "7.0"),
            ("pip", "26.0"),
            ("extra", "2.0"),
        ):
            served.add(name, version)
        served.add("words", "3.0", requires=["letters>=1"])
        yield served


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def computer(tmp_path: Path, index: Index, cache: Path) -> Computer:
    return Computer(tmp_path / "head", index, cache)


def asked(*requirements: str, version: str = "") -> PythonSource:
    source = read_source(PythonEnvironment(version, requirements), Path())
    assert source is not None
    return source


def test_requirements_with_a_version_are_made_once(computer: Computer, index: Index) -> None:
    source = asked("words", "letters<1.1", version=VERSION)
    code, lines = computer.make(source)
    assert code == 0, lines
    assert lines[-1].startswith("python: made in ")
    assert computer.packages() == {
        "words": "3.0",
        "letters": "1.0",
        "ipykernel": "7.0",
        "pip": "26.0",
    }
    said = (
        "import sys, words, letters; print(letters.__version__, '.'.join(map(str,"
        " sys.version_info[:2])))"
    )
    assert computer.says(said) == f"1.0 {VERSION}"
    # The second time nothing is asked of anybody.
    index.asked.clear()
    code, lines = computer.make(source)
    assert (code, index.asked) == (0, [])
    assert lines[-1].startswith(f"python: as before: Python {VERSION}")


def test_packages_that_nbprov_pins_come_in_that_version_and_by_that_digest(
    tmp_path: Path, cache: Path
) -> None:
    with serving(tmp_path / "wheels") as own:
        for name, version in (("ipykernel", "7.0"), ("ipykernel", "7.1"), ("pip", "26.0")):
            own.add(name, version)
        (made,) = own.folder.glob("ipykernel-7.0-*")
        digest = hashlib.sha256(made.read_bytes()).hexdigest()
        pins = f"ipykernel==7.0 \\\n    --hash=sha256:{digest}\n"

        def make(name: str, pins: str, *requirements: str) -> tuple[int, list[str], Computer]:
            computer = Computer(tmp_path / name, own, cache)
            request = {**asked(*requirements).request(), "pins": pins}
            return *computer.run("bash", "-c", job_script(request)), computer

        code, lines, computer = make("pinned", pins)
        assert (code, computer.packages()["ipykernel"]) == (0, "7.0"), lines
        # Somebody's own wish counts more.
        code, lines, computer = make("theirs", pins, "ipykernel>=7.1")
        assert (code, computer.packages()["ipykernel"]) == (0, "7.1"), lines
        # What an index gives under a version that we know has to be what we know.
        other = pins.replace(digest, hashlib.sha256(b"other").hexdigest())
        code, lines, computer = make("other", other)
        assert code == 1
        assert any("Hash mismatch for `ipykernel==7.0`" in line for line in lines), lines
        assert not (computer.home / ".nbprov" / "python").exists()


class Books:
    """As much of a ledger as the step writes."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.jobs = self

    def of_run(self, run_id: str) -> list[dict[str, Any]]:
        return self.rows

    def trouble_with(self, write: Callable[[], object]) -> str:
        write()
        return ""

    def set(
        self,
        run_id: str,
        id: str,
        kind: str,
        command: str,
        state: str,
        exit_code: int | None = None,
    ) -> None:
        self.rows = [{"kind": kind, "command": command, "exit_code": exit_code}]


def test_all_nodes_and_one_that_comes_later_have_what_the_head_found(
    index: Index, cache: Path, tmp_path: Path
) -> None:
    offer = SimpleNamespace(accelerator_count=0, vcpus=2, cloud="local", region="r", zone="z")
    computers = [Computer(tmp_path / f"node{number}", index, cache) for number in range(3)]
    nodes = [
        shell_node(computer.home, number, computer.env) for number, computer in enumerate(computers)
    ]
    live = LiveCluster("run", "dev", SimpleNamespace(offer=offer), None, nodes[:2])  # type: ignore[arg-type]
    told: list[str] = []
    steps = SetupSteps(live, {}, Books(), lambda text, line="": told.append(text), told.append)  # type: ignore[arg-type]

    async def bring_up() -> None:
        source = asked("words", "letters", version=VERSION)
        await follow_environment(steps, source, await start_python(steps, nodes[0], source))

    asyncio.run(bring_up())
    assert told[-1].endswith("with 4 packages, the same on 2 nodes")
    packages = {"words": "3.0", "letters": "1.1", "ipykernel": "7.0", "pip": "26.0"}
    assert [computer.packages() for computer in computers[:2]] == [packages] * 2

    # A third, from a kernel that knows nothing but the head, when the index has a newer one.
    index.add("letters", "1.2")
    live.nodes.append(nodes[2])
    try:
        asyncio.run(copy_head_environment(steps, nodes[2]))
    finally:
        next(index.folder.glob("letters-1.2-*")).unlink()
    assert computers[2].packages() == packages
    assert not any("compile" in line for line in told if "[2]" in line)
    assert len({computer.says("import sys; print(sys.version)") for computer in computers}) == 1


def test_a_lock_of_uvs_own_is_made_and_one_that_is_stale_is_told_of(
    computer: Computer, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    text = (
        '[project]\nname = "My.App"\nversion = "0"\nrequires-python ='
        f' ">={VERSION}"\ndependencies = ["letters (<1.1)"]\n'
    )
    text += '[project.optional-dependencies]\na = ["extra~=2.0"]\nall = ["my-app[a]"]\n'
    text += (
        "[dependency-groups]\ndev = [\"words >= 1 ; python_version > '3'\", {include-group ="
        ' "more"}]\nmore = ["letters"]\n'
    )
    (project / "pyproject.toml").write_text(text)
    code, lines = computer.run(str(UV), "lock", "--quiet", folder=project)
    assert code == 0, lines
    source = read_source(PythonEnvironment(lock="uv.lock"), project)
    assert source is not None
    code, lines = computer.make(source)
    assert code == 0, lines
    packages = computer.packages()
    assert {name: packages.get(name) for name in ("letters", "extra", "my-app")} == {
        "letters": "1.0",
        "extra": None,
        "my-app": None,
    }
    assert {"words", "ipykernel", "pip"} <= packages.keys()
    (project / "pyproject.toml").write_text(
        text.replace('"letters (<1.1)"', '"letters (<1.1)", "extra"')
    )
    assert "extra" in (project / "pyproject.toml").read_text()
    with pytest.raises(PythonFilesError, match="extra") as caught:
        read_source(PythonEnvironment(lock="uv.lock"), project)
    assert caught.value.code == "python.stale-lock"


def test_what_cannot_be_had_ends_with_uvs_last_lines_and_leaves_nothing(computer: Computer) -> None:
    code, lines = computer.make(asked("letters==99"))
    assert code == 1
    assert "letters==99" in " ".join(lines)
    assert lines[-1] == "nbprov: uv pip compile ended with code 1"
    assert os.listdir(computer.home / ".nbprov" / "envs") == []
    code, lines = computer.make(asked("letters", version="3.99"))
    assert code == 1
    assert "3.99" in " ".join(lines)


def test_an_index_that_does_not_answer_is_not_waited_for_without_end(
    computer: Computer,
    index: Index,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in computer.env.items():
        monkeypatch.setenv(name, value)
    index.add("silent", "1.0")
    index.held.add("silent")
    make = python_env.make_interpreter

    def made(*words: Any) -> str:
        found = make(*words)
        # From here on: what comes before is as quick as this computer is just now.
        monkeypatch.setattr(uv, "STEP_SECONDS", 0.5)
        return found

    monkeypatch.setattr(python_env, "make_interpreter", made)
    assert python_env.main(asked("silent").request()) == uv.TOO_LONG
    lines = capfd.readouterr().out.splitlines()
    assert "uv pip compile" in lines
    assert lines[-1] == "nbprov: uv pip compile took longer than 0 min, and was ended"
