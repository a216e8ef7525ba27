"""A double as a process of its own: started, told and asked over its control routes, ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar, Self

import requests


class DoubleProcess:
    """Starts a double that prints `READY URL`, and speaks to its routes under `/_double/`.

    A subclass names its script, and in `env` what reaches it.
    """

    script: ClassVar[Path]

    def __init__(self, *options: str, machines: Path | None = None) -> None:
        self._options = [*options, *(["--machines", str(machines)] if machines else [])]
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    def start(self) -> Self:
        """Start it and wait until it serves."""
        command = [sys.executable, str(self.script), "--port", "0", *self._options]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ}
        )
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line.startswith("READY "), f"the double did not start: {line!r}"
        self.url = line.split()[1]
        return self

    def tell(self, what: str, **body: Any) -> Any:
        """POST to a control route."""
        answer = requests.post(f"{self.url}/_double/{what}", json=body, timeout=60)
        answer.raise_for_status()
        return answer.json()

    def told(self, what: str) -> Any:
        """GET a control route."""
        return requests.get(f"{self.url}/_double/{what}", timeout=10).json()

    def add_fault(self, call: str, do: str, **more: Any) -> None:
        """Script a fault of the next such call."""
        self.tell("faults", call=call, do=do, **more)

    def asked(self, call: str) -> list[dict[str, Any]]:
        """Return the requests of such calls."""
        return [one for one in self.told("calls") if one["call"] == call]

    def close(self, *, check: bool = True) -> None:
        """End the double, and check that nothing is left of it and no request broke the cloud's
        model.
        """
        if self._process is None:
            return
        process, self._process = self._process, None
        try:
            problems = self.told("problems") if check else []
        finally:
            process.terminate()
            process.wait(60)
            if process.stdout:
                process.stdout.close()
        assert problems == [], problems

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: object, *_: object) -> None:
        self.close(check=kind is None)
