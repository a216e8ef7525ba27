"""What keeps an engine's process up on a machine.

Real processes that die, hang, and leave others behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nbprov.machines.engines.engine_state import PORTS_MARK, UP_MARK

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="keepers find processes in /proc"
)

if sys.platform.startswith("linux"):
    from nbprov.on_machine import process_supervisor

QUICK = (
    "import runpy, sys; import nbprov.on_machine.process_supervisor as k; k.FIRST_PAUSE ="
    " k.LAST_PAUSE = 0.02; sys.exit(k.main(sys.argv[1]))"
)
SERVER = """
import os, socket, subprocess, sys, time
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
child = subprocess.Popen(["sleep", "300"], start_new_session=True)
print("serving", child.pid, flush=True)
time.sleep(300)
"""
WAIT_SECONDS = 120.0


class Kept:
    """A keeper under test, read line by line."""

    def __init__(self, folder: Path, **config: Any) -> None:
        self.state = folder / "state" / "s.json"
        self.mark = f"test/{uuid.uuid4().hex}"
        self.said: list[str] = []
        whole = {
            "id": self.mark,
            "state": str(self.state),
            "ports": {},
            "up": "",
            "says": "",
            **config,
        }
        command = [sys.executable, "-c", QUICK, json.dumps(whole)]
        env = {**os.environ, "HOME": str(folder)}
        # Unbuffered: `select` knows nothing of a line that was read along with the one before it.
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,
            env=env,
        )

    def line(self, words: str) -> str:
        """The next line with these words; what was said before it and not asked for yet is kept.

        Keeper and process speak in any order.
        """
        assert self.process.stdout is not None
        end = time.monotonic() + WAIT_SECONDS
        while not (found := next((text for text in self.said if words in text), "")):
            assert time.monotonic() < end, f"not said within {WAIT_SECONDS:g} s: {words!r}"
            if select.select([self.process.stdout], [], [], 0.1)[0]:
                self.said.append(self.process.stdout.readline().decode().strip())
                assert self.said[-1], f"it ended and never said {words!r}"
        self.said.remove(found)
        return found

    def up(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self.line(UP_MARK)[len(UP_MARK) :])
        return said

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(WAIT_SECONDS)
        process_supervisor.end_marked(self.mark)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Any]:
    made: list[Kept] = []

    def make(**config: Any) -> Kept:
        made.append(Kept(tmp_path, **config))
        return made[-1]

    yield make
    for one in made:
        one.end()


def server(port: int = 20100) -> dict[str, Any]:
    command = [sys.executable, "-c", SERVER, "127.0.0.1", "{main}"]
    return {"command": command, "ports": {"main": ["127.0.0.1", port]}, "up": "main"}


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_taken_port_is_passed_over_and_the_state_says_so(kept: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        one = kept(**server(number), facts={"python": "3.11.7"})
        chosen = json.loads(one.line(PORTS_MARK)[len(PORTS_MARK) :])
        said = one.up()
    assert said["ports"] == chosen
    assert said["ports"]["main"] > number
    assert said["python"] == "3.11.7"
    assert json.loads(one.state.read_text()) == said
    assert one.state.stat().st_mode & 0o077 == 0


def test_what_dies_is_started_again_on_the_same_port_and_its_children_are_ended(kept: Any) -> None:
    one = kept(**server())
    child = int(one.line("serving").split()[1])
    first = one.up()
    os.kill(first["pid"], signal.SIGKILL)
    one.line("it is started again")
    second = one.up()
    assert second["pid"] != first["pid"]
    assert second["ports"] == first["ports"]
    assert not is_alive(child)


def test_the_end_takes_all_of_it_wherever_it_went(kept: Any) -> None:
    one = kept(**server())
    child = int(one.line("serving").split()[1])
    said = one.up()
    one.process.terminate()
    assert one.process.wait(WAIT_SECONDS) == 0
    assert not is_alive(said["pid"])
    assert not is_alive(child)
    assert not one.state.exists()


def test_what_cannot_be_started_is_given_up_with_its_last_words(kept: Any) -> None:
    one = kept(
        command=[sys.executable, "-c", "print('no such module'); raise SystemExit(3)"], says="up"
    )
    one.line("no such module")
    assert "the last time with code 3; given up" in one.line("given up")
    assert one.process.wait(WAIT_SECONDS) == 1


def test_one_allocation_beyond_the_limit_is_refused(kept: Any) -> None:
    hog = (
        "print('ready', flush=True)\ntry:\n    bytearray(600_000_000)\nexcept MemoryError:\n  "
        "  print('refused', flush=True)\nimport time; time.sleep(300)"
    )
    one = kept(command=[sys.executable, "-c", hog], says="ready", data=300_000_000)
    one.line("refused")


def test_modules_of_its_folders_come_before_all_others(
    kept: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/after")
    one = kept(command=["sh", "-c", "echo path: $PYTHONPATH"], says="never", paths=["{home}/late"])
    assert one.line("path:") == f"path: {one.state.parent.parent}/late:/after"


def test_files_are_written_first(kept: Any, tmp_path: Path) -> None:
    one = kept(
        command=["cat", "{home}/.config/x.yaml"],
        says="never",
        files={"{home}/.config/x.yaml": "place: {home}/y\n"},
    )
    assert one.line("place:") == f"place: {tmp_path}/y"


def test_the_words_for_up_and_for_ports_are_the_same_on_both_sides() -> None:
    assert (process_supervisor.MARK, process_supervisor.PORTS_MARK) == (UP_MARK, PORTS_MARK)


def test_folders_that_others_could_write_to_are_closed_or_refused(tmp_path: Path) -> None:
    shown = "import os, stat, sys; print(oct(stat.S_IMODE(os.stat(sys.argv[1]).st_mode)))"
    opened = tmp_path / "opened"
    opened.mkdir()
    opened.chmod(0o777)
    for folder in (opened, tmp_path / "new"):
        process_supervisor.make_private(str(folder))
        told = subprocess.run([sys.executable, "-c", shown, folder], capture_output=True, text=True)
        assert told.stdout == "0o700\n"
    (tmp_path / "link").symlink_to(opened)
    for name in ("link", "file"):
        (tmp_path / "file").touch()
        kept = Kept(tmp_path, command=["-c", "print('started')"], private=[f"{{home}}/{name}"])
        said = kept.process.communicate(timeout=WAIT_SECONDS)[0].decode()
        assert "was made by another user of this machine" in said
        assert "started" not in said
    if os.getuid() == 0:
        os.chown(opened, 1234, -1)
        with pytest.raises(SystemExit, match="by another user"):
            process_supervisor.make_private(str(opened))
