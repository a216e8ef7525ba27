"""The provision log of a run: a text file that can be followed while it happens and read afterwards."""

from __future__ import annotations

import logging
from pathlib import Path

from nbprov.model.clock import Clock, iso

log = logging.getLogger("nbprov.provisioning")


class RunLog:
    """Appends one line a state change. It is made before anything is bought, so that following it works at once.

    A log that cannot be written (a full disk, a folder that was removed) is warned of and never stops a run: the ledger is what counts.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self._clock = clock
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.touch(mode=0o600, exist_ok=True)
        except OSError as error:
            log.warning("the provision log %s cannot be made: %s", path, error)

    def line(self, text: str) -> None:
        """Add a line, with its instant."""
        try:
            with self.path.open("a", encoding="utf-8", errors="replace") as file:
                file.write(f"{iso(self._clock.now())}  {text}\n")
        except OSError as error:
            log.warning("the provision log %s cannot be written: %s", self.path, error)
