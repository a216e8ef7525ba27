"""A look at the `local` cloud from a terminal: `python -m nbprov.clouds.local status`, or `stop` to end it with all its machines."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from .client import Client
from .wire import Refusal, Unreachable, state_dir

ANSWER_SECONDS = 30.0
"""How long ending all machines may take; one takes milliseconds."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Say what runs, or end it."""
    parser = argparse.ArgumentParser(prog="python -m nbprov.clouds.local", description=__doc__)
    parser.add_argument("verb", choices=("status", "stop"))
    parser.add_argument("--dir", type=Path, default=state_dir(), help="the state directory")
    options = parser.parse_args(arguments)
    client = Client(options.dir)
    try:
        if options.verb == "stop":
            ended = client.call("shutdown", {"end_machines": True}, timeout=ANSWER_SECONDS, start=False)
            print(f"ended {ended} machines and the daemon")
        else:
            print(json.dumps(client.call("describe", timeout=ANSWER_SECONDS, start=False), indent=2))
    except Unreachable:
        print(f"no daemon runs for {options.dir}")
    except Refusal as refusal:
        print(refusal, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
