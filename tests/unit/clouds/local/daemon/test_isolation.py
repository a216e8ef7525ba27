"""Every kind of isolation, for the user who runs the tests and, if that is root, for another
one.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import pytest
from box_locks import LOCKS, check_locks
from clouds_under_test import LocalUnderTest, eventually, processes_that_name

import nbprov
from nbprov.clouds.contract.checks import OUTLIVER, answers
from nbprov.clouds.local.daemon import hidden_paths, isolation, sshd
from nbprov.clouds.local.daemon.isolation import IsolationLevel
from nbprov.model.launches import InstanceState

pytestmark = [
    pytest.mark.machine,
    pytest.mark.skipif(sys.platform != "linux", reason="the better levels are Linux's"),
]

STRANGER = 54321
"""A user id that no account file knows."""


def works(level: IsolationLevel, folder: Path) -> bool:
    try:
        return isolation.probe(folder, level.value) is level
    except OSError:
        return False


@pytest.fixture(params=[r.value for r in IsolationLevel])
def level(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> IsolationLevel:
    found = IsolationLevel(request.param)
    if not works(found, tmp_path):
        pytest.skip(f"{found.value} does not work on this computer")
    monkeypatch.setenv(isolation.ISOLATION_VARIABLE, found.value)
    return found


def live_once(local: LocalUnderTest) -> None:
    """Enter a machine, leave processes in it, stop, start and end it; check that nothing stays."""
    launch = local.launch()
    (machine,) = local.running(launch)
    eventually(lambda: answers(machine), "an ssh server")
    home = local.folder / "i" / machine.id / "home"
    said = local.run(
        machine, f"pwd; echo ~; echo $HOME; echo 'a  b' \"$NBPROV_INSTANCE\"; {OUTLIVER}; exit 3"
    )
    assert said.stdout.splitlines() == [str(home)] * 3 + [f"a  b {machine.id}"], said.stderr
    assert said.returncode == 3
    copied = local.keys / "copied"
    (local.keys / "sent").write_text("by sftp")
    assert (
        sftp(
            local, machine.host, machine.port, f"put {local.keys}/sent word\nget word {copied}\n"
        ).returncode
        == 0
    )
    assert copied.read_text() == "by sftp"
    local.cloud.stop([machine.id])
    local.in_state(launch.owner, machine.id, InstanceState.STOPPED)
    assert local.traces([machine.id]) == [str(home.parent)]
    local.cloud.start([machine.id])
    again = local.in_state(launch.owner, machine.id, InstanceState.RUNNING)
    eventually(lambda: answers(again), "an ssh server")
    assert local.run(again, f"cat word; {OUTLIVER}").stdout == "by sftp"
    local.cloud.terminate([machine.id])
    local.gone(launch.owner, [machine.id])
    assert local.traces([machine.id]) == []
    assert [c for c in processes_that_name(home) if "sleep 424" in c] == []


def sftp(
    local: LocalUnderTest, host: str, port: int, batch: str
) -> subprocess.CompletedProcess[str]:
    options = [
        "StrictHostKeyChecking=yes",
        f"UserKnownHostsFile={local.keys / 'known'}",
        "IdentitiesOnly=yes",
        "LogLevel=ERROR",
    ]
    words = [word for o in options for word in ("-o", o)]
    place = ["-i", str(local.keys / "client"), "-P", str(port), f"{local.login()}@{host}"]
    return subprocess.run(
        ["sftp", "-F", "none", "-b", "-", *words, *place],
        input=batch,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_machine_lives_and_ends_on_every_level(
    level: IsolationLevel, local: LocalUnderTest
) -> None:
    told = local.cloud.check()
    assert any(d.startswith(f"isolation: {level.value}") for d in told.details)
    live_once(local)


def test_the_best_level_that_works_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(isolation.ISOLATION_VARIABLE, raising=False)
    best = next(r for r in IsolationLevel if works(r, tmp_path))
    assert isolation.probe(tmp_path) is best
    monkeypatch.setenv("PATH", str(tmp_path))
    assert isolation.probe(tmp_path) is not IsolationLevel.BWRAP
    assert list(tmp_path.iterdir()) == []


def test_a_forced_level_that_does_not_work_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OSError, match="bwrap"):
        isolation.probe(tmp_path, "bwrap")


def test_inside_the_best_level_others_are_out_of_sight(
    local: LocalUnderTest, tmp_path: Path
) -> None:
    if not works(IsolationLevel.BWRAP, tmp_path):
        pytest.skip("bwrap does not work on this computer")
    mine = f"nbprov-test-{os.getpid()}"
    one, two = local.running(local.launch(count=2))
    eventually(lambda: answers(one), "an ssh server")
    seen = local.run(
        one,
        (
            f"ls {local.folder} {local.folder}/i; ps ax | grep -c '[s]leep 4242'; touch "
            f"/etc/nbprov-x; touch /tmp/{mine} && ls /tmp"
        ),
    )
    assert two.id not in seen.stdout
    assert "state.db" not in seen.stdout
    assert "Read-only" in seen.stderr
    assert mine in seen.stdout
    assert not Path("/tmp", mine).exists()


@pytest.fixture
def secret_home() -> Iterator[Path]:
    """Make a folder of secrets below the user's home, as Jupyter's runtime folder is."""
    folder = Path(tempfile.mkdtemp(prefix=".nbprov-test-", dir=Path.home()))
    (folder / "kernel-1.json").write_text('{"key": "of-the-kernel"}')
    yield folder
    shutil.rmtree(folder)


def test_in_bubblewrap_nobody_reads_the_home_or_reaches_a_kernel(
    local: LocalUnderTest, tmp_path: Path, secret_home: Path
) -> None:
    if not works(IsolationLevel.BWRAP, tmp_path):
        pytest.skip("bwrap does not work on this computer")
    (machine,) = local.running(local.launch())
    eventually(lambda: answers(machine), "an ssh server")
    real = os.path.realpath(secret_home)
    tried = local.run(
        machine,
        f"cat {real}/kernel-1.json {secret_home}/kernel-1.json; ls -A {Path.home()}; echo /run:;"
        " ls /run; grep -rs of-the-kernel /home /root /run /var/run 2>/dev/null",
    )
    home, _, services = tried.stdout.partition("/run:")
    assert "of-the-kernel" not in tried.stdout
    assert set(home.split()) <= {part.split("/")[0] for part in _below_home()}
    assert set(services.split()) <= {"sshd", "systemd", "current-system", "opengl-driver"}
    # What machines need is there all the same.
    worked = local.run(
        machine,
        "python3 -c 'import asyncssh, IPython, ssl, sqlite3; print(asyncssh.__file__)'"
        " && git --version && touch ~/mine && ssh-keygen -q -t ed25519 -N '' -f ~/key && hostname",
    )
    assert worked.returncode == 0, worked.stderr
    assert asyncssh.__file__ in worked.stdout


def _below_home() -> list[str]:
    """What of the home a machine sees: Python, and its own folder."""
    shown = [*hidden_paths.hidden_paths([]).shown, Path(tempfile.gettempdir())]
    home = Path.home()
    return [str(path.relative_to(home)) for path in shown if path.is_relative_to(home)]


def test_stand_in_serves_where_there_is_no_sshd(
    local: LocalUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(sshd.SSHD_VARIABLE, "none")
    told = local.cloud.check()
    assert told.enabled
    assert any("stand-in" in d for d in told.details)
    (machine,) = local.running(local.launch())
    eventually(lambda: answers(machine), "an ssh server")
    lines = local.run(machine, "seq 100000; echo problem >&2; exit 9")
    assert (len(lines.stdout.splitlines()), lines.stderr, lines.returncode) == (
        100_000,
        "problem\n",
        9,
    )
    live_once(local)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Make a folder with the package that everybody may enter, because another user may not read
    this one.
    """
    folder = Path(tempfile.mkdtemp(prefix="nbu", dir="/tmp"))
    folder.chmod(0o755)
    shutil.copytree(
        Path(nbprov.__file__).parent,
        folder / "src" / "nbprov",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def strangers_home() -> Iterator[Path]:
    """Make a home of the other user where machines see the computer's own files."""
    if os.getuid() != 0:
        yield Path.home()
        return
    folder = Path(tempfile.mkdtemp(prefix="nbprov-test-", dir="/var/lib"))
    folder.chmod(0o755)
    for name in ("home/secret", "runtime/kernel.json"):
        (folder / name).parent.mkdir()
        (folder / name).write_text("of the stranger")
        os.chown(folder / name, STRANGER, STRANGER)
        os.chown((folder / name).parent, STRANGER, STRANGER)
    yield folder / "home"
    shutil.rmtree(folder)


def stranger_python(folder: Path) -> str:
    """Return an interpreter that the other user can run."""
    for candidate in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        command = as_stranger(
            folder,
            IsolationLevel.BWRAP,
            candidate,
            "-c",
            (
                "import os, sys; assert sys.version_info >= (3, 11) and os.access(sys.executable, "
                "os.X_OK)"
            ),
        )
        if (
            os.path.exists(candidate)
            and subprocess.run(command, capture_output=True, check=False).returncode == 0
        ):
            return candidate
    pytest.skip("no Python 3.11 that another user can run")


def as_stranger(folder: Path, level: IsolationLevel, *command: str) -> list[str]:
    """Return a command line that runs as the other user.

    Below the best isolation it uses an account file with that user, because sshd requires it.
    """
    accounts = folder / "passwd"
    extra = (
        ""
        if level is IsolationLevel.BWRAP
        else f"stranger:x:{STRANGER}:{STRANGER}::/nonexistent:/bin/sh\n"
    )
    accounts.write_text(Path("/etc/passwd").read_text() + extra)
    drop = [
        "setpriv",
        f"--reuid={STRANGER}",
        f"--regid={STRANGER}",
        "--clear-groups",
        "--",
        *command,
    ]
    if level is IsolationLevel.BWRAP:
        return drop
    return [
        "unshare",
        "--mount",
        "--",
        "/bin/sh",
        "-c",
        f'mount --bind {accounts} /etc/passwd && exec "$@"',
        "sh",
        *drop,
    ]


STORY = """
import json, os, shutil, socket, subprocess, tempfile, time
from pathlib import Path
folder = Path(tempfile.mkdtemp(prefix="nbl"))
from nbprov.clouds.local.__main__ import main
from nbprov.clouds.local.provisioner import LocalCloud
from nbprov.model.launches import Launch
from nbprov.model.offers import Candidate
from nbprov.model.resources import Request

def until(look):
    end = time.monotonic() + 45
    while not look():
        assert time.monotonic() < end, cloud.list("me")
        time.sleep(0.01)

def count():
    command = ["pgrep", "-u", str(os.getuid()), "-fc", "^sleep 4244$"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()

(folder / "market.toml").write_text(
    '[[regions]]\\nname="r"\\nzones=["z"]\\n[[types]]\\nname="t"\\nhourly=1\\nvcpus=1\\nmemory_gib=1\\n')
key = folder / "client"
subprocess.run([*WRAP, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
cloud = LocalCloud(folder)
try:
    told = cloud.check()
    offer = next(o for o in cloud.offers())
    public = key.with_suffix(".pub").read_text()
    candidate = Candidate(offer, Request(), 0)
    launch = Launch("a" * 32, "me", "run", "dev", candidate, 1, 10, public_key=public)
    cloud.submit(launch)
    until(lambda: [i for i in cloud.list("me") if i.state == "running"])
    login = [d for d in told.details if "user of machines" in d][0].split()[-1]
    options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"]
    ssh = ["ssh", "-F", "none", "-i", str(key), "-o", "BatchMode=yes"]
    ssh += [word for option in options for word in ("-o", option)]

    def running():
        return [i for i in cloud.list("me") if i.state == "running"]

    def greets():
        (machine,) = running()
        try:
            with socket.create_connection((machine.host, machine.port), 2) as link:
                return link.recv(64).startswith(b"SSH-2.0")
        except OSError:
            return False

    def ask(program):
        # A machine counts as running before its sshd answers.
        until(greets)
        (machine,) = running()
        # The ssh client wants an account for whoever runs it; the cloud does not.
        command = [*WRAP, *ssh, "-p", str(machine.port), f"{login}@{machine.host}", program]
        return subprocess.run(command, capture_output=True, text=True)

    program = "id -u; pwd; (setsid nohup sleep 4244 >/dev/null 2>&1 &)"
    program += f"; cat {os.environ['HOME']}/secret {os.environ['JUPYTER_RUNTIME_DIR']}/kernel.json"
    said = ask(program)
    until(lambda: count() == "1")
    (machine,) = running()
    treasure = folder / "treasure"
    treasure.mkdir()
    (treasure / "file").write_text("treasure")
    locks = ask(LOCKS.replace("TREASURE", str(treasure))).stdout
    cloud.stop([machine.id])
    until(lambda: [i for i in cloud.list("me") if i.state == "stopped"])
    cloud.start([machine.id])
    until(running)
    seen = ask("ls -A /tmp; touch /tmp/mine").stdout
    left = {path.name: path.read_text() for path in treasure.iterdir()}
    cloud.terminate([machine.id])
    until(lambda: all(i.state == "gone" for i in cloud.list("me")))
    after = count()
finally:
    main(["stop", "--dir", str(folder)])
    shutil.rmtree(folder)
told = {"details": told.details, "out": said.stdout, "err": said.stderr, "after": after}
print(json.dumps({**told, "locks": locks, "seen": seen, "left": left}))
"""


@pytest.mark.parametrize("level", [IsolationLevel.BWRAP, IsolationLevel.MARKER])
def test_an_unprivileged_user_gets_machines(
    level: IsolationLevel, open_folder: Path, strangers_home: Path
) -> None:
    if os.getuid() != 0:
        return  # every other test here already runs as an unprivileged user
    assert STRANGER not in {p.pw_uid for p in pwd.getpwall()}
    python = stranger_python(open_folder)
    accounts = open_folder / "accounts"
    accounts.write_text(
        Path("/etc/passwd").read_text()
        + f"stranger:x:{STRANGER}:{STRANGER}::/nonexistent:/bin/sh\n"
    )
    wrap = (
        ["bwrap", "--dev-bind", "/", "/", "--ro-bind", str(accounts), "/etc/passwd"]
        if level is IsolationLevel.BWRAP
        else []
    )
    script = open_folder / "story.py"
    script.write_text(f"WRAP = {wrap!r}\nLOCKS = {LOCKS!r}\n{STORY}")
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(open_folder / "src"),
        "HOME": str(strangers_home),
        "JUPYTER_RUNTIME_DIR": str(strangers_home.parent / "runtime"),
        isolation.ISOLATION_VARIABLE: level.value,
    }
    done = subprocess.run(
        as_stranger(open_folder, level, python, "-P", str(script)),
        env=env,
        capture_output=True,
        text=True,
        timeout=150,
        cwd="/",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["out"].splitlines()[0] == str(STRANGER), told
    assert told["out"].splitlines()[1].endswith("/home")
    # Below the best isolation a machine shares the user's files.
    assert ("of the stranger" in told["out"]) is (level is not IsolationLevel.BWRAP), told
    assert told["after"] == "0"
    if level is IsolationLevel.BWRAP:  # elsewhere a machine's processes are the user's own
        check_locks(told["locks"])
        assert "file" not in told["seen"].split()
        assert told["left"] == {"file": "treasure"}
    assert any(d.startswith(f"isolation: {level.value}") for d in told["details"])
