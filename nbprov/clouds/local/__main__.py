"""The `local` cloud in a terminal: `python -m nbprov.clouds.local status`, or `stop`.

`stop` ends the daemon and all its machines.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from .client import START_STEP, DaemonClient
from .daemon.daemon import lock
from .rpc import AnswerLost, Refusal, Unreachable, state_dir

ANSWER_SECONDS = 30.0
"""How long ending all machines may take; one takes milliseconds."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Show what runs, or end it."""
    parser = argparse.ArgumentParser(prog="python -m nbprov.clouds.local", description=__doc__)
    parser.add_argument("verb", choices=("status", "stop"))
    parser.add_argument("--dir", type=Path, help="the state directory")
    options = parser.parse_args(arguments)
    folder: Path = options.dir or state_dir()
    client = DaemonClient(folder)
    try:
        if options.verb == "stop":
            # Machines outlive a daemon that was killed; then a new one ends them.
            left = any((folder / "i").glob("*"))
            try:
                ended = client.call(
                    "shutdown", {"end_machines": True}, timeout=ANSWER_SECONDS, start=left
                )
            except AnswerLost:
                # That daemon was ending already, so the next one ends what it left.
                _await_end(folder)
                ended = client.call(
                    "shutdown",
                    {"end_machines": True},
                    timeout=ANSWER_SECONDS,
                    start=any((folder / "i").glob("*")),
                )
            _await_end(folder)
            print(f"ended {ended} machines and the daemon")
        else:
            print(
                json.dumps(client.call("describe", timeout=ANSWER_SECONDS, start=False), indent=2)
            )
    except Unreachable:
        print(f"no daemon runs for {folder}")
    except Refusal as refusal:
        print(refusal, file=sys.stderr)
        return 1
    return 0


def _await_end(folder: Path) -> None:
    """Wait until the daemon has released its directory, which it does shortly after its answer."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < deadline and (folder / "daemon.lock").exists():
        held = lock(folder)
        if held is not None:
            held.close()
            return
        time.sleep(START_STEP)


if __name__ == "__main__":
    sys.exit(main())
