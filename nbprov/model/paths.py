"""Where nbprov keeps its files. Nothing is created here."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

HOME_VARIABLE = "NBPROV_HOME"


def home(environ: Mapping[str, str] | None = None) -> Path:
    """The folder of the ledger, the keys, the logs, the caches and the `local` cloud.

    It is `NBPROV_HOME` if that is set, else the platform's folder for application data.
    """
    env = os.environ if environ is None else environ
    if env.get(HOME_VARIABLE):
        return Path(env[HOME_VARIABLE]).expanduser().absolute()
    user = Path.home()
    # A plain text: a type checker for one platform would call the other branches unreachable.
    platform = str(sys.platform)
    if platform == "win32":
        return Path(env.get("LOCALAPPDATA", str(user / "AppData" / "Local"))) / "nbprov"
    if platform == "darwin":
        return user / "Library" / "Application Support" / "nbprov"
    return Path(env.get("XDG_DATA_HOME") or user / ".local" / "share") / "nbprov"
