"""rsync for large files that differ, of which it sends only what changed.

Everything else goes over the open connection, which is as fast. rsync logs in once more by itself,
with the same one key and the same one host key. What it brought is digested afterwards like all
else.
"""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from nbprov.model.clock import Seconds
from nbprov.on_machine.sync_protocol import PART
from nbprov.on_machine.transfer_limit import TransferLimit, TransferWatch
from nbprov.remote.bounded_transfer import TransferTooSlow, bounded_transfer

from .folder_channel import LIST_SECONDS

log = logging.getLogger("nbprov.machines")

LEAST_BYTES = 4_000_000
"""The smallest file for rsync: for others its own login takes longer than sending the file."""
LEAST_TO_PUSH = (3, 4, 1)
"""The oldest version to push with.

What a hostile machine answers can overflow older ones, and would run its code here (CVE-2024-12084,
CVE-2024-12085). A pull never uses rsync: its receiver has had too many faults (CVE-2024-12086 to
12088), and does not bound what comes.
"""
VERSION_SECONDS: Seconds = 5.0
END_SECONDS: Seconds = 5.0
"""How long rsync may take to put its unfinished part aside once it was told to end."""
HOST = "nbprov"
"""What the machine is called on rsync's command line; ssh is told the address by an option."""

_VERSION = re.compile(r"rsync\s+version\s+v?(\d+)\.(\d+)\.(\d+)")
_SENT = re.compile(rb"\s*([\d,.]+)\s+\d+%")


def rsync_here() -> str:
    """Return the rsync to push with, empty where there is none that is good enough.

    It blocks for some milliseconds.
    """
    found = shutil.which("rsync") if sys.platform != "win32" else None
    if found is None:
        return ""
    try:
        told = subprocess.run(
            [found, "--version"],
            capture_output=True,
            text=True,
            timeout=VERSION_SECONDS,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found if good_enough(told) else ""


def good_enough(told: str) -> bool:
    """Return whether a version may be used.

    Examples
    --------
    >>> good_enough("rsync  version 3.4.1  protocol version 32")
    True
    >>> good_enough("rsync  version 3.2.7  protocol version 31")
    False
    """
    match = _VERSION.match(told)
    return match is not None and tuple(map(int, match.groups())) >= LEAST_TO_PUSH


def rsync_words(rsync: str, ssh: Sequence[str], here: str, there: str) -> list[str]:
    """Return the command, which reads NUL-separated names of files from its stdin.

    No shell reads any of it, on either side.

    Parameters
    ----------
    ssh
        The words of an ssh command and its options, without a host.
    here, there
        Absolute paths of the folders.

    Examples
    --------
    >>> words = rsync_words("rsync", ["ssh", "-p", "2222"], "/x y", "/data")
    >>> words[-4:]
    ["--rsh='ssh' '-p' '2222'", '--', '/x y/', 'nbprov:/data/']
    """
    far, near = f"{HOST}:{there.rstrip('/')}/", here.rstrip("/") + "/"
    return [
        rsync,
        "--files-from=-",
        "--from0",
        "--protect-args",
        "--ignore-times",
        "--times",
        "--executability",
        "--no-links",
        "--no-devices",
        "--no-specials",
        f"--partial-dir={PART}rsync",
        "--timeout=60",
        "--no-human-readable",
        "--info=progress2",
        "--rsh=" + " ".join(_quoted(word) for word in ssh),
        "--",
        near,
        far,
    ]


def _quoted(word: str) -> str:
    # rsync splits this itself: at blanks, with these quotes, and a doubled quote standing for one.
    return "'" + word.replace("'", "''") + "'"


async def carry(
    words: Sequence[str],
    names: Sequence[str],
    progress: Callable[[int], None],
    limit: TransferLimit,
) -> bool:
    """Run rsync and return whether it succeeded. A cancellation ends it and its ssh.

    It is ended, too, where it is slower than `limit` allows, or takes longer.
    """
    try:
        async with bounded_transfer(limit) as watch:
            # Both sides read a file before they send what differs.
            with watch.moving(LIST_SECONDS):
                return await _run(words, names, progress, watch)
    except TransferTooSlow as slow:
        log.info("rsync %s", slow)
        return False


async def _run(
    words: Sequence[str],
    names: Sequence[str],
    progress: Callable[[int], None],
    watch: TransferWatch,
) -> bool:
    process = await asyncio.create_subprocess_exec(
        *words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    sent = 0
    try:
        with suppress(ConnectionError):
            process.stdin.write(
                b"".join(name.encode("utf-8", "surrogateescape") + b"\0" for name in names)
            )
            await process.stdin.drain()
            process.stdin.close()
        while data := await process.stdout.read(4096):
            said = _SENT.match(data.rsplit(b"\r", 1)[-1])
            if said is not None:
                before, sent = sent, int(re.sub(rb"\D", b"", said[1]))
                watch.moved(sent - before)
                progress(sent)
        return await process.wait() == 0
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.terminate()
            try:
                async with asyncio.timeout(END_SECONDS):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
