"""What a machine puts into its own folder leads the daemon nowhere and holds it up nowhere."""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import shutil
import socket
import stat
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from box_locks import LOCKS, check_locks
from clouds_under_test import LocalUnderTest, eventually

from nbprov.clouds.contract.checks import answers
from nbprov.clouds.local.daemon import isolation, machine
from nbprov.clouds.local.daemon.guest_folder import GuestFolder, remove_tree
from nbprov.clouds.local.daemon.isolation import IsolationLevel
from nbprov.clouds.local.daemon.machine import DIRECTORIES, LocalMachine, MachineSettings
from nbprov.clouds.local.daemon.sshd import MachineSshd
from nbprov.model.launches import InstanceState

pytestmark = [
    pytest.mark.machine,
    pytest.mark.skipif(sys.platform != "linux", reason="the better levels are Linux's"),
]

STRANGER = 54321
USERS = (0, STRANGER) if hasattr(os, "getuid") and os.getuid() == 0 else (0,)
"""This user, and an unprivileged one if this is not one already."""
END_SECONDS = 30.0
SECRET = b"treasure\n"
PACKAGES = f"venv/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
FILES = (
    "poweroff",
    "log/console.log",
    "boot/sshd_config",
    "boot/passwd",
    "boot/public_key",
    "boot/authorized_keys",
    "boot/boot.sh",
    "boot/session.sh",
    "boot/user-data",
    "home/.profile",
    "venv/pyvenv.cfg",
    f"{PACKAGES}/_nbprov_host.pth",
    "bin/sudo",
    "venv/bin/pip",
    "venv/bin/python3",
)
"""What the daemon reads, writes, removes or binds below a machine's folder."""


def _link(place: Path, treasure: Path) -> None:
    place.symlink_to(treasure / "file")


def _link_to_directory(place: Path, treasure: Path) -> None:
    place.symlink_to(treasure)


def _dangling_link(place: Path, treasure: Path) -> None:
    place.symlink_to(treasure / "new")


def _hard_link(place: Path, treasure: Path) -> None:
    os.link(treasure / "file", place)


def _fifo(place: Path, treasure: Path) -> None:
    os.mkfifo(place)


def _socket(place: Path, treasure: Path) -> None:
    there = os.getcwd()
    os.chdir(place.parent)  # a socket's path may have only about 100 bytes
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(place.name)
    finally:
        os.chdir(there)


def _device(place: Path, treasure: Path) -> None:
    with contextlib.suppress(PermissionError):  # root's alone
        os.mknod(place, 0o666 | stat.S_IFCHR, os.makedev(1, 7))


def _directory(place: Path, treasure: Path) -> None:
    (place / "a" / "b").mkdir(parents=True)
    (place / "a" / "link").symlink_to(treasure)
    (place / "a").chmod(0)


def _deep_directory(place: Path, treasure: Path) -> None:
    place.mkdir()
    there = os.getcwd()
    os.chdir(place)
    try:
        for _ in range(300):
            os.mkdir("d")
            os.chdir("d")
    finally:
        os.chdir(there)


def _huge_file(place: Path, treasure: Path) -> None:
    with place.open("wb") as file:
        file.truncate(1 << 40)


KINDS: list[Callable[[Path, Path], None]] = [
    _link,
    _link_to_directory,
    _dangling_link,
    _hard_link,
    _fifo,
    _socket,
    _device,
    _directory,
    _deep_directory,
    _huge_file,
]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that another user reaches, too."""
    made = Path(tempfile.mkdtemp(prefix="nbg-", dir="/tmp"))
    made.chmod(0o777)
    yield made
    shutil.rmtree(made, ignore_errors=True)


def _put(path: Path, treasure: Path, kind: Callable[[Path, Path], None]) -> None:
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    remove_tree(path)
    kind(path, treasure)


def _shown(treasure: Path) -> list[tuple[str, int, bytes]]:
    files = sorted(path for path in treasure.rglob("*") if path.is_file())
    modes = [(str(path), path.stat().st_mode, path.read_bytes()) for path in files]
    return [("", treasure.stat().st_mode, b""), *modes]


def _story(place: Path, names: tuple[str, ...], kind: Callable[[Path, Path], None]) -> None:
    """Do with a machine all that the daemon does, and look at what is the user's own."""
    os.environ["NBPROV_HOME"] = str(place / "home")  # of this process alone
    treasure = place / "treasure"
    treasure.mkdir(mode=0o750)
    (treasure / "file").write_bytes(SECRET)
    (treasure / "file").chmod(0o640)
    before = _shown(treasure)
    (place / "state").mkdir()
    one = LocalMachine(place / "state", "i-1")
    shape = MachineSettings("i-1", "one", 0, "A100:1")
    one.create(shape, "true", "ssh-ed25519 AAAA")
    for name in names:
        _put(one.folder / name, treasure, kind)
    assert SECRET.decode() not in one.console()
    assert len(one.console()) <= machine.CONSOLE_BYTES
    asked = one.take_poweroff()
    assert asked is None or (kind is _huge_file and asked[1].strip("\0") == "")
    assert one.take_poweroff() is None, "what stands in its place hides no later request"
    assert _shown(treasure) == before
    started = one.start(IsolationLevel.MARKER, MachineSshd("/bin/false"), shape, broken=True)
    try:
        assert _shown(treasure) == before
        one.create(shape, "true", "ssh-ed25519 AAAA")
        one.files.write("poweroff", b"stop\nfor now\n")
        assert one.take_poweroff() == ("stop", "for now")
        # The machine's own processes may follow its links: without a box they are the user's.
        _kill(started.handle["pid"])
        for name in names:
            _put(one.folder / name, treasure, kind)
    finally:
        left = one.end(started.handle, keep_disk=False)
    assert left == []
    assert not one.folder.exists()
    assert _shown(treasure) == before


