"""Making a Python environment on a machine: which commands are composed, what is kept, put back,
made anew and removed.

uv is a stand-in here that notes its commands; `test_python_real.py` runs the real one.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from nbprov.on_machine import python_env, uv
from nbprov.on_machine.python_env import alone, make, read_record, tidy
from nbprov.on_machine.uv import MachinePaths, UvError, by_venv, find_uv, get_uv, index_settings

BASE = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
LIB = f"python{sys.version_info.major}.{sys.version_info.minor}"
UV = """#!{python}
import pathlib, sys
here, words = pathlib.Path({here!r}), sys.argv[1:]
with open(here / "uv.log", "a") as log:
    print(*words, file=log)
def option(name):
    return words[words.index(name) + 1]
if words == ["--version"]:
    print((here / "version").read_text())
elif words[:2] == ["python", "find"]:
    if not (here / ("has-" + words[-1])).exists():
        sys.exit(2)
    print({python!r})
elif words[:2] == ["python", "install"]:
    (here / ("has-" + words[-1])).touch()
elif words[0] == "venv":
    place, base = pathlib.Path(words[-1]), pathlib.Path({base!r})
    (place / "lib" / {lib!r} / "site-packages").mkdir(parents=True)
    (place / "bin").mkdir()
    (place / "bin" / "python").symlink_to(base)
    settings = "include-system-site-packages = false\\nhome = " + str(base.parent)
    (place / "pyvenv.cfg").write_text(settings)
elif words[:2] == ["pip", "compile"]:
    inputs = [pathlib.Path(name) for name in words if name.endswith(".in")]
    names = "".join(name.read_text() for name in inputs).split()
    if "missing" in names:
        print("error: there is no missing on https://me:canary@index/simple")
        sys.exit(1)
    packages = [n for n in names if n[0] != "-" and ":" not in n]
    lines = "".join((n if "==" in n else n + "==1") + "\\n" for n in packages)
    pathlib.Path(option("--output-file")).write_text(lines)
elif words[0] == "pip":
    lib = pathlib.Path(option("--python")).parent.parent / "lib"
    place = next(lib.glob("python*")) / "site-packages"
    for line in pathlib.Path(words[-1]).read_text().split():
        name, sign, version = line.partition("==")
        if sign:
            for old in place.glob(name + "-*.dist-info"):
                (old / "METADATA").unlink(); old.rmdir()
            folder = place / f"{{name}}-{{version}}.dist-info"
            folder.mkdir()
            metadata = f"Metadata-Version: 2.1\\nName: {{name}}\\nVersion: {{version}}\\n"
            (folder / "METADATA").write_text(metadata)
"""


class World:
    """A machine with a home and a uv of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        (folder / "version").write_text("uv 0.9.1 (x 2025)")
        (folder / "bin" / "uv").write_text(
            UV.format(python=sys.executable, here=str(folder), base=BASE, lib=LIB)
        )
        (folder / "bin" / "uv").chmod(0o755)
        (folder / "root").mkdir()
        self.machine = MachinePaths(str(folder / "root"))

    @property
    def commands(self) -> list[str]:
        """What uv was asked for, but for its version."""
        log = self.folder / "uv.log"
        return (
            [line for line in log.read_text().splitlines() if line != "--version"]
            if log.exists()
            else []
        )

    def make(self, *requirements: str, **fields: Any) -> dict[str, Any]:
        """Make an environment; its record."""
        files = {"requirements.in": "".join(f"{one}\n" for one in requirements)}
        request = {
            "key": "-".join(requirements),
            "kind": "requirements",
            "version": "",
            "files": files,
            "lock": "",
            "python": "",
            "pins": "",
        }
        (self.folder / "uv.log").unlink(missing_ok=True)
        make({**request, **fields}, self.machine)
        return read_record(self.place)

    @property
    def place(self) -> str:
        """The environment that is the machine's now."""
        return os.path.realpath(self.machine.chosen)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("HOME", str(tmp_path))
    # Without the folder of this interpreter: a real uv lies there.
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    made = World(tmp_path)
    (tmp_path / "bin" / "python3").symlink_to(BASE)
    return made


