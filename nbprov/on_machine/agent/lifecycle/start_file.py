"""The `start` file: how the machine itself, and not a client, starts the agent."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys

AT_BOOT = "NBPROV_AT_BOOT"
"""Set by the `start` file: the machine starts the agent, not a person."""


def write_start(folder: str, umask: int, archive: str) -> None:
    """Leave the command with which the machine itself starts the agent again.

    It starts it as now, and with no variable but PATH. It returns when no agent is left.
    """
    command = (sys.executable or "python3", "-I", "-S", archive, "keep", folder)
    path = shlex.quote(os.environ.get("PATH", os.defpath))
    lines = [
        "#!/bin/sh",
        "# nbprov: runs the agent, or waits until the one that runs has ended.",
        f"umask {umask:03o}; cd",
        f"PATH={path}; export PATH",
        f"{AT_BOOT}=1 exec {' '.join(map(shlex.quote, command))}",
    ]
    fresh, text = os.path.join(folder, "start.new"), "\n".join(lines) + "\n"
    with contextlib.suppress(OSError, ValueError), open(os.path.join(folder, "start")) as known:
        if known.read() == text:
            return
    try:
        with open(fresh, "w") as file:
            file.write(text)
        os.replace(fresh, os.path.join(folder, "start"))
    except OSError as error:
        print(f"nbprov agent: will not come back by itself: {error}", file=sys.stderr)
