"""The first process of a pod, and how a pod stops or ends itself with its own key."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from runpod_double import Double
from runpod_launches import a_launch

from nbprov.clouds.runpod import make, pod_entrypoint
from nbprov.clouds.runpod.provisioner import CAPABILITIES
from nbprov.remote.boot.user_data import boot_template

API = "https://api.runpod.io"
TOOLS = ("sh", "sed", "head", "cut")


@pytest.fixture(scope="module")
def server() -> Iterator[Double]:
    made = Double()
    yield made
    made.close()


@pytest.fixture
def double(server: Double, monkeypatch: pytest.MonkeyPatch) -> Iterator[Double]:
    server.reset()
    for name, value in server.env.items():
        monkeypatch.setenv(name, value)
    yield server
    assert server.problems() == []


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """Return a PATH in which only Python can send HTTP requests."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in TOOLS:
        place = shutil.which(tool)
        assert place is not None
        (folder / tool).symlink_to(place)
    (folder / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (folder / "python3").chmod(0o755)
    return str(folder)


class Inside:
    """A pod of the double as seen from inside: its home, with the files of its first process."""

    def __init__(self, double: Double, home: Path) -> None:
        self.double, self.home = double, home
        self.id = make().submit(a_launch()).id
        (found,) = [one for one in double.control("pods") if one["id"] == self.id]
        (home / ".nbprov").mkdir(parents=True)
        (home / ".nbprov" / "poweroff").write_text(pod_entrypoint.POWEROFF)
        self.write(found["key"])

    def write(self, key: str, api: str = "") -> None:
        (self.home / ".nbprov" / "pod").write_text(
            f"pod={self.id}\nkey={key}\napi={api or self.double.url}\n"
        )

    def run(self, mode: str, path: str = "") -> subprocess.CompletedProcess[str]:
        command = CAPABILITIES.poweroff.format(mode=mode, reason="'idle for 60 min'")
        env = {"HOME": str(self.home), "PATH": path or os.environ["PATH"]}
        return subprocess.run(
            ["/bin/sh", "-c", command],
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def state(self) -> str:
        return next((str(i.state) for i in make().list("owner-1") if i.id == self.id), "gone")


@pytest.fixture
def inside(double: Double, tmp_path: Path) -> Inside:
    return Inside(double, tmp_path / "home")


@pytest.mark.parametrize("mode", ["stop", "terminate"])
@pytest.mark.parametrize("by", ["whatever is there", "python"])
def test_pod_stops_and_ends_itself(inside: Inside, bare: str, mode: str, by: str) -> None:
    done = inside.run(mode, bare if by == "python" else "")
    assert done.returncode == 0, done.stderr
    assert inside.state() == {"stop": "stopped", "terminate": "gone"}[mode]
    assert [one["call"] for one in inside.double.calls()][-2:] == ["podAction", "listPods"]


@pytest.mark.parametrize("mode", ["stop", "terminate"])
def test_the_older_api_is_the_second_way(inside: Inside, mode: str) -> None:
    inside.double.add_fault("permission", call="podAction")
    assert inside.run(mode).returncode == 0
    assert inside.state() == {"stop": "stopped", "terminate": "gone"}[mode]


def test_pod_that_may_not_end_itself_stops_at_least(inside: Inside) -> None:
    inside.double.add_fault("permission", call="podAction", where={"body.action": "terminate"})
    inside.double.add_fault("permission", call="graphql")
    assert inside.run("terminate").returncode == 0
    assert inside.state() == "stopped"


def test_what_did_not_work_says_so_and_shows_no_key(inside: Inside) -> None:
    inside.write("rpa_PODwrongwrongwrong")
    done = inside.run("terminate")
    assert done.returncode != 0
    assert "rpa_POD" not in done.stdout + done.stderr
    inside.write("")
    assert "cannot end itself" in inside.run("terminate").stderr
    assert inside.run("explode").returncode == 2
    assert inside.state() != "gone"


def test_first_process_is_a_script_that_any_shell_reads(tmp_path: Path) -> None:
    text = pod_entrypoint.command(API)
    assert "@@" not in text
    for script in (text, pod_entrypoint.POWEROFF):
        assert (
            subprocess.run(
                ["/bin/sh", "-n"], input=script, text=True, capture_output=True, check=False
            ).stderr
            == ""
        )
    args = json.loads(pod_entrypoint.arguments(API))
    assert (args["entrypoint"], args["cmd"]) == (["/bin/sh", "-c"], [text])
    assert len(pod_entrypoint.arguments(API)) < 16_000


def first_process(tmp_path: Path, **env: Any) -> subprocess.CompletedProcess[str]:
    """Run the first process on a machine with its own ssh server, like a double's."""
    given = {
        "HOME": str(tmp_path / "home"),
        "PATH": os.environ["PATH"],
        "NBPROV_HOST_KEY": str(tmp_path / "host"),
        **env,
    }
    given["NBPROV_AUTHORIZED_KEYS"] = str(tmp_path / "keys" / "authorized")
    (tmp_path / "home").mkdir(exist_ok=True)
    return subprocess.run(
        ["/bin/sh", "-c", pod_entrypoint.command(API)],
        env=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_first_process_leaves_what_the_pod_needs(tmp_path: Path) -> None:
    script = pod_entrypoint.packed('#!/bin/sh\necho ran >"$HOME/ran"\necho said\n')
    for _ in range(2):  # at every start
        done = first_process(
            tmp_path,
            RUNPOD_POD_ID="p1",
            RUNPOD_API_KEY="k1",
            NBPROV_START=script,
            PUBLIC_KEY="ssh-ed25519 AAAA me",
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "said\n", "")
    folder = tmp_path / "home" / ".nbprov"
    assert (tmp_path / "home" / "ran").read_text() == "ran\n"
    assert (folder / "pod").read_text() == f"pod=p1\nkey=k1\napi={API}\n"
    assert (folder / "pod").stat().st_mode & 0o77 == 0
    assert (folder / "poweroff").read_text() == pod_entrypoint.POWEROFF
    assert not (folder / "pod.start").exists()
    assert (tmp_path / "keys" / "authorized").read_text() == "ssh-ed25519 AAAA me\n"


def test_secret_that_did_not_resolve_is_told_in_the_log(tmp_path: Path) -> None:
    done = first_process(tmp_path, NBPROV_START="{{ RUNPOD_SECRET_gone }}")
    assert (done.returncode, "start script cannot be read" in done.stderr) == (0, True)


def test_start_script_that_fails_is_told(tmp_path: Path) -> None:
    done = first_process(tmp_path, NBPROV_START=pod_entrypoint.packed("#!/bin/sh\nexit 3\n"))
    assert "ended with status 3" in done.stderr


def test_boot_guard_ends_the_pod_by_this_command() -> None:
    assert 'sh "$HOME/.nbprov/poweroff" terminate' in boot_template(
        CAPABILITIES.poweroff, login=CAPABILITIES.login
    )