def _kill(pid: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        first = psutil.Process(pid)
        running = [first, *first.children(recursive=True)]
        for process in running:
            process.kill()
        psutil.wait_procs(running, END_SECONDS)


def _run_as(user: int, work: Callable[[], None]) -> str:
    """Do something in a process of a user's, and return its error."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = b""
        try:
            if user:
                os.chdir("/")  # the checkout may be in a folder that this user may not enter
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            work()
        except BaseException:
            said = traceback.format_exc().encode()
        os.write(writing, said[-4000:])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        found = told.read().decode()
    os.waitpid(child, 0)
    return found


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("names", [FILES, DIRECTORIES], ids=["files", "directories"])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_in_the_place_of_a_file_or_directory_leads_out_or_holds_up(
    place: Path, kind: Callable[[Path, Path], None], names: tuple[str, ...], user: int
) -> None:
    error = _run_as(user, lambda: _story(place, names, kind))
    assert not error, error


def test_the_list_of_files_is_what_the_daemon_touches() -> None:
    source = inspect.getsource(machine)
    named = set(re.findall(r'self\.files\.\w+\(\s*f?"([^"{]+)"', source))
    assert named <= {*FILES}, "add what is new to FILES"
    for way in ("write_private", "write_text", "write_bytes", "read_text", "rmtree", ".open("):
        assert way not in source, f"{way} follows links: go through GuestFolder"


def test_names_that_are_swapped_meanwhile_lead_nowhere(place: Path) -> None:
    treasure, guest = place / "treasure", place / "guest"
    treasure.mkdir()
    (treasure / "console.log").write_bytes(SECRET)
    before = _shown(treasure)
    files = GuestFolder(guest)
    files.make_directory("log")
    is_over = threading.Event()

    def swap() -> None:
        (guest / "link").symlink_to(treasure)
        while not is_over.is_set():
            for other in ("link", "real"):
                with contextlib.suppress(OSError):
                    os.rename(guest / "log", guest / ("real" if other == "link" else "link"))
                    os.rename(guest / other, guest / "log")

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in range(2000):
            with contextlib.suppress(OSError):
                assert SECRET not in files.read("log/console.log", 100)
            with contextlib.suppress(OSError):
                files.write("log/console.log", b"mine")
            with contextlib.suppress(OSError):
                os.close(files.open_log("log/console.log"))
            with contextlib.suppress(OSError):
                files.unlink("log/console.log")
    finally:
        is_over.set()
        swapping.join()
    assert _shown(treasure) == before


def test_a_machine_has_no_capability_and_does_not_leave_its_box_over_a_stop_and_a_start(
    local: LocalUnderTest, tmp_path: Path, place: Path
) -> None:
    try:
        isolation.probe(tmp_path, IsolationLevel.BWRAP.value)
    except OSError:
        pytest.skip("bwrap does not work on this computer")
    treasure = place / "treasure"
    treasure.mkdir()
    (treasure / "file").write_bytes(SECRET)
    launch = local.launch()
    (one,) = local.running(launch)
    eventually(lambda: answers(one), "an ssh server")
    check_locks(local.run(one, LOCKS.replace("TREASURE", str(treasure))).stdout)
    local.cloud.stop([one.id])
    local.in_state(launch.owner, one.id, InstanceState.STOPPED)
    local.cloud.start([one.id])
    again = local.in_state(launch.owner, one.id, InstanceState.RUNNING)
    eventually(lambda: answers(again), "an ssh server")
    assert "file" not in local.run(again, "ls -A /tmp; touch /tmp/mine").stdout.split()
    assert [path.name for path in treasure.iterdir()] == ["file"]
    assert (treasure / "file").read_bytes() == SECRET
