"""Where nbprov keeps its files, and how they are made: for this user alone, whatever the umask."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from .errors import NbprovError
from .home_safety import HOME_VARIABLE, UnsafeHome, check_safe, close_to_others

PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
OTHERS = stat.S_IRWXG | stat.S_IRWXO

__all__ = [
    "HOME_VARIABLE",
    "PRIVATE_FILE",
    "PRIVATE_FOLDER",
    "NoHome",
    "UnsafeHome",
    "close_to_others",
    "home",
    "make_folder",
    "open_private",
]


class NoHome(NbprovError):
    """This user has no home folder, and no other folder is named."""

    code = "home.missing"


def home(environ: Mapping[str, str] | None = None) -> Path:
    """The folder of the ledger, the keys, the logs, the caches and the `local` cloud.

    It is `NBPROV_HOME` if that is set, else the platform's folder for application data.

    Raises
    ------
    UnsafeHome
        If others may write into it or replace it, or something in it is somebody else's.
    NoHome
        If this user has no home folder, and `NBPROV_HOME` is not set.
    """
    found = _home(os.environ if environ is None else environ)
    check_safe(found)
    return found


def _home(env: Mapping[str, str]) -> Path:
    if env.get(HOME_VARIABLE):
        return Path(env[HOME_VARIABLE]).expanduser().absolute()
    try:
        user = Path.home()
    except RuntimeError as error:
        raise NoHome(
            "this user has no home folder", hint=f"name a folder for nbprov in {HOME_VARIABLE}"
        ) from error
    # A plain text: a type checker for one platform would call the other branches unreachable.
    platform = str(sys.platform)
    if platform == "win32":
        return Path(env.get("LOCALAPPDATA", str(user / "AppData" / "Local"))) / "nbprov"
    if platform == "darwin":
        return user / "Library" / "Application Support" / "nbprov"
    return Path(env.get("XDG_DATA_HOME") or user / ".local" / "share") / "nbprov"


def make_folder(folder: Path, root: Path | None = None) -> Path:
    """Make a folder of ours, for this user alone, with all that is missing above it.

    Folders between `root` and it that others may enter are closed.

    Parameters
    ----------
    root
        The home by default. A folder outside of it is made as any other program would.

    Raises
    ------
    UnsafeHome
        If others may write into `root`.
    OSError
        If it cannot be made.
    """
    if root is None:
        with suppress(NoHome):
            root = home()
    if root is None or not folder.is_relative_to(root):
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    check_safe(root)
    for each in [*reversed(folder.parents), folder]:
        try:
            if not each.is_dir():
                each.mkdir(mode=PRIVATE_FOLDER)
            elif not each.is_relative_to(root) or (each.is_symlink() and each != root):
                continue
        except FileExistsError:
            if not each.is_dir():
                raise
        close_to_others(each)
    return folder


def open_private(path: str, flags: int) -> int:
    """An `opener` of `open` that makes files of the home for this user alone."""
    is_ours = False
    with suppress(NoHome):
        is_ours = Path(path).is_relative_to(_home(os.environ))
    descriptor = os.open(path, flags, PRIVATE_FILE if is_ours else 0o666)
    if is_ours and os.name == "posix" and os.fstat(descriptor).st_mode & OTHERS:
        os.chmod(descriptor, PRIVATE_FILE)
    return descriptor
