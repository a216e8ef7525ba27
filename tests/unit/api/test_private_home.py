"""nbprov's home is of one user alone, whatever made it first and whatever the umask."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from nbprov import api
from nbprov.catalog.catalog import shipped_folder
from nbprov.catalog.sources.price_files import Layout
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
    made = {path.name for path in home.iterdir()}
    assert {"ledger.sqlite3", "owner", "keys", "logs", "cache", "local", "ssh"} <= made
    assert {name for name in made if not name.startswith(paths.LEDGER)} <= paths.OURS
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
    monkeypatch.setattr(paths, "_is_own_group", lambda group: False)
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


STRANGER = 54321
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root"
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home two folders deep, whose folders above are open to nobody."""
    home = tmp_path / "above" / "between" / "home"
    home.mkdir(parents=True)
    for each in (home, *home.parents[:2]):
        each.chmod(0o700)
    monkeypatch.setenv("NBPROV_HOME", str(home))
    return home


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757, 0o2777])
@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_folder_above_that_others_may_write_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch, mode: int, depth: int, is_there: bool
) -> None:
    monkeypatch.setattr(paths, "_is_own_group", lambda group: False)
    above = home.parents[depth]
    if not is_there:
        home.rmdir()
    above.chmod(mode)
    for use in (paths.home, lambda: make_folder(home / "keys")):
        with pytest.raises(UnsafeHome) as caught:
            use()
        assert f"chmod go-w '{above}'" in caught.value.hint
        assert "NBPROV_HOME" in caught.value.hint
    subprocess.run(["chmod", "go-w", str(above)], check=True)
    assert make_folder(paths.home() / "keys").is_dir()


@pytest.mark.parametrize("mode", [0o755, 0o711, 0o1777, 0o1775])
def test_a_folder_above_where_nobody_can_rename_is_taken(home: Path, mode: int) -> None:
    home.parent.chmod(mode)
    assert paths.home() == home


@pytest.mark.parametrize(
    ("members", "name", "is_taken"),
    [((), "me", True), (("me",), "me", True), (("me", "you"), "me", False), ((), "users", False)],
)
def test_a_group_of_its_own_may_write_above(
    home: Path, monkeypatch: pytest.MonkeyPatch, members: tuple[str, ...], name: str, is_taken: bool
) -> None:
    grp, pwd = pytest.importorskip("grp"), pytest.importorskip("pwd")
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_name="me"))
    monkeypatch.setattr(pwd, "getpwall", lambda: [SimpleNamespace(pw_name="me", pw_gid=4242)])
    monkeypatch.setattr(grp, "getgrgid", lambda g: SimpleNamespace(gr_name=name, gr_mem=members))
    real = paths._is_own_group.__wrapped__
    monkeypatch.setattr(paths, "_is_own_group", lambda group: real(4242))
    for each in (home.parent, home):
        each.chmod(0o775)
        if is_taken:
            assert paths.home() == home
        else:
            with pytest.raises(UnsafeHome, match="others may write into"):
                paths.home()
        each.chmod(0o700)


def test_groups_are_looked_up_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwd = pytest.importorskip("pwd")
    asked = []
    monkeypatch.setattr(pwd, "getpwall", lambda: asked.append(1) or [])
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_name="me"))
    grp = pytest.importorskip("grp")
    monkeypatch.setattr(grp, "getgrgid", lambda g: SimpleNamespace(gr_name="me", gr_mem=()))
    paths._is_own_group.cache_clear()
    try:
        assert [paths._is_own_group(4242) for _ in range(3)] == [True] * 3
    finally:
        paths._is_own_group.cache_clear()
    assert asked == [1]


@pytest.mark.parametrize("mode", [0o777, 0o2775])
@pytest.mark.parametrize("depth", [0, 1])
def test_a_folder_above_that_the_user_vouches_for_is_taken(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, depth: int
) -> None:
    monkeypatch.setattr(paths, "_is_own_group", lambda group: False)
    above = home.parents[depth]
    above.chmod(mode)
    with pytest.raises(UnsafeHome) as caught:
        paths.home()
    assert f"NBPROV_TRUSTED_FOLDER={above}" in caught.value.hint
    monkeypatch.setenv("NBPROV_TRUSTED_FOLDER", str(above))
    assert make_folder(paths.home() / "keys").is_dir()
    (tmp_path / "link").symlink_to(above)
    monkeypatch.setenv("NBPROV_TRUSTED_FOLDER", str(tmp_path / "link"))
    assert paths.home() == home


