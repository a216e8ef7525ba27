"""Homes of kernels, each with a `local` cloud of its own and a fast market."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from nbprov.catalog import Catalog
from nbprov.clouds.local.client import DaemonClient
from nbprov.clouds.local.rpc import Unreachable

DEADLINE = 150.0
"""Seconds after which an expected event counts as missing: many times what it takes on a busy
machine."""

MARKET = """
account = "kernel-tests"
[timing]
accept = {accept}
boot = 0.0
end = {end}
gone_shown = 60
[[regions]]
name = "south"
zones = ["south-a", "south-b"]
price = 0.9
[[regions]]
name = "north"
zones = ["north-a", "north-b"]
price = 1.0
[[types]]
name = "gpu"
accelerator = "A100"
count = 1
vcpus = 4
memory_gib = 16
hourly = 3.0
spot = 1.0
[[types]]
name = "sim-cpu-2"
vcpus = 2
memory_gib = 8
hourly = 0.1
[[stock]]
region = "south"
type = "gpu"
left = 0
"""
# The south has no GPU, so that every launch of one fails over.


def market(home: Path, more: str = "", *, accept: float = 0.02, end: float = 0.0) -> None:
    """Write the market of a home's `local` cloud, which reads it at its next call."""
    folder = home / "local"
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / "market.new"
    fresh.write_text(MARKET.format(accept=accept, end=end) + more, encoding="utf-8")
    fresh.replace(folder / "market.toml")


def machines(home: Path) -> int:
    """Return how many machines the cloud itself lists as not gone; 0 if no cloud was started."""
    counts: dict[str, int] = (_ask_cloud(home, "describe") or {"machines": {}})["machines"]
    return sum(count for state, count in counts.items() if state != "gone")


def end_cloud(home: Path) -> None:
    """Stop the cloud of a home with all its machines."""
    _ask_cloud(home, "shutdown", {"end_machines": True})


def _ask_cloud(home: Path, verb: str, arguments: dict[str, Any] | None = None) -> Any:
    try:
        return DaemonClient(home / "local").call(
            verb, arguments or {}, timeout=DEADLINE, start=False
        )
    except Unreachable:
        return None


@cache
def catalogue_cache() -> Path:
    """Make the binary cache of the shipped prices once, since only a user's first kernel ever
    makes it."""
    folder = Path(tempfile.mkdtemp(prefix="nbp-cache-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    Catalog.open(cache=folder).clouds()
    return folder


@contextmanager
def new_home() -> Iterator[Path]:
    """Yield a home with a fast market, which is ended with all its machines afterwards."""
    root = Path(tempfile.mkdtemp(prefix="nbp-", dir="/tmp" if sys.platform != "win32" else None))
    home = root / "h"
    home.mkdir()
    shutil.copytree(catalogue_cache(), home / "cache")
    market(home)
    try:
        yield home
    finally:
        end_cloud(home)
        shutil.rmtree(root, ignore_errors=True)