def test_an_environment_is_made_and_found_again(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    record = world.make("six==1.16.0", "tomli")
    assert record["packages"] == {"six": "1.16.0", "tomli": "1", "ipykernel": "1", "pip": "1"}
    assert record["lock"].split() == ["six==1.16.0", "tomli==1", "ipykernel==1", "pip==1"]
    assert [command.split()[0] for command in world.commands] == ["venv", "pip", "pip"]
    capsys.readouterr()
    assert world.make("six==1.16.0", "tomli") == record
    assert world.commands == []
    assert capsys.readouterr().out.startswith("python: as before: Python 3.")


def test_a_version_that_is_not_there_is_fetched(world: World) -> None:
    world.make("six", version="3.12")
    head = [command for command in world.commands if command.startswith(("python", "venv"))]
    assert head == [
        "python find --no-project 3.12",
        "python install 3.12",
        "python find --no-project 3.12",
        f"venv --no-project --python {sys.executable} {world.place}",
    ]


def test_another_node_gets_the_exact_version_and_list(world: World) -> None:
    (world.folder / "has-3.12.4").touch()
    record = world.make("six", version="3.12", python="3.12.4", lock="six==7\nipykernel==2\n")
    assert record["packages"] == {"six": "7", "ipykernel": "2"}
    assert not any("compile" in command for command in world.commands)
    assert "python find --no-project 3.12.4" in world.commands
    # The head has resolved anew since then: what is there is another list, and is replaced.
    (world.folder / "has-3.12.5").touch()
    assert world.make("six", version="3.12", python="3.12.5", lock="six==8\n")["packages"] == {
        "six": "8"
    }


def test_what_was_asked_for_is_kept_beside_it(world: World) -> None:
    request = {
        "key": "six",
        "kind": "requirements",
        "version": "",
        "files": {"requirements.in": "six\n"},
    }
    world.make("six", lock="six==7\n")
    kept = Path(world.place, python_env.REQUEST)
    assert json.loads(kept.read_text()) == request
    assert kept.stat().st_mode & 0o777 == 0o600
    assert not list(Path(world.place).glob("*.new"))


def test_what_was_changed_is_put_back_and_what_was_added_stays(world: World) -> None:
    world.make("six==1.16.0")
    packages = next(Path(world.place, "lib").glob("python*")) / "site-packages"
    (packages / "six-1.16.0.dist-info").rename(packages / "six-1.17.0.dist-info")
    (packages / "six-1.17.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: six\nVersion: 1.17.0\n"
    )
    (packages / "added-1.dist-info").mkdir()
    (packages / "added-1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: added\nVersion: 1\n"
    )
    world.make("six==1.16.0")
    assert ["--reinstall-package six" in command for command in world.commands] == [True]
    assert {"six-1.16.0.dist-info", "added-1.dist-info"} <= {
        path.name for path in packages.iterdir()
    }


def test_a_half_made_one_is_made_anew(world: World) -> None:
    world.make("six")
    Path(world.place, python_env.RECORD).unlink()
    world.make("six")
    assert world.commands[0].startswith("venv")


def test_a_failure_leaves_the_old_one_in_use_and_nothing_half_made(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.make("six")
    before = world.place
    with pytest.raises(UvError, match="uv pip compile ended with code 1"):
        world.make("missing")
    assert world.place == before
    assert os.listdir(world.machine.environments) == [os.path.basename(before)]
    out = capsys.readouterr().out
    assert "there is no missing on https://***@index/simple" in out
    assert "canary" not in out


def test_requirements_are_private_and_gone_afterwards(world: World) -> None:
    world.make("--index-url https://me:canary@index/simple", "six")
    left = [
        path
        for path in Path(world.machine.root).rglob("*")
        if path.is_file() and b"canary" in path.read_bytes()
    ]
    assert {path.name for path in left} == {python_env.RECORD, python_env.REQUEST}
    assert not any(path.stat().st_mode & 0o077 for path in left)


def test_old_ones_go_and_those_in_use_stay(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_env, "KEPT", 2)
    places = [os.path.join(world.machine.environments, f"made-{number}") for number in range(6)]
    for number, place in enumerate(places):
        os.makedirs(place)
        stamp = time.time() - 1000 * (20 - number)
        Path(place, python_env.RECORD).write_text("{}")
        python_env.choose(world.machine, place)
        os.utime(os.path.join(place, python_env.RECORD), (stamp, stamp))
    # The newest is in use; of the others one was not used for long, one is where a process runs,
    # two are kept, and one is too many.
    long_ago = time.time() - python_env.UNUSED_SECONDS - 1
    os.utime(os.path.join(places[4], python_env.RECORD), (long_ago, long_ago))
    child = subprocess_in(places[0])
    try:
        tidy(world.machine)
    finally:
        child.kill()
        child.wait()
    left = {
        os.path.join(world.machine.environments, name)
        for name in os.listdir(world.machine.environments)
    }
    runs_there = {places[0]} if os.path.isdir("/proc/self") else set()
    assert left - {places[0]} == {places[5], places[3], places[2]}
    assert runs_there <= left


def subprocess_in(place: str) -> Any:
    env = {**os.environ, "PATH": f"{place}/bin:{os.environ['PATH']}"}
    child = subprocess.Popen(
        [sys.executable, "-c", "print('up', flush=True); input()"], env=env, stdin=-1, stdout=-1
    )
    assert child.stdout is not None
    child.stdout.readline()
    return child


def test_two_at_once_follow_each_other(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    entered = threading.Event()

    def second() -> None:
        with alone(world.machine):
            entered.set()

    thread = threading.Thread(target=second)
    with alone(world.machine):
        thread.start()
        while "waiting for it" not in capsys.readouterr().out:
            time.sleep(0.01)
        assert not entered.is_set()
    thread.join(60)
    assert entered.is_set()


# ---------------------------------------------------------------- uv and the index


def test_pips_settings_are_passed_on() -> None:
    said = (
        "global.index-url='https://mirror/simple'\nglobal.extra-index-url='https://a/s"
        " https://b/s'\nglobal.cert='/ca.pem'\nfreeze.timeout='9'"
    )
    assert index_settings({}, said) == {
        "UV_DEFAULT_INDEX": "https://mirror/simple",
        "UV_INDEX": "https://a/s https://b/s",
        "SSL_CERT_FILE": "/ca.pem",
    }
    assert (
        index_settings({"PIP_INDEX_URL": "https://env/simple"}, said)["UV_DEFAULT_INDEX"]
        == "https://env/simple"
    )
    assert index_settings({"PIP_FIND_LINKS": "/w /x"}, "") == {"UV_FIND_LINKS": "/w,/x"}


@pytest.mark.parametrize("name", ["UV_DEFAULT_INDEX", "UV_INDEX_URL"])
def test_what_is_set_for_uv_stays(name: str) -> None:
    assert "UV_DEFAULT_INDEX" not in index_settings(
        {name: "https://own/simple"}, "global.index-url='https://mirror/simple'"
    )


@pytest.mark.parametrize(
    "said",
    ["", "nonsense", "global.index-url=unquoted", "global.index-url='half", "=''", "x\n\n='"],
)
def test_what_pip_says_may_be_anything(said: str) -> None:
    assert index_settings({}, said) == {}


def test_a_uv_that_is_too_old_is_passed_over(world: World) -> None:
    assert find_uv(world.machine) == str(world.folder / "bin" / "uv")
    (world.folder / "version").write_text("uv 0.4.30")
    assert find_uv(world.machine) == ""
    (world.folder / ".local" / "bin").mkdir(parents=True)
    newer = world.folder / ".local" / "bin" / "uv"
    newer.write_text("#!/bin/sh\necho uv 1.0.0\n")
    newer.chmod(0o755)
    assert find_uv(world.machine) == str(newer)


def test_uv_comes_by_the_first_way_that_works(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (world.folder / "bin" / "uv").unlink()

    def fails(machine: MachinePaths, place: str) -> bool:
        raise UvError("pip ended with code 1")

    def works(machine: MachinePaths, place: str) -> bool:
        os.makedirs(os.path.join(place, "bin"))
        Path(place, "bin", "uv").write_text("#!/bin/sh\necho uv 0.9.9\n")
        Path(place, "bin", "uv").chmod(0o755)
        return True

    monkeypatch.setattr(uv, "by_pip", lambda machine, place: False)
    monkeypatch.setattr(uv, "by_venv", fails)
    monkeypatch.setattr(uv, "by_wheel", works)
    assert get_uv(world.machine) == os.path.join(world.machine.tool, "bin", "uv")
    assert "pip ended with code 1" in capsys.readouterr().out
    monkeypatch.setattr(uv, "by_wheel", fails)
    monkeypatch.setattr(uv, "by_package_manager", lambda machine, place: False)
    shutil.rmtree(world.machine.tool)
    with pytest.raises(UvError, match="uv could not be installed"):
        get_uv(world.machine)


def test_the_throw_away_environment_is_thrown_away(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(uv, "pip_install", lambda python, machine, place: asked.append(python))
    world.machine.python = str(world.folder / "python3")
    Path(world.machine.python).write_text(
        '#!/bin/sh\nfor place; do :; done\n[ "$place" = --help ] && echo usage || mkdir -p'
        ' "$place/bin"\n'
    )
    Path(world.machine.python).chmod(0o755)
    assert by_venv(world.machine, str(world.folder / "new"))
    assert len(asked) == 1
    assert not os.path.exists(asked[0])


def test_an_active_environment_is_left_aside(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.make("six")
    monkeypatch.setenv("PATH", f"{world.place}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("VIRTUAL_ENV", world.place)
    machine = MachinePaths(world.machine.root)
    assert world.place not in machine.env["PATH"]
    assert "VIRTUAL_ENV" not in machine.env
    assert not machine.python.startswith(world.machine.environments)


def test_the_request_is_all_that_main_needs(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    request = {
        "key": "k",
        "kind": "requirements",
        "version": "",
        "files": {"requirements.in": "missing\n"},
        "lock": "",
        "python": "",
        "pins": "",
    }
    assert python_env.main(json.loads(json.dumps(request))) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "nbprov: uv pip compile ended with code 1"
    assert python_env.main({**request, "files": {"requirements.in": "six\n"}}) == 0
    assert os.path.islink(world.folder / ".nbprov" / "python")


def test_only_the_uv_that_is_known_by_its_digest_is_unpacked(tmp_path: Path) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as wheel:
        wheel.writestr(f"uv-{uv.UV_VERSION}.data/scripts/uv", "#!/bin/sh\necho uv 0.13.9\n")
    data = content.getvalue()
    with pytest.raises(UvError, match="SHA-256 differs"):
        uv.unpack_wheel(data, uv.WHEELS["x86_64"][1], str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    uv.unpack_wheel(data, hashlib.sha256(data).hexdigest(), str(tmp_path))
    assert os.access(tmp_path / "bin" / "uv", os.X_OK)
    assert {len(digest) for digest in uv.DIGESTS} == {64}


def test_pip_installs_one_release_by_its_digests(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def reads(command: list[str], env: dict[str, str], folder: str) -> None:
        asked.extend([" ".join(command), Path(command[-1]).read_text()])

    monkeypatch.setattr(uv, "run", reads)
    uv.pip_install("python3", world.machine, str(world.folder / "new"))
    assert "--require-hashes" in asked[0]
    assert asked[1].startswith(f"uv=={uv.UV_VERSION} --hash=sha256:")
