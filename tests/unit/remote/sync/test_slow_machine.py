"""Machines that stall, drip or read slowly, over a real sshd: each transfer has its limits."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hostile_sync import hostile_python

from nbprov.on_machine.transfer_limit import TransferLimit
from nbprov.remote.pull.options import PullOptions
from nbprov.remote.pull.pull import pull
from nbprov.remote.sync import folder_channel
from nbprov.remote.sync.errors import SyncError
from nbprov.remote.sync.options import SyncOptions
from nbprov.remote.sync.plan import Direction
from nbprov.remote.sync.sync import sync

pytestmark = [pytest.mark.machine, pytest.mark.usefixtures("bare_names")]

SLOW = TransferLimit(least_speed=10_000, seconds=0.5)
"""What moves less than 10 kB a second for half a second is ended."""
LATE = TransferLimit(most_seconds=1.5)
BEGIN = "listed([row('a', size=10**9)]); ask(); say(put='a', size=10**9, offset=0, mtime=0, mode=0)"
PULLS = {
    "stalls": (f"{BEGIN}\n while True: time.sleep(1)", SLOW, "moved less than 10 kB a second"),
    "drips": (
        f"{BEGIN}\n while True: time.sleep(0.05); os.write(1, struct.pack('>cI', b'D', 1) + b'x')",
        SLOW,
        "moved less than 10 kB a second for 0.5 seconds",
    ),
    "comes to no end": (
        f"{BEGIN}\n while True: time.sleep(0.01); data(b'x' * 1000)",
        LATE,
        "took longer than 1.5 seconds",
    ),
    "drips its listing": (
        "os.write(1, struct.pack('>cI', b'J', 10**6))\n"
        " while True: time.sleep(0.05); os.write(1, b' ')",
        LATE,
        "took longer than 1.5 seconds",
    ),
    "is silent from the first question on": (
        "while True: time.sleep(1)",
        LATE,
        "took longer than 1.5 seconds",
    ),
}
THROTTLED = """#!{python}
import os, subprocess, sys, time
real = subprocess.Popen([{python!r}, *sys.argv[1:]], stdin=subprocess.PIPE)
while data := os.read(0, 65536):
    time.sleep(0.02)
    real.stdin.write(data)
    real.stdin.flush()
real.stdin.close()
sys.exit(real.wait())
"""
"""Reads some 3 MB a second."""


@pytest.mark.parametrize("what", PULLS)
async def test_a_machine_that_is_too_slow_is_given_up(
    shared_machine: Any, connected: Any, tmp_path: Path, what: str
) -> None:
    body, limit, words = PULLS[what]
    python = str(hostile_python(tmp_path / "python", body))
    (tmp_path / "here").mkdir()
    options = SyncOptions(tmp_path / "here", "~/x", Direction.PULL)
    async with connected(shared_machine) as connection:
        with pytest.raises(SyncError, match=words) as caught:
            await sync(connection, options, python=python, limit=limit)
        assert caught.value.code == "sync.slow"
        assert not (tmp_path / "here" / "a").exists()
        # The connection is still good, and a pull has the same limits.
        assert (await connection.run("echo here")).stdout == "here\n"
        if what == "drips":
            wanted = PullOptions("~/x", tmp_path / "pulled", memory=tmp_path / "memory")
            with pytest.raises(SyncError, match=words) as caught:
                await pull(connection, wanted, python=python, limit=limit)
            assert caught.value.code == "sync.slow"


async def test_a_machine_that_takes_nothing_is_given_up(
    shared_machine: Any, connected: Any, tmp_path: Path
) -> None:
    python = str(
        hostile_python(
            tmp_path / "python", "listed([]); ask(); say(part=[0, '']); time.sleep(3600)"
        )
    )
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "big").write_bytes(os.urandom(8_000_000))
    options = SyncOptions(tmp_path / "here", "~/x", Direction.PUSH)
    async with connected(shared_machine) as connection:
        with pytest.raises(SyncError, match="moved less than 10 kB a second") as caught:
            await sync(connection, options, python=python, limit=SLOW)
    assert caught.value.code == "sync.slow"
    assert "run it again: it goes on" in caught.value.hint


async def test_one_large_file_may_take_longer_than_a_message_may(
    machine: Any, connected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine says nothing until the whole file is there."""
    monkeypatch.setattr(folder_channel, "STALL_SECONDS", 1.0)
    python = tmp_path / "python"
    python.write_text(THROTTLED.format(python=sys.executable))
    python.chmod(0o755)
    content = os.urandom(12_000_000)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "big").write_bytes(content)
    options = SyncOptions(tmp_path / "here", "~/there", Direction.PUSH)
    async with connected(machine) as connection:
        done = await sync(connection, options, python=str(python), limit=SLOW)
    assert done.seconds > 2.0, "it was slow enough for this test to mean something"
    assert (machine.home / "there" / "big").read_bytes() == content
