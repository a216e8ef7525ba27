"""A double as a process of its own: started, told and asked over its control routes, ended."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

import psutil
import requests
from addresses import claim

from nbprov.clouds.contract.double_machines import SHORT, write_market

FORKS = hasattr(os, "fork")
"""Without forks every double reads its own imports and models."""
END_SECONDS = 60.0
PARENT = Path(__file__).parent / "double_parent.py"
KEPT = ("PATH", "HOME", "LANG", "LC_", "TMPDIR", "PYTHON", "NBPROV_TEST_", "LD_LIBRARY_PATH")
"""The beginnings of variables that the parent of doubles has: its own environment stays, so it must
name no folder of a test. Each double gets that of the test that starts it."""


class DoubleParent:
    """The process that forks this process's doubles; begun with the first, ended with `end`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def begin(
        self, module: str, arguments: list[str], environment: Mapping[str, str] | None = None
    ) -> tuple[int, str]:
        """Begin a double; return its pid and the first line that it said.

        It gets the environment of this process unless another is given.
        """
        with self._lock:
            process = self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            given = {**(os.environ if environment is None else environment)}
            asked = {"module": module, "arguments": arguments, "environment": given}
            process.stdin.write(json.dumps(asked) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            assert answer, "the parent of doubles ended: its reason stands in the captured stderr"
            told = json.loads(answer)
            return told["pid"], told["said"]

    def end(self) -> None:
        """End it, and with it all its doubles that still run."""
        with self._lock:
            process, self._process = self._process, None
            if process is None:
                return
            with process:
                children = psutil.Process(process.pid).children()
                assert process.stdin is not None
                process.stdin.close()
            psutil.wait_procs(children, timeout=END_SECONDS)

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, str(PARENT)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={name: v for name, v in os.environ.items() if name.startswith(KEPT)},
            )
        return self._process


PARENT_OF_DOUBLES = DoubleParent()
atexit.register(PARENT_OF_DOUBLES.end)


class DoubleProcess:
    """Starts a double that prints `READY URL`, and speaks to its routes under `/_double/`.

    A subclass names its module, which has `prepare()` and `main(arguments)`, and in `env` what
    reaches it.
    """

    script: ClassVar[Path]

    def __init__(self, *options: str, machines: Path | None = None) -> None:
        self._options = [*options, *(["--machines", str(machines)] if machines else [])]
        self._machines = machines
        self._process: psutil.Process | None = None
        self.url = ""

    def start(self) -> Self:
        """Start it and wait until it serves."""
        process, self.url = self._begun()
        if claim(urlsplit(self.url).port or 0):
            self._process = process
            return self
        try:
            return self.start()
        finally:
            _end(process)

    def _begun(self) -> tuple[psutil.Process, str]:
        arguments = ["--port", "0", *self._options]
        if FORKS:
            if self._machines and len(os.fsencode(self._machines)) <= SHORT:
                # Else the double would start a new Python for the daemon of its machines.
                import local_daemon

                self._machines.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_market(self._machines)
                assert local_daemon.ForkedDaemon(self._machines).poll() == 0
            pid, said = PARENT_OF_DOUBLES.begin(self.script.stem, arguments)
            return psutil.Process(pid), _address(said)
        command = [sys.executable, str(self.script), *arguments]
        process = psutil.Popen(command, stdout=subprocess.PIPE, text=True)
        return process, _address(process.stdout.readline())

    def tell(self, what: str, **body: Any) -> Any:
        """POST to a control route."""
        answer = requests.post(f"{self.url}/_double/{what}", json=body, timeout=60)
        answer.raise_for_status()
        return answer.json()

    def told(self, what: str) -> Any:
        """GET a control route."""
        answer = requests.get(f"{self.url}/_double/{what}", timeout=60)
        answer.raise_for_status()
        return answer.json()

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
            _end(process)
        assert problems == [], problems

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: object, *_: object) -> None:
        self.close(check=kind is None)


def _address(said: str) -> str:
    assert said.startswith("READY "), f"the double did not start: {said!r}"
    return said.split()[1]


def _end(process: psutil.Process) -> None:
    try:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
        process.wait(END_SECONDS)
    except psutil.TimeoutExpired:
        process.kill()
        raise
