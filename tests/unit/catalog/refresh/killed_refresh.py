"""Run by test_refresh_crash.py in a process of its own: the same change of a cloud's files, killed
at one of its steps, then another, to the last.

A step is any call that changes something on the disk, seen by an audit hook. Each round forks, so
that nothing is imported twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import price_world as world

from nbprov.catalog.refresh.cloud_folder import CloudFolder, Owner
from nbprov.catalog.refresh.file_lease import lease
from nbprov.catalog.refresh.refresh_state import State
from nbprov.catalog.sources import fetch_merge, price_files
from nbprov.catalog.store import builder

CHANGES = {
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.rmdir",
    "os.utime",
    "shutil.rmtree",
    "os.truncate",
}
NOW = 1_800_000_000.0


def stage(folder: CloudFolder, form: str, factor: float) -> None:
    """Stage a price list in one form or the other."""
    place = folder.stage()
    (place / "vms.csv").write_text(world.v8_text(factor=factor, regions=world.REGIONS[:1]))
    if form == "three":
        rows = price_files.read_prices(place, "lambda")
        (place / "vms.csv").unlink()
        fetch_merge.write(
            place, [row._replace(as_of="2027-01-15", spot_as_of="2027-01-15") for row in rows]
        )


def publish(root: Path, form: str, factor: float) -> None:
    """One refresh's last part."""
    folder = CloudFolder(root, "lambda")
    with lease(folder.lock, stop=threading.Event()):
        folder.recover()
        stage(folder, form, factor)
        folder.publish(State(source="hosted", fetched=NOW, rows=20))


def edit(root: Path) -> None:
    """Make one price another, as a person does."""
    for path in (root / "lambda").glob("*.csv"):
        path.write_text(path.read_text().replace("0.75", "0.5"))


def restore(root: Path) -> None:
    """Take edits back."""
    folder = CloudFolder(root, "lambda")
    with lease(folder.lock, stop=threading.Event()):
        folder.recover()
        folder.restore()


def clear(root: Path) -> None:
    """Take the files away."""
    folder = CloudFolder(root, "lambda")
    with lease(folder.lock, stop=threading.Event()):
        folder.recover()
        folder.clear()


ROUNDS: dict[str, tuple[Callable[[Path], object], Callable[[Path], object]]] = {
    "first one": (lambda root: None, lambda root: publish(root, "one", 1.1)),
    "first three": (lambda root: None, lambda root: publish(root, "three", 1.1)),
    "one to one": (lambda root: publish(root, "one", 1.0), lambda root: publish(root, "one", 1.1)),
    "three to three": (
        lambda root: publish(root, "three", 1.0),
        lambda root: publish(root, "three", 1.1),
    ),
    "one to three": (
        lambda root: publish(root, "one", 1.0),
        lambda root: publish(root, "three", 1.1),
    ),
    "three to one": (
        lambda root: publish(root, "three", 1.0),
        lambda root: publish(root, "one", 1.1),
    ),
    "restore three": (lambda root: (publish(root, "three", 1.0), edit(root)), restore),
    "restore one": (lambda root: (publish(root, "one", 1.0), edit(root)), restore),
    "clear three": (lambda root: publish(root, "three", 1.0), clear),
    "clear one": (lambda root: publish(root, "one", 1.0), clear),
}


def prices(root: Path, shipped: Path) -> list[int]:
    """What a reader sees, which turns to the last good copy, and then to the shipped prices, where
    files cannot be read.
    """
    found = price_files.find(price_files.Layout.of([shipped, root]))
    return sorted(
        entry.on_demand or 0 for entry in builder.read_all(found.files)["lambda"].reading.entries
    )


def killed_at(step: int, root: Path, change: Callable[[Path], object]) -> bool:
    """Do it in a fork that is killed before its step number `step`; whether it was."""
    child = os.fork()
    if child == 0:
        left = step

        def audit(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal left
            writes = (
                event == "open"
                and isinstance(arguments[2], int)
                and arguments[2] & (os.O_WRONLY | os.O_RDWR)
            )
            if event in CHANGES or writes:
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(audit)
        change(root)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def main(base: Path, name: str, first: int, stride: int) -> None:
    """The steps of one round, from one on, so many apart; a JSON line for each.

    What a reader saw at once, after recovery, whose the files were, and after another try.
    """
    # What a killed process has written is there; only a power cut needs the disk, which takes most
    # of the time here.
    os.fsync = lambda handle: None
    before, change = ROUNDS[name]
    shipped = base / "shipped"
    (shipped / "lambda").mkdir(parents=True)
    (shipped / "lambda" / "vms.csv").write_text(
        world.v8_text(factor=0.9, regions=world.REGIONS[:1])
    )
    step, goes_on, old = first - stride, True, None
    while goes_on:
        step += stride
        root = base / str(step) / "catalogs"
        root.mkdir(parents=True)
        before(root)
        old = prices(root, shipped) if old is None else old
        goes_on = killed_at(step, root, change)
        seen = prices(root, shipped)
        folder = CloudFolder(root, "lambda")
        with lease(folder.lock, stop=threading.Event()):
            folder.recover()
        after, owner = prices(root, shipped), folder.owner()
        change(root)
        line = {
            "step": step,
            "old": old,
            "seen": seen,
            "after": after,
            "owner": owner,
            "end": prices(root, shipped),
            "end_owner": folder.owner(),
        }
        assert folder.owner() in (Owner.NBPROV, Owner.NOBODY)
        print(json.dumps(line), flush=True)
        shutil.rmtree(base / str(step))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
