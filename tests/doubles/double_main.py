"""What every double's process does: options, `READY URL`, serving until it is asked to end."""

from __future__ import annotations

import argparse
import signal
import threading
from pathlib import Path

from machines import Machines

from nbprov.clouds.contract.double_server import DoubleServer


def options_of(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options that all doubles have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--machines", type=Path, help="where real machines lie; else simulated")
    return parser


def serve(
    server: DoubleServer, machines: Machines | None, closing: threading.Event | None = None
) -> None:
    """Serve until this process is terminated; `closing` is set then, and ends its waits."""
    over = closing or threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: over.set())
    server.start()
    print(f"READY {server.url}", flush=True)
    try:
        over.wait()
        server.close()
    finally:
        if machines is not None:
            machines.close()
