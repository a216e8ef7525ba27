"""Puts a cluster's files in place on one of its machines.

It reads one JSON object from stdin: `files` (texts by their names below `~/.nbprov`), `config` (the
one of them that ssh includes), `login` (a line that lets the cluster's other machines log in; empty
for none) and `mark` (how such lines end). It prints the absolute path of `~/.nbprov`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import sys
import tempfile

FOLDER = "@@folder@@"
"""Stands in a file's text for the absolute path of `~/.nbprov`, as an ssh config takes it."""


NOT_REPLACED = (errno.EBUSY, errno.EXDEV, errno.EPERM, errno.EACCES)
"""Errors of a file that may be written but not replaced.

It is a mount of its own, or lies in a folder of another user."""


def put(path: str, text: str, like: os.stat_result | None = None) -> None:
    """Replace a file in one step, which nobody else can read at any moment.

    With `like` it gets the mode and owner of that file.
    """
    descriptor, draft = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".nbprov-")
    try:
        with os.fdopen(descriptor, "w") as file:
            if like is not None and sys.platform != "win32":
                os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
                if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(descriptor, like.st_uid, like.st_gid)
                copy_labels(path, draft)
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise


def copy_labels(path: str, draft: str) -> None:
    """Give a file the SELinux label of another one, without which sshd may not read it."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setxattr(draft, "security.selinux", os.getxattr(path, "security.selinux"))


def append(path: str, line: str) -> None:
    """Add a line at a file's end; if that fails the file stays as it was."""
    with open(path, "r+b", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        data = (line + "\n").encode()
        if size:
            file.seek(size - 1)
            data = (b"" if file.read(1) == b"\n" else b"\n") + data
        try:
            if file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(file.fileno())
        except OSError:
            file.truncate(size)
            raise


def text_of(path: str) -> str:
    """Return the text of a file; empty if there is none."""
    try:
        with open(path) as file:
            return file.read()
    except FileNotFoundError:
        return ""


def let_in(login: str, mark: str) -> None:
    """Let the holder of the cluster's inner key log in, and remove earlier lines of ours.

    Whoever may log in now may do so at any moment of this, and after it has failed.
    """
    # The file itself is replaced: a link to it stays one.
    path = os.path.realpath(
        os.environ.get("NBPROV_AUTHORIZED_KEYS") or os.path.expanduser("~/.ssh/authorized_keys")
    )
    before = text_of(path).splitlines()
    kept = [line for line in before if not line.endswith(" " + mark)]
    if [*kept, login] == before:
        return
    try:
        try:
            put(
                path,
                "".join(line + "\n" for line in [*kept, login]),
                os.stat(path) if os.path.exists(path) else None,
            )
        except OSError as error:
            if error.errno not in NOT_REPLACED or not os.path.exists(path):
                raise
            if login not in before:
                append(path, login)
    except OSError as error:
        raise SystemExit(
            f"{path} is as it was, since a new one could not be written: {error.strerror}"
        ) from None


def include(config: str) -> None:
    """Make the machine's ssh read a config of ours before its user's own."""
    path, line = os.path.expanduser("~/.ssh/config"), f'Include "{config}"\n'
    before = text_of(path)
    if line not in before:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        put(path, line + before)


def main() -> None:
    """Do what stdin asks for."""
    told = json.load(sys.stdin)
    os.umask(0o077)
    folder = os.path.expanduser("~/.nbprov")
    for name, text in told["files"].items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        put(path, text.replace(FOLDER, folder.replace("%", "%%")))
    if told["login"]:
        let_in(told["login"], told["mark"])
        include(os.path.join(folder, told["config"]))
    print(folder)


if __name__ == "__main__":
    main()
