"""The agent's archive: the same bytes each time, whole, and run by a bare interpreter."""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import nbprov.on_machine.agent as agent
from nbprov.remote.agent.archive import agent_archive

needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="agents run on POSIX")
FOLDER = Path(agent.__file__).parent
HEAVY = ("asyncio", "pathlib", "subprocess", "typing", "hashlib", "tempfile", "shutil")


def test_the_same_sources_give_the_same_bytes_and_the_name_says_which() -> None:
    first = agent_archive()
    agent_archive.cache_clear()
    again = agent_archive()
    assert first.content == again.content
    assert first.hash == hashlib.sha256(first.content).hexdigest()
    assert first.name == f"{agent.ARCHIVE_PREFIX}{first.hash[:16]}.pyz"
    assert len(first.content) < 105_000


def test_it_holds_every_module_of_the_package_and_the_list_of_ipykernels_packages() -> None:
    with zipfile.ZipFile(io.BytesIO(agent_archive().content)) as archive:
        names = set(archive.namelist())
        stamps = {member.date_time for member in archive.infolist()}
    modules = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.py")}
    files = {*modules, "kernels/kernel-requirements.txt"}
    assert names == {"__main__.py", *(f"nbprov_agent/{name}" for name in files)}
    assert stamps == {(1980, 1, 1, 0, 0, 0)}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / agent_archive().name
    path.write_bytes(agent_archive().content)
    return path


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-S", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@needs_posix
def test_it_runs_without_any_package_installed(archive: Path, tmp_path: Path) -> None:
    assert run(archive, "--version").stdout == f"{agent.VERSION}\n"
    assert run(archive, "serve").returncode == 2
    assert "serve|connect|kernel-host" in run(archive, "serve").stderr
    done = run(archive, "connect", tmp_path / "nowhere")
    assert done.returncode == 3
    assert "not running" in done.stderr


@needs_posix
def test_the_bridge_imports_no_more_than_it_needs(archive: Path, tmp_path: Path) -> None:
    done = run("-X", "importtime", archive, "connect", tmp_path / "nowhere")
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    ours = {name for name in imported if name.startswith("nbprov_agent.")}
    assert ours == {"nbprov_agent.__main__", "nbprov_agent.bridge", "nbprov_agent.framing"}
    assert not imported & {*HEAVY}


@needs_posix
def test_finding_the_agent_running_imports_no_more_than_it_needs(
    archive: Path, tmp_path: Path
) -> None:
    import fcntl

    with (tmp_path / "agent.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = run("-X", "importtime", archive, "serve", tmp_path)
    assert done.stdout == "nbprov agent: runs already\n"
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    ours = {name for name in imported if name.startswith("nbprov_agent.")}
    names = ("__main__", "daemon", "lifecycle", "lifecycle.locks")
    assert ours == {f"nbprov_agent.{name}" for name in names}
    assert not imported & {*HEAVY}
