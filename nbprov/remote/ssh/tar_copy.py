"""Copy files to a machine as a tar stream over one ssh channel.

A thread makes the stream, and the machine's tar unpacks it.
"""

from __future__ import annotations

import asyncio
import io
import os
import shlex
import stat
import tarfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, cast

from nbprov.model.clock import Seconds
from nbprov.on_machine.transfer_limit import TransferWatch
from nbprov.remote.errors import CopyError
from nbprov.remote.sync.gitignore import IgnoreRules

if TYPE_CHECKING:
    import asyncssh

    Channel = Callable[[str], AbstractAsyncContextManager[asyncssh.SSHClientProcess[bytes]]]

CHUNK = 256 * 1024
"""Bytes handed over at once.

This is large enough to hide the hop between thread and loop, and small enough for live progress.
"""
CHUNKS_AHEAD = 8
WRITTEN = 64 * 1024
"""Bytes written at once, so that those of a slow line are counted as they go."""
UNPACK_SECONDS: Seconds = 600.0
"""How long the machine may take for what it has not unpacked once all was sent."""


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """What would be copied, before anything is sent.

    Attributes
    ----------
    entries
        `(name on the machine, local path)`; folders too, so that empty ones arrive.
    bytes
        Of the files' contents.
    """

    source: Path
    is_folder: bool
    entries: tuple[tuple[str, Path], ...]
    bytes: int


def plan_copy(source: Path) -> CopyPlan:
    """List what would be copied of a file or a folder.

    Symbolic links that stay inside the folder are copied as links. Those that lead out of it are
    skipped, as nobody asked for what they point to.
    """
    source = source.expanduser()
    if not source.exists():
        raise CopyError(
            f"{source} does not exist", hint="paths are relative to the notebook's folder"
        )
    root = source.resolve()
    if not root.is_dir():
        if not root.is_file():
            raise CopyError(f"{source} is neither a file nor a folder")
        return CopyPlan(source, False, ((source.name, root),), root.stat().st_size)
    entries, total = [], 0
    for name, path in _walk(root, IgnoreRules.of(root)):
        size = _size(root, path)
        if size is not None:
            entries.append((name, path))
            total += size
    return CopyPlan(source, True, tuple(entries), total)


def _walk(root: Path, rules: IgnoreRules) -> Iterator[tuple[str, Path]]:
    for folder, folders, files in os.walk(root):
        here = Path(folder)
        prefix = "" if here == root else here.relative_to(root).as_posix() + "/"
        links = [name for name in folders if (here / name).is_symlink()]
        folders[:] = sorted(
            name
            for name in folders
            if name not in links and not rules.ignores(prefix + name, is_folder=True)
        )
        yield from ((prefix + name, here / name) for name in folders)
        yield from (
            (prefix + name, here / name)
            for name in sorted(files + links)
            if not rules.ignores(prefix + name, is_folder=False)
        )


def _size(root: Path, path: Path) -> int | None:
    """Return a file's bytes, 0 for folders and links inside `root`, None for what is not copied."""
    try:
        info = path.lstat()
    except OSError:
        return None
    if stat.S_ISLNK(info.st_mode):
        destination = os.readlink(path)
        inside = not os.path.isabs(destination) and (
            path.parent / destination
        ).resolve().is_relative_to(root)
        return 0 if inside else None
    if stat.S_ISREG(info.st_mode):
        return info.st_size if os.access(path, os.R_OK) else None
    return 0 if stat.S_ISDIR(info.st_mode) else None


def remote_path(target: str) -> str:
    """Return a path on the machine as a shell word.

    Examples
    --------
    >>> remote_path("~/sky_workdir"), remote_path("/data set"), remote_path("out")
    ('"$HOME"/sky_workdir', "'/data set'", '"$HOME"/out')
    """
    if "\0" in target or "\n" in target or ".." in PurePosixPath(target).parts:
        raise CopyError(
            f"{target!r} is not a place to copy to",
            hint="give an absolute path or one below ~, without ..",
        )
    if target.startswith("~") and not (target == "~" or target.startswith("~/")):
        raise CopyError(
            f"{target!r} names another user's home", hint="give an absolute path or one below ~"
        )
    if target.startswith("/"):
        return shlex.quote(target)
    below = target.removeprefix("~").strip("/")
    return '"$HOME"' + (f"/{shlex.quote(below)}" if below not in ("", ".") else "")


