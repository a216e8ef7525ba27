"""The ways to run the archive: `python3 ARCHIVE MODE DIR`.

serve DIR        start the agent as a daemon, with its socket and files in DIR; 0 if it runs already
keep DIR         run the agent here, or wait until the one that runs has ended: for loops of sh
connect DIR      join stdin and stdout to the agent's socket: what runs on the one ssh channel
kernel-host DIR  own one ipykernel; needs an interpreter that has ipykernel
kernel-install DIR
                 put ipykernel into the virtual environment DIR, whose interpreter runs this
--version        print the agent's version

Each mode imports what it needs alone, since the start of `connect` delays every first cell.
"""

from __future__ import annotations

import os
import sys

from . import VERSION

MODES = ("keep", "serve", "connect", "kernel-host", "kernel-install")


def main(arguments: list[str]) -> int:
    """Run one mode and return the exit code."""
    if arguments == ["--version"]:
        print(VERSION)
        return 0
    if len(arguments) != 2 or arguments[0] not in MODES:
        program = os.path.basename(sys.argv[0])
        print(f"usage: {program} {'|'.join(MODES)} DIR", file=sys.stderr)
        return 2
    mode, folder = arguments[0], os.path.abspath(os.path.expanduser(arguments[1]))
    if mode == "connect":
        from .bridge import connect

        return connect(folder)
    if mode == "serve":
        from .daemon import serve

        return serve(folder, os.path.abspath(sys.argv[0]))
    if mode == "keep":
        from .daemon import keep

        return keep(folder, os.path.abspath(sys.argv[0]))
    if mode == "kernel-install":
        from .kernels.package_install import main as install

        return install(folder)
    from .kernels.host import run

    return run(folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
