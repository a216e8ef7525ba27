"""Fetch one wheel of PyPI by its digest and unpack it, without what it depends on.

A browser test needs another release of a viewer beside the one that is installed.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from check_widgets import INSTALL_SECONDS, CannotCheck, cache


@dataclass(frozen=True)
class PypiWheel:
    """A wheel as it was published.

    Parameters
    ----------
    name, version
        As the index names it.
    sha256
        The hexadecimal digest of the wheel.
    platform
        The kind of computer that the wheel is for, as `sysconfig` names it; empty for all.
    """

    name: str
    version: str
    sha256: str
    platform: str = ""

    def folder(self) -> Path:
        """Where its packages are, as for `sys.path`; they are fetched the first time.

        Raises
        ------
        CannotCheck
            The index does not answer, or the wheel is not for this computer.
        RuntimeError
            It answers with another wheel.
        """
        if self.platform not in ("", sysconfig.get_platform()):
            raise CannotCheck(f"the wheel of {self.name} that is known here is for {self.platform}")
        place = cache() / "wheels" / f"{self.name}-{self.version}"
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=place.parent) as folder:
                unpacked = Path(folder) / "unpacked"
                with zipfile.ZipFile(self._fetch(Path(folder))) as wheel:
                    wheel.extractall(unpacked)
                with contextlib.suppress(OSError):  # another run was faster
                    unpacked.rename(place)
        return place

    def _fetch(self, folder: Path) -> Path:
        wanted = folder / "wanted.txt"
        wanted.write_text(f"{self.name}=={self.version} --hash=sha256:{self.sha256}\n")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--only-binary=:all:", "--require-hashes", "-r", str(wanted), "-d", str(folder)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise CannotCheck(f"the package index did not send {self.name} in time") from None
        if "DO NOT MATCH THE HASHES" in done.stderr:
            raise RuntimeError(f"{self.name} {self.version} is not the wheel that is known here")
        found = list(folder.glob("*.whl"))
        if done.returncode != 0 or len(found) != 1:
            raise CannotCheck(
                f"pip could not fetch {self.name} {self.version}: {done.stderr.strip()}"
            )
        return found[0]
