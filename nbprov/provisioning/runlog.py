"""The provision log of a run: a text file that can be followed while it happens and read afterwards."""

from __future__ import annotations

from pathlib import Path

from nbprov.model.clock import Clock, iso


class RunLog:
    """Appends one line a state change. It is made before anything is bought, so that following it works at once."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self._clock = clock
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600, exist_ok=True)

    def line(self, text: str) -> None:
        """Add a line, with its instant."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{iso(self._clock.now())}  {text}\n")
