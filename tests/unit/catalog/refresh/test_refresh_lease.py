"""The lock between kernels."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import price_mirror as doubles
import price_world as world
import pytest

from nbprov.catalog.refresh import Outcome, PriceFileStore
from nbprov.catalog.refresh import file_lease as module
from nbprov.catalog.refresh.file_lease import LeaseHeld, lease
from nbprov.clouds.web.client import Stopped

HOLD = """
import sys, threading
from pathlib import Path
from nbprov.catalog.refresh.file_lease import lease
with lease(Path(sys.argv[1]), stop=threading.Event()):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_lock_is_freed_when_its_holder_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    root = Path(module.__file__).resolve().parents[3]
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    waits = threading.Event()

    def kill() -> None:
        waits.set()
        holder.kill()

    with lease(path, stop=threading.Event(), waiting=kill) as waited:
        assert waited
        assert waits.is_set()
    holder.communicate()


def test_waiting_ends_with_a_stop(tmp_path: Path) -> None:
    stop = threading.Event()
    with (
        lease(tmp_path / "lock", stop=stop) as waited,
        pytest.raises(Stopped),
        lease(tmp_path / "lock", stop=stop, waiting=stop.set),
    ):
        pass
    assert not waited


def test_waiting_has_an_end_and_the_refresh_says_so(
    upkeep: PriceFileStore, mirror: doubles.Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.0)
    mirror.host("lambda", world.v8_text())
    with lease(upkeep.folder("lambda").lock, stop=threading.Event()):
        done = upkeep.refresh(["lambda"])["lambda"]
        assert done.outcome is Outcome.PASSED
        assert "another kernel" in done.message
        with pytest.raises(LeaseHeld), lease(upkeep.folder("lambda").lock, stop=threading.Event()):
            pass
    assert upkeep.refresh(["lambda"])["lambda"].outcome is Outcome.UPDATED
