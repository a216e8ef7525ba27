"""Fetch one package of the npm registry by its digest, without those that it names.

A browser test needs a file of it alone; `npm install` would bring some hundred megabytes more.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from check_widgets import INSTALL_SECONDS, CannotCheck, cache, node, npm, npm_environment


@dataclass(frozen=True)
class NpmPackage:
    """A package as it was published.

    Parameters
    ----------
    name, version
        As the registry names it.
    sha512
        The base64 digest of its archive: `npm view NAME@VERSION dist.integrity`.
    """

    name: str
    version: str
    sha512: str

    def folder(self) -> Path:
        """Where its files are; they are fetched the first time.

        Raises
        ------
        CannotCheck
            npm is missing, or the registry does not answer.
        RuntimeError
            It answers with another archive.
        """
        place = cache() / "packages" / f"{self.name.replace('/', '-')}-{self.version}"
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=place.parent) as folder:
                archive = self._fetch(Path(folder))
                # Its digest is known, so nothing in it need be looked at before it is unpacked.
                shutil.unpack_archive(archive, folder, "gztar")
                with contextlib.suppress(OSError):  # another run was faster
                    (Path(folder) / "package").rename(place)
        return place

    def _fetch(self, folder: Path) -> Path:
        command = [*npm(node()), "pack", "--loglevel=error", "--pack-destination", str(folder)]
        try:
            done = subprocess.run(
                [*command, f"{self.name}@{self.version}"],
                capture_output=True,
                text=True,
                timeout=INSTALL_SECONDS,
                check=False,
                cwd=folder,
                env=npm_environment(),
            )
        except subprocess.TimeoutExpired:
            raise CannotCheck(f"the npm registry did not send {self.name} in time") from None
        found = list(folder.glob("*.tgz"))
        if done.returncode != 0 or len(found) != 1:
            raise CannotCheck(f"npm could not fetch {self.name}: {done.stderr.strip()}")
        digest = hashlib.sha512(found[0].read_bytes()).digest()
        if base64.b64encode(digest).decode() != self.sha512:
            raise RuntimeError(f"{self.name} {self.version} is not the archive that is known here")
        return found[0]
