"""nbprov's home is of one user alone, whatever made it first and whatever the umask."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbprov.clouds.local.client import DaemonClient
from nbprov.model import paths
from nbprov.model.paths import UnsafeHome, make_folder, open_private

SESSION = """
import logging, os
os.umask(0)
from IPython.core.interactiveshell import InteractiveShell
from IPython.testing.globalipapp import start_ipython
shell = start_ipython()
def run(text, cell=None):
    name, _, line = text.lstrip("%").partition(" ")
    magic = shell.run_cell_magic if cell is not None else shell.run_line_magic
    return magic(name, line, cell) if cell is not None else magic(name, line)
run("%load_ext nbprov")
logging.getLogger("nbprov").warning("a line of the log")
run("%prices H100")
run("%%provision dev --yes --wait", "resources: {infra: local, accelerators: L4}\\nrun: echo hello")
run("%%on dev", "open('made', 'w').write('x'); print(1)")
run("%clusters")
run("%nbprov catalog")
run("%nbprov check local")
run("%nbprov log dev")
run("%nbprov jobs dev")
run("%nbprov ssh dev --config")
run("%nbprov costs")
run("%nbprov history")
run("%nbprov down dev")
run("%unload_ext nbprov")
"""


@pytest.fixture
def umask() -> Iterator[None]:
    """A umask that closes nothing."""
    before = os.umask(0)
    yield
    os.umask(before)


def _open_to_others(home: Path) -> list[str]:
    """What others could enter, apart from what the machines of `local` made for themselves."""
    machines = home / "local" / "i"
    return [
        f"{stat.S_IMODE(path.lstat().st_mode):o} {path}"
        for path in [home, *home.rglob("*")]
        if not path.is_symlink()
        and machines not in path.parents
        and path.lstat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    ]


@pytest.mark.machine
def test_a_session_leaves_nothing_open_to_others(nbprov_home: Path) -> None:
    nbprov_home.mkdir()
    home = nbprov_home / "of" / "mine"
    done = subprocess.run(
        [sys.executable, "-c", SESSION],
        env={**os.environ, "NBPROV_HOME": str(home), "NBPROV_NONINTERACTIVE": "1"},
        cwd=nbprov_home,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "ended, confirmed by the cloud's list" in done.stdout
    assert {"ledger.sqlite3", "owner", "keys", "logs", "cache", "local", "ssh"} <= {
        path.name for path in home.iterdir()
    }
    pid = DaemonClient(home / "local").call("describe", timeout=60, start=False)["pid"]
    os.kill(pid, signal.SIGKILL)
    assert _open_to_others(home) == []


@pytest.mark.usefixtures("umask")
def test_folders_and_files_are_made_for_one_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "new" / "home"
    monkeypatch.setenv("NBPROV_HOME", str(home))
    assert paths.home() == home
    assert not home.exists(), "to ask where it is makes nothing"
    (make_folder(home / "cache" / "deep") / "old").write_text("", encoding="utf-8")
    for name in ("new", "old"):
        with open(home / "cache" / "deep" / name, "w", opener=open_private) as file:
            file.write("x")
    (home / "cache").chmod(0o755)
    make_folder(home / "cache" / "deep")
    assert _open_to_others(home) == []
    assert _open_to_others(home.parent) == []
    make_folder(tmp_path / "elsewhere")
    assert stat.S_IMODE((tmp_path / "elsewhere").stat().st_mode) == 0o777, "not ours"


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777, 0o2775, 0o1777])
def test_a_home_that_others_may_write_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    monkeypatch.setenv("NBPROV_HOME", str(tmp_path))
    tmp_path.chmod(mode)
    for use in (paths.home, lambda: make_folder(tmp_path / "keys")):
        with pytest.raises(UnsafeHome) as caught:
            use()
        assert caught.value.code == "home.unsafe"
        assert f"chmod go-w '{tmp_path}'" in caught.value.hint
    subprocess.run(["chmod", "go-w", str(tmp_path)], check=True)
    assert paths.home() == tmp_path
    make_folder(tmp_path / "keys")
    assert not stat.S_IMODE(tmp_path.stat().st_mode) & 0o077


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")
def test_a_home_of_somebody_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NBPROV_HOME", str(tmp_path))
    os.chown(tmp_path, 12345, 12345)
    with pytest.raises(UnsafeHome, match="belongs to another user"):
        paths.home()


@pytest.mark.parametrize(
    "use",
    ["nbprov.prices('H100')", "nbprov.clusters()", "nbprov.plan('resources: {cpus: 1+}')"],
)
def test_every_verb_refuses_such_a_home(nbprov_home: Path, use: str) -> None:
    nbprov_home.mkdir()
    nbprov_home.chmod(0o777)
    done = subprocess.run(
        [sys.executable, "-c", f"import nbprov; {use}"],
        env={**os.environ, "NBPROV_HOME": str(nbprov_home)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "[home.unsafe]" in done.stderr
    assert [path.name for path in nbprov_home.iterdir()] == [], "nothing is made there"