async def send(
    channel: Channel,
    plan: CopyPlan,
    target: str,
    watch: TransferWatch,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Stream the files of a plan to `target` over one channel.

    Parameters
    ----------
    watch
        Counts what moves; whoever made it ends a copy that is too slow.
    """
    names = dict(plan.entries)
    if plan.is_folder or target.endswith("/"):
        folder = target
    else:
        folder, _, name = target.rpartition("/")
        folder = folder or ("/" if target.startswith("/") else "~")
        if name in ("", "~", "."):
            raise CopyError(
                f"{target!r} is not a file's place", hint="end it in / to copy a file into a folder"
            )
        names = {name: next(iter(names.values()))}
    place = remote_path(folder)
    # A target outside the home (/data) often needs root to make, and then belongs to the user.
    command = (
        f"mkdir -p {place} 2>/dev/null || {{ sudo -n mkdir -p {place} &&"
        f" sudo -n chown $(id -u):$(id -g) {place}; }} || exit 73\n"
        f"exec tar -x -o -f - -C {place}"
    )
    sent = 0
    async with channel(command) as process:
        complaint = asyncio.create_task(process.stderr.read())
        try:
            with watch.moving():
                async for chunk in _tar_chunks(names):
                    for start in range(0, len(chunk), WRITTEN):
                        piece = chunk[start : start + WRITTEN]
                        process.stdin.write(piece)
                        await process.stdin.drain()
                        watch.moved(len(piece))
                    sent += len(chunk)
                    if progress is not None:
                        progress(sent)
            process.stdin.write_eof()
        except (BrokenPipeError, ConnectionError):
            sent = -1
        with watch.moving(UNPACK_SECONDS):
            result = await process.wait(check=False)
        words = (await complaint).decode("utf-8", "replace").strip().splitlines()
    if result.returncode != 0 or sent < 0:
        why = words[-1] if words else f"exit code {result.returncode}"
        raise CopyError(
            f"{plan.source} could not be copied to {target}: {why}",
            hint="see that the place can be written and the disk has room",
        )


async def _tar_chunks(names: dict[str, Path]) -> AsyncIterator[bytes]:
    queue: asyncio.Queue[bytes | BaseException | None] = asyncio.Queue(CHUNKS_AHEAD)
    loop = asyncio.get_running_loop()
    abandoned = False

    class TarWriter(io.RawIOBase):
        def write(self, data: object) -> int:
            if abandoned:
                raise BrokenPipeError
            piece = bytes(cast("bytes", data))
            asyncio.run_coroutine_threadsafe(queue.put(piece), loop).result()
            return len(piece)

    def build() -> None:
        try:
            with tarfile.open(
                fileobj=cast("BinaryIO", TarWriter()),
                mode="w|",
                bufsize=CHUNK,
                format=tarfile.PAX_FORMAT,
            ) as archive:
                for name, path in names.items():
                    _add(archive, name, path)
            ending: BaseException | None = None
        except BaseException as error:  # told to the consumer, which raises it
            ending = error
        if not abandoned:
            asyncio.run_coroutine_threadsafe(queue.put(ending), loop).result()

    builder = loop.run_in_executor(None, build)
    try:
        while (item := await queue.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        abandoned = True
        while not builder.done():
            while not queue.empty():
                queue.get_nowait()
            await asyncio.sleep(0.005)


def _add(archive: tarfile.TarFile, name: str, path: Path) -> None:
    try:
        info = archive.gettarinfo(str(path), arcname=name)
        content = path.open("rb") if info.isreg() else None
    except OSError:
        return  # it was removed, or may not be read any more
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    if info.islnk():
        # A second name of one file is sent as a file, because its first name may have been left
        # out.
        info.type, info.linkname, info.size = tarfile.REGTYPE, "", path.stat().st_size
        content = path.open("rb")
    if content is None:
        archive.addfile(info)
        return
    with content:
        archive.addfile(info, cast("BinaryIO", _Padded(content, info.size)))


class _Padded:
    """A file that is filled up with zeros if it shrinks while it is read.

    The archive's headers must stay in step with its content.
    """

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._left = file, size

    def read(self, count: int = -1) -> bytes:
        wanted = self._left if count < 0 else min(count, self._left)
        data = self._file.read(wanted)
        self._left -= wanted
        return data + b"\0" * (wanted - len(data))
