"""A JupyterLab server for the tests, with its kernels and notebooks."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import nbformat

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "example_notebooks" / "quickstart.ipynb"
TOKEN = "testtoken"
START_SECONDS = 120.0
"""A server answers within two seconds; the rest is for a busy machine."""
END_SECONDS = 60.0
POLL_SECONDS = 0.05
# All other settings are those of JupyterLab.
SETTINGS = {
    # The news notice would cover what the tests look at.
    "apputils-extension/notification.jupyterlab-settings": {
        "fetchNews": "false",
        "checkForUpdates": False,
    },
}


class Lab:
    """A running server with its own folders, whose kernels import this checkout."""

    def __init__(self) -> None:
        # Kept short, because a unix socket's path has room for about 100 bytes.
        self.folder = Path(
            tempfile.mkdtemp(prefix="nbl-", dir="/tmp" if sys.platform != "win32" else None)
        )
        self.notebooks = self.folder / "n"
        self.notebooks.mkdir()
        for name, settings in SETTINGS.items():
            file = self.folder / "config" / "lab" / "user-settings" / "@jupyterlab" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(settings), encoding="utf-8")
        self.log = self.folder / "lab.log"
        self._process = self._start()
        self.url = self._await_url()

    def _environment(self) -> dict[str, str]:
        own = {name: str(self.folder / short) for name, short in _FOLDERS.items()}
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {
            **os.environ,
            **own,
            "PYTHONPATH": os.pathsep.join(paths),
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        }

    def _start(self) -> subprocess.Popen[bytes]:
        command = [
            sys.executable,
            "-m",
            "jupyterlab",
            "--no-browser",
            "--ip=127.0.0.1",
            "--port=0",
            "--allow-root",
        ]
        command += [
            f"--IdentityProvider.token={TOKEN}",
            f"--ServerApp.root_dir={self.notebooks}",
            "--expose-app-in-browser",
            # As it is in this checkout: an editable install has a copy of the day it was made.
            f"--LabApp.extra_labextensions_path={ROOT / 'widgets' / 'labextensions'}",
        ]
        command += [
            "--LabApp.news_url=",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
            # Each page would wait for a Node process that looks up the registry of extensions.
            "--LabApp.extension_manager=readonly",
            # To pack 10 MB for each page costs more than loopback, and the page has to unpack it.
            "--ServerApp.tornado_settings={'compress_response': False}",
        ]
        with self.log.open("wb") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment(),
                cwd=self.folder,
            )

    def _await_url(self) -> str:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            for file in (self.folder / "run").glob("jpserver-*.json"):
                try:
                    found: str = json.loads(file.read_text(encoding="utf-8"))["url"].rstrip("/")
                    self.url = found
                    self.ask("GET", "status")
                except (OSError, ValueError):
                    continue  # written halfway, or not listening yet
                return found
            time.sleep(POLL_SECONDS)
        said = self.log.read_text(encoding="utf-8", errors="replace")
        self.close()
        raise RuntimeError(f"JupyterLab did not start:\n{said}")

    def ask(self, method: str, path: str) -> Any:
        """Send a request to the server's API."""
        request = urllib.request.Request(
            f"{self.url}/api/{path}", method=method, headers={"Authorization": f"token {TOKEN}"}
        )
        with urllib.request.urlopen(request, timeout=END_SECONDS) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def add_kernel(self, name: str, env: Mapping[str, str]) -> None:
        """Add a Python kernel with its own environment, so that each test has its own ledger and
        cloud."""
        spec = {
            "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            "display_name": "Python 3 (ipykernel)",
            "language": "python",
            "env": dict(env),
        }
        folder = self._kernel_folder(name)
        folder.mkdir(parents=True)
        (folder / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")

    def remove_kernel(self, name: str) -> None:
        """Remove a kernel from the list, as on the computer of somebody who received the
        notebook."""
        shutil.rmtree(self._kernel_folder(name), ignore_errors=True)

    def forget_signatures(self) -> None:
        """Trust no notebook that was saved here, as on a computer that received it."""
        with (
            closing(sqlite3.connect(self.folder / "data" / "nbsignatures.db")) as signatures,
            signatures,
        ):
            signatures.execute("DELETE FROM nbsignatures")

    def _kernel_folder(self, name: str) -> Path:
        return self.folder / "data" / "kernels" / name

    def add_notebook(self, name: str, kernel: str, cells: Sequence[str] | Path) -> Path:
        """Put a notebook into the server's folder: a file as it is, or one code cell for each text.

        It uses that kernel.
        """
        if isinstance(cells, Path):
            notebook = nbformat.read(cells, as_version=4)
        else:
            notebook = nbformat.v4.new_notebook(
                cells=[nbformat.v4.new_code_cell(source) for source in cells]
            )
        notebook.metadata["kernelspec"] = {
            "name": kernel,
            "display_name": "Python 3 (ipykernel)",
            "language": "python",
        }
        file = self.notebooks / name
        nbformat.write(notebook, file)
        return file

    def end_kernels(self) -> None:
        """End every session in an orderly way, as closing a notebook with its kernel does."""
        for session in self.ask("GET", "sessions"):
            self.ask("DELETE", f"sessions/{session['id']}")

    def close(self) -> None:
        """Stop the server and delete its folders."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


_FOLDERS = {
    "HOME": "home",
    "USERPROFILE": "home",
    "JUPYTER_CONFIG_DIR": "config",
    "JUPYTER_DATA_DIR": "data",
    "JUPYTER_RUNTIME_DIR": "run",
    "IPYTHONDIR": "ipython",
}
