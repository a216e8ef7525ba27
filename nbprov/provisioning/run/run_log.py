"""The provision log of a run: a text file to follow meanwhile and to read afterwards."""

from __future__ import annotations

import logging
from pathlib import Path

from nbprov.model.clock import Clock, iso

log = logging.getLogger("nbprov.provisioning")


class RunLog:
    """A text file with one line for each change of state.

    It is created before anything is bought, so that it can be followed at once. A log that cannot
    be written (a full disk, a removed folder) causes a warning and never stops a run, since the
    ledger has everything that counts.
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
        """Append a line with the current time."""
        try:
            with self.path.open("a", encoding="utf-8", errors="replace") as file:
                file.write(f"{iso(self._clock.now())}  {text}\n")
        except OSError as error:
            log.warning("the provision log %s cannot be written: %s", self.path, error)
