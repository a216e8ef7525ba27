"""rsync where it is: its command, and that what it did not do well is done over the open
connection.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nbprov.machines.ssh_config import options_for, write_known_hosts
from nbprov.on_machine.sync_protocol import PART
from nbprov.remote.sync import rsync
from nbprov.remote.sync.options import SyncOptions
from nbprov.remote.sync.plan import Direction
from nbprov.remote.sync.rsync import HOST, good_enough, rsync_words
from nbprov.remote.sync.sync import sync

SIZE = 5_000_000


def test_no_shell_and_no_option_comes_of_a_name() -> None:
    words = rsync_words(
        "rsync",
        ["ssh", "-o", 'UserKnownHostsFile="/it\'s here"'],
        "/here; rm -rf ~",
        "/-e evil $(x)",
    )
    assert words[-3:] == ["--", "/here; rm -rf ~/", "nbprov:/-e evil $(x)/"]
    assert "--protect-args" in words
    assert "--files-from=-" in words
    assert "--rsh='ssh' '-o' 'UserKnownHostsFile=\"/it''s here\"'" in words
    assert not any(word.startswith("--delete") for word in words)
    assert f"--partial-dir={PART}rsync" in words


@pytest.mark.parametrize(
    ("told", "is_safe"),
    [
        ("rsync  version 3.4.1  protocol version 32\n", True),
        ("rsync  version v3.5.0  protocol version 32\n", True),
        ("rsync  version 3.3.0  protocol version 31\n", False),
        ("rsync  version 3.2.7  protocol version 31\n", False),
        ("rsync  version 2.6.9  protocol version 29\n", False),
        ("openrsync: protocol version 29, rsync version 2.6.9 compatible\n", False),
        ("", False),
    ],
)
def test_only_versions_that_are_safe_are_used(told: str, is_safe: bool) -> None:
    assert good_enough(told) == is_safe


STAND_IN = """#!{python}
import os, shlex, subprocess, sys
if "--version" in sys.argv:
    print("rsync  version 3.4.1  protocol version 32")
    sys.exit()
ssh = shlex.split(next(word for word in sys.argv if word.startswith("--rsh="))[6:])
source, target = sys.argv[-2:]
open({log!r}, "a").write(repr(sys.argv) + "\\n")
for name in filter(None, sys.stdin.buffer.read().decode().split("\\0")):
    if source.startswith("{host}:"):
        reading = "cat " + shlex.quote(source[len("{host}:"):] + name)
        words = [*ssh, "{host}", reading]
        data = subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout
        open(target + name, "wb").write({changed})
    else:
        data = open(source + name, "rb").read()
        writing = "cat > " + shlex.quote(target[len("{host}:"):] + name)
        subprocess.run([*ssh, "{host}", writing], input={changed}, check=True)
print("      5,000,000 100%   10.00MB/s    0:00:00")
sys.exit({code})
"""


def _words(machine: Any) -> tuple[str, ...]:
    instance: Any = SimpleNamespace(host="127.0.0.1", port=machine.port, user="")
    write_known_hosts(machine.keys)
    options = options_for(instance, machine.keys)
    return (
        "ssh",
        "-F",
        "none",
        "-T",
        *(word for name, value in options.items() for word in ("-o", f"{name}={value}")),
    )


@pytest.mark.machine
@pytest.mark.usefixtures("bare_names")
@pytest.mark.parametrize("direction", [Direction.PUSH, Direction.PULL])
@pytest.mark.parametrize(
    ("changed", "code"),
    [("data", 0), ("data[:-1] + b'!'", 0), ("data[:1000]", 12)],
    ids=["well", "damaged", "failed"],
)
async def test_rsync_brings_large_files_that_differ_and_is_not_believed(
    machine: Any,
    connected: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    direction: Direction,
    changed: str,
    code: int,
) -> None:
    log = tmp_path / "log"
    for folder in (tmp_path / "bin", Path(machine.folder) / "bin"):
        folder.mkdir(exist_ok=True)
        (folder / "rsync").write_text(
            STAND_IN.format(
                python=sys.executable, log=str(log), host=HOST, changed=changed, code=code
            )
        )
        (folder / "rsync").chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    here, there = tmp_path / "here", Path(machine.home) / "there"
    source, target = (here, there) if direction is Direction.PUSH else (there, here)
    source.mkdir()
    target.mkdir()
    content = os.urandom(SIZE)
    (source / "big 'one'").write_bytes(content)
    (target / "big 'one'").write_bytes(content[:-3] + b"old")
    (source / "new").write_bytes(b"new")
    async with connected(machine) as connection:
        done = await sync(connection, SyncOptions(here, "~/there", direction, ssh=_words(machine)))
    assert (target / "big 'one'").read_bytes() == content
    assert (target / "new").read_bytes() == b"new"
    assert done.files == 2
    if direction is Direction.PULL:
        assert not log.exists(), "nothing comes here by rsync"
        return
    assert len(log.read_text().splitlines()) == 1, "rsync was asked once"
    assert (done.bytes > 2 * SIZE) == (code != 0 or changed != "data"), (
        "what it did not do well went over the open connection"
    )


@pytest.mark.machine
@pytest.mark.skipif(
    sys.platform == "darwin", reason="macOS has another program of that name, which is never used"
)
async def test_the_real_rsync_takes_our_line(
    machine: Any, connected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, log = shutil.which("rsync"), tmp_path / "log"
    assert real is not None, "the set-up of the tests installs it"
    # The system's own may be older than what is used against machines that lie; this machine is the
    # test's.
    monkeypatch.setattr(rsync, "LEAST_TO_PUSH", (3, 0, 0))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "rsync").write_text(
        f'#!/bin/sh\n{real} "$@"\ncode=$?\necho "$code $*" >>{log}\nexit $code\n'
    )
    (tmp_path / "bin" / "rsync").chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    here, there = tmp_path / "it's here", Path(machine.home) / "over there"
    here.mkdir()
    there.mkdir()
    content = os.urandom(SIZE)
    (here / "big 'one'").write_bytes(content)
    (there / "big 'one'").write_bytes(content[:-3] + b"old")
    async with connected(machine) as connection:
        done = await sync(
            connection, SyncOptions(here, "~/over there", Direction.PUSH, ssh=_words(machine))
        )
    assert (there / "big 'one'").read_bytes() == content
    version, run = log.read_text().splitlines()
    assert version == "0 --version"
    assert run.startswith("0 --files-from=-"), "it was content with its line and with the machine"
    assert done.bytes < 2 * SIZE, "nothing of it went over the open connection again"
