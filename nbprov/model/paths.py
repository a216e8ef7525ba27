"""Where nbprov keeps its files, and how they are made: for this user alone, whatever the umask.

The home is looked at as sshd's StrictModes does. Whoever may write into a folder may put another
one in the place of what is in it. So a home is as safe as the least safe folder above it, and as
what somebody else left in it under a name that nbprov reads. A home may hold other things too, as
a project's folder does: those are neither looked at nor changed.
"""

from __future__ import annotations

import errno
import functools
import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from .errors import NbprovError

HOME_VARIABLE = "NBPROV_HOME"
TRUSTED_VARIABLE = "NBPROV_TRUSTED_FOLDER"
"""Names a folder above the home that is taken as it is, and so are all above it."""

PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
MOST_LINKS = 40
"""So many links on the way to a folder are a circle, as for the kernel."""
OURS = frozenset(
    (
        *("owner", "keys", "ssh", "logs", "jobs", "synced", "clouds", "local"),
        *("catalogs", "overrides", "catalog.toml", "cache"),
    )
)
"""What nbprov keeps in its home beside the ledger; a test compares it with what a session makes."""
LEDGER = "ledger.sqlite3"
"""What the names of the ledger and of its journals begin with."""
NOT_ENTERED = (("local", "i"), ("logs",), ("jobs",))
"""Folders whose content decides nothing: what machines of `local` made, and texts for people."""

# A type checker for Windows does not know it, and nothing calls it there.
_user_id: Callable[[], int] = getattr(os, "geteuid", lambda: 0)
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_CANNOT = (errno.EPERM, errno.EACCES, errno.EROFS, errno.ENOTSUP, errno.ENOSYS)
"""A file system without modes, one that is read only, or one whose server lets nobody set them."""
_closed: set[Path] = set()


class UnsafeHome(NbprovError):
    """Others may write into nbprov's home: keys, prices and the ledger there may be theirs."""

    code = "home.unsafe"


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
    found = home_path(environ)
    check_safe(found)
    return found


def home_path(environ: Mapping[str, str] | None = None) -> Path:
    """Where `home` is, whoever may write there.

    Raises
    ------
    NoHome
        If this user has no home folder, and `NBPROV_HOME` is not set.
    """
    env = os.environ if environ is None else environ
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
        if each != Path(each.anchor):  # without it nothing on this computer would work
            close_to_others(each)
    return folder


def open_private(path: str, flags: int) -> int:
    """An `opener` of `open` that makes files of the home for this user alone."""
    is_ours = False
    with suppress(NoHome):
        is_ours = Path(path).is_relative_to(home_path())
    descriptor = os.open(path, flags, PRIVATE_FILE if is_ours else 0o666)
    if is_ours and os.name == "posix" and os.fstat(descriptor).st_mode & _OTHERS:
        _set_mode(descriptor, PRIVATE_FILE)
    return descriptor


def check_safe(folder: Path) -> None:
    """Refuse a home that others may write or replace, or that holds what is not this user's.

    What nbprov keeps in it is looked at once in a process, and closed to others.

    Raises
    ------
    UnsafeHome
        With the command that mends it.
    """
    if os.name != "posix":
        return  # its folder for application data is the user's
    trusted = _trusted_folders()
    for path, found, is_last in _way(folder):
        if path in trusted and not is_last:
            continue
        if stat.S_ISLNK(found.st_mode):
            _check_owner(path, found, "what it leads to")
        elif is_last:
            _check_home(path, found)
        else:
            _check_parent(path, found, folder)
    if folder not in _closed and folder.is_dir():
        _close_tree(folder)
        _closed.add(folder)


def close_to_others(path: Path) -> None:
    """Take the rights of all other users away from a file or folder of ours."""
    if os.name == "posix":
        found = path.stat()
        if found.st_mode & _OTHERS and found.st_uid == _user_id():
            _set_mode(path, stat.S_IMODE(found.st_mode) & ~_OTHERS)


def _set_mode(file: Path | int, mode: int) -> None:
    """Set a mode, if the file system can: where it cannot, nobody gains by an error."""
    try:
        os.chmod(file, mode)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise


def _trusted_folders() -> frozenset[Path]:
    """Return the folders above the home that the user vouches for.

    Volumes of Kubernetes and of rented containers belong to a group without a name, or let
    everybody write, although nobody else is there. Nothing on this computer tells that.
    """
    given = os.environ.get(TRUSTED_VARIABLE)
    if not given:
        return frozenset()
    named = Path(given).expanduser().absolute()
    ways = (named, named.resolve())
    return frozenset(folder for way in ways for folder in (way, *way.parents))


def _way(folder: Path) -> Iterator[tuple[Path, os.stat_result, bool]]:
    """Yield each folder from the root to this one, with the links on the way.

    It ends where one is missing: what is made there is ours.
    """
    left = list(reversed(folder.absolute().parts[1:]))
    here, links = Path("/"), 0
    with suppress(OSError):  # whoever uses it says what is wrong
        yield here, here.lstat(), not left
        while left:
            name = left.pop()
            if name == "..":
                here = here.parent
                continue
            found = (here / name).lstat()
            if stat.S_ISLNK(found.st_mode):
                links += 1
                if links > MOST_LINKS:
                    return
                yield here / name, found, False
                target = Path(os.readlink(here / name))
                here = Path("/") if target.is_absolute() else here
                left += reversed([part for part in target.parts if part != "/"])
                continue
            here = here / name
            yield here, found, not left


