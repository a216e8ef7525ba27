"""The provision log of a run: a text file to follow meanwhile and to read afterwards."""

from __future__ import annotations

import logging
from pathlib import Path

from nbprov.model.clock import Clock, iso
from nbprov.model.paths import make_folder, open_private
from nbprov.model.text.plain import printable
from nbprov.runtime.fault_log import log_fault

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
            make_folder(path.parent, path.parent)
            path.touch(mode=0o600, exist_ok=True)
        except OSError as error:
            log_fault(log, error, "the provision log %s cannot be made", path)

    def line(self, text: str) -> None:
        """Append a line with the current time."""
        try:
            with open(
                self.path, "a", encoding="utf-8", errors="replace", opener=open_private
            ) as file:
                file.write(f"{iso(self._clock.now())}  {printable(text)}\n")
        except OSError as error:
            log_fault(log, error, "the provision log %s cannot be written", self.path)