def test_whoever_vouches_for_a_folder_does_not_for_those_below_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.parent.chmod(0o777)
    monkeypatch.setenv("NBPROV_TRUSTED_FOLDER", str(home.parents[1]))
    with pytest.raises(UnsafeHome, match="put another folder in the place"):
        paths.home()
    home.parent.chmod(0o700)
    home.chmod(0o777)
    monkeypatch.setenv("NBPROV_TRUSTED_FOLDER", str(home))
    with pytest.raises(UnsafeHome, match="where the keys and the ledger are"):
        paths.home()


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("code", [errno.EPERM, errno.EROFS, errno.ENOTSUP])
def test_a_file_system_without_modes_is_used_as_it_is(
    home: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    home.chmod(0o755)
    (home / "keys").mkdir()
    (home / "keys" / "old").touch()
    monkeypatch.setattr(os, "chmod", refuse)
    assert paths.home() == home
    make_folder(home / "keys")
    with open(home / "keys" / "old", "w", opener=open_private) as file:
        file.write("x")
    assert (home / "keys" / "old").read_text(encoding="utf-8") == "x"


@needs_root
@pytest.mark.parametrize("depth", [0, 1])
def test_a_folder_above_of_somebody_else_is_refused(home: Path, depth: int) -> None:
    os.chown(home.parents[depth], STRANGER, STRANGER)
    with pytest.raises(UnsafeHome, match=f"belongs to another user .id {STRANGER}., who may repl"):
        paths.home()


@needs_root
def test_a_link_of_somebody_else_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.parent.chmod(0o1777)
    for link, target in ((home.parent / "link", home), (home.parent / "up", home.parents[1])):
        link.symlink_to(target)
        monkeypatch.setenv("NBPROV_HOME", str(link if target == home else link / "between/home"))
        assert paths.home().samefile(home)
        os.chown(link, STRANGER, STRANGER, follow_symlinks=False)
        with pytest.raises(UnsafeHome, match="who may replace what it leads to"):
            paths.home()


def test_where_a_link_leads_is_looked_at_too(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to("above/../above/between/home")
    monkeypatch.setenv("NBPROV_HOME", str(tmp_path / "link"))
    assert paths.home().samefile(home)
    home.parent.chmod(0o777)
    with pytest.raises(UnsafeHome, match="between"):
        paths.home()
    (tmp_path / "circle").symlink_to("circle")
    monkeypatch.setenv("NBPROV_HOME", str(tmp_path / "circle"))
    assert paths.home().name == "circle", "whoever uses it says what is wrong"


@pytest.mark.usefixtures("umask")
def test_what_was_left_open_in_a_home_is_closed_at_its_first_use(home: Path) -> None:
    for name in ("catalogs/gcp", "keys/c", "cache", "local/i/m/home"):
        (home / name).mkdir(parents=True)
    for name in ("catalogs/gcp/vms.csv", "keys/c/id", "ledger.sqlite3", "local/i/m/home/x"):
        (home / name).touch()
    (home / "keys" / "link").symlink_to("nowhere")
    paths.home()
    assert _open_to_others(home) == []
    assert stat.S_IMODE((home / "catalogs" / "gcp").stat().st_mode) == 0o700
    assert stat.S_IMODE((home / "catalogs/gcp/vms.csv").stat().st_mode) == 0o600


@pytest.mark.parametrize("is_strange", [False, pytest.param(True, marks=needs_root)])
def test_what_lies_beside_nbprovs_own_files_stays_as_it_is(home: Path, is_strange: bool) -> None:
    (home / "public_html" / "keys").mkdir(parents=True)
    (home / "public_html" / "page.html").touch()
    (home / "notes.txt").touch()
    beside = [home / "notes.txt", home / "public_html", *(home / "public_html").iterdir()]
    for path in beside:
        path.chmod(0o755)
        if is_strange:
            os.chown(path, STRANGER, STRANGER)
    (home / "keys").mkdir()
    (home / "keys").chmod(0o755)
    make_folder(paths.home() / "cache")
    assert {stat.S_IMODE(path.stat().st_mode) for path in beside} == {0o755}
    assert stat.S_IMODE((home / "keys").stat().st_mode) == 0o700


@needs_root
@pytest.mark.parametrize("name", ["catalogs", "catalogs/gcp/vms.csv", "keys", "ledger.sqlite3"])
def test_what_somebody_else_left_in_a_home_is_refused(home: Path, name: str) -> None:
    (home / name).parent.mkdir(parents=True, exist_ok=True)
    (home / name).touch() if "." in name else (home / name).mkdir()
    os.chown(home / name, STRANGER, STRANGER)
    for _ in range(2):
        with pytest.raises(UnsafeHome) as caught:
            make_folder(home / "cache")
    assert f"{home / name} in nbprov's home belongs to another user" in caught.value.message
    command = caught.value.hint.partition("run: ")[2].replace("sudo ", "")
    assert subprocess.run(["sh", "-c", command], check=True).returncode == 0
    assert make_folder(home / "cache").is_dir()


@needs_root
def test_prices_of_somebody_else_are_read_by_nobody(home: Path) -> None:
    (home / "catalogs" / "gcp").mkdir(parents=True)
    (home / "catalogs" / "gcp" / "vms.csv").write_text("InstanceType")
    os.chown(home / "catalogs" / "gcp", STRANGER, STRANGER)
    with pytest.raises(UnsafeHome, match="belongs to another user"):
        Layout.usual(shipped_folder())
    with pytest.raises(UnsafeHome, match="belongs to another user"):
        api.Session(home).engine.ledger.clusters.all()


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