def _check_home(path: Path, found: os.stat_result) -> None:
    if found.st_uid != _user_id():
        raise UnsafeHome(
            f"{path} belongs to another user (id {found.st_uid})",
            hint=f"use a folder of your own: set {HOME_VARIABLE}, or, if it is for nbprov alone,"
            f" run sudo chown {_user_id()} '{path}'",
        )
    if _others_may_write(found):
        raise UnsafeHome(
            f"others may write into {path}, where the keys and the ledger are",
            hint=f"look whether all in it is yours, then run: chmod go-w '{path}'",
        )


def _check_parent(path: Path, found: os.stat_result, home: Path) -> None:
    _check_owner(path, found, str(home))
    # In a sticky folder, such as /tmp, nobody may rename what belongs to others.
    if _others_may_write(found) and not found.st_mode & stat.S_ISVTX:
        sudo = "" if found.st_uid == _user_id() else "sudo "
        raise UnsafeHome(
            f"others may write into {path} and put another folder in the place of {home}",
            hint=f"run: {sudo}chmod go-w '{path}', or set {HOME_VARIABLE} to a folder elsewhere,"
            f" {_or_trust(path)}",
        )


def _others_may_write(found: os.stat_result) -> bool:
    return bool(found.st_mode & stat.S_IWOTH) or (
        bool(found.st_mode & stat.S_IWGRP) and not _is_own_group(found.st_gid)
    )


def _or_trust(path: Path) -> str:
    return f"or {TRUSTED_VARIABLE}={path} if you trust all who may write there"


def _check_owner(path: Path, found: os.stat_result, what: str) -> None:
    if found.st_uid not in {0, _user_id(), _unmapped_root()}:
        raise UnsafeHome(
            f"{path} belongs to another user (id {found.st_uid}), who may replace {what}",
            hint=f"set {HOME_VARIABLE} to a folder that lies in yours, {_or_trust(path)}",
        )


@functools.cache
def _unmapped_root() -> int:
    """Return the id that root's files have in a user namespace without root, else that of root.

    In a rootless container they belong to an id that stands for all that are not mapped.
    """
    with suppress(OSError, ValueError):
        rows = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
        if not any(int(outside) == 0 for _, outside, _ in rows):
            return int(Path("/proc/sys/kernel/overflowuid").read_text())
    return 0


@functools.cache
def _is_own_group(group: int) -> bool:
    """Whether a group holds nobody but this user, as the private groups of Linux do, or root.

    Members of a group of a directory service cannot be listed. So a group of another name than the
    user's counts only if both are in this computer's own files.
    """
    if group == 0:
        return True
    is_own = False  # Windows has no such groups
    if sys.platform != "win32":
        import grp
        import pwd

        try:
            named, me = grp.getgrgid(group), pwd.getpwuid(_user_id())
        except KeyError:
            return False
        others = {*named.gr_mem, *(p.pw_name for p in pwd.getpwall() if p.pw_gid == group)}
        is_own = others <= {me.pw_name, "root"} and (
            named.gr_name == me.pw_name
            or (_is_local("/etc/group", named.gr_name) and _is_local("/etc/passwd", me.pw_name))
        )
    return is_own


def _is_local(file: str, name: str) -> bool:
    try:
        lines = Path(file).read_text(errors="replace").splitlines()
    except OSError:
        return False
    return any(line.startswith(f"{name}:") for line in lines)


def _close_tree(home: Path) -> None:
    """Close what nbprov keeps in a home, and refuse it where some of that is not this user's.

    What lies beside it is not ours: a home may be named that holds a whole project, or all of `~`.
    """
    strange = list(_closing(home, ()))
    if strange:
        more = f", and {len(strange) - 1:,} more" if len(strange) > 1 else ""
        ours = " ".join(sorted({f"'{home / path.relative_to(home).parts[0]}'" for path in strange}))
        raise UnsafeHome(
            f"{strange[0]}{more} in nbprov's home belongs to another user",
            hint=f"remove what you do not know, then run: sudo chown -Rh {_user_id()} {ours}"
            f" && chmod -R go-w {ours}",
        )


def _closing(folder: Path, names: tuple[str, ...]) -> Iterator[Path]:
    """Close what is in a folder of the home, and yield what is somebody else's."""
    if names in NOT_ENTERED:
        return
    trusted = {0, _user_id(), _unmapped_root()}
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return  # it went, or whoever uses it says what is wrong
    for entry in entries:
        if not names and not (entry.name in OURS or entry.name.startswith(LEDGER)):
            continue
        path = Path(entry.path)
        with suppress(FileNotFoundError):  # another kernel's, and gone by now
            found = path.lstat()
            if found.st_uid not in trusted:
                yield path
                continue
            if stat.S_ISLNK(found.st_mode):
                continue
            close_to_others(path)
            if stat.S_ISDIR(found.st_mode):
                yield from _closing(path, (*names, entry.name))
