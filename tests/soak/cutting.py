"""Cuts the ssh connections of a kernel every few seconds, as a network does.

Without a word to either end's program.
"""

from __future__ import annotations

import contextlib
import random
import threading

import psutil

SSH_SERVERS = ("sshd", "sshd-session", "dropbear")


class Cutter(threading.Thread):
    """Ends the server's side of one of the kernel's ssh connections, again and again.

    Parameters
    ----------
    kernel
        Process id of the kernel.
    gap
        Seconds between two cuts: from the first to the second number, drawn anew each time.
    """

    def __init__(self, kernel: int, gap: tuple[float, float], seed: int) -> None:
        super().__init__(name="cutter", daemon=True)
        self._kernel = psutil.Process(kernel)
        self._gap, self._dice = gap, random.Random(seed)
        self._over = threading.Event()
        self.cuts = 0

    def run(self) -> None:
        while not self._over.wait(self._dice.uniform(*self._gap)):
            with contextlib.suppress(psutil.Error):
                self.cuts += self.cut()

    def cut(self) -> int:
        """Cut one connection; how many were cut (none where none is open)."""
        ours = {
            (c.laddr.ip, c.laddr.port)
            for c in self._kernel.net_connections("tcp")
            if c.status == psutil.CONN_ESTABLISHED
        }
        servers = [
            process
            for process in psutil.process_iter(["name"])
            if process.info["name"] in SSH_SERVERS
            and any((c.raddr and (c.raddr.ip, c.raddr.port) in ours) for c in _connections(process))
        ]
        if not servers:
            return 0
        self._dice.choice(servers).kill()
        return 1

    def end(self) -> None:
        """No more cuts."""
        self._over.set()
        self.join()


def _connections(process: psutil.Process) -> list[psutil._common.pconn]:
    try:
        return [c for c in process.net_connections("tcp") if c.status == psutil.CONN_ESTABLISHED]
    except psutil.Error:
        return []
