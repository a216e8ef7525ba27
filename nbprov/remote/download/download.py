"""Files that a machine downloads by itself: links go there over one ssh channel, and never on a command line or into a log."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from nbprov.model.clock import Seconds
from nbprov.on_machine.download import MARKER
from nbprov.on_machine.loader import program, reading_command
from nbprov.on_machine.sync_protocol import CHUNK, MOST_FRAME, Frames, Trouble, message
from nbprov.remote.ssh.tar_copy import remote_path
from nbprov.remote.sync.errors import MOST_WORDS, shown

from .errors import FetchError

if TYPE_CHECKING:
    import asyncssh

    from nbprov.remote.ssh.connection import Connection

PROGRAM = ("sync_protocol", "sync_files", "download_http", "download_file", "download")
"""The modules that run on the machine, in the order of their imports."""
ANSWER_SECONDS: Seconds = 60.0
"""For a word that costs the machine nothing."""
STALL_SECONDS: Seconds = 300.0
"""Without one byte more on the machine: its own tries at a server that says nothing end within 250 s, and tell which file it was."""
CHECK_SECONDS: Seconds = 900.0
"""To read again what is there already: 60 GB at the speed of a slow disk."""
AHEAD = 64
"""Links out at a time: they are signed shortly before they are used, since each opens something for a while."""
CHECKED_AT_ONCE = 1000
MOST_GREETING = 64 * 1024
"""Bytes that a login script may print before our own program speaks."""
MOST_SIGNED = 3
"""Links made for one file: one may run out while others are fetched, and its signer's own log-in may end."""
KEPT_FREE = 50_000_000
"""Bytes left on a disk that is filled: a full disk breaks more than a copy."""


@dataclass(frozen=True, slots=True)
class Item:
    """One file to fetch.

    Attributes
    ----------
    name
        Where it goes, below the target.
    key
        What its source calls it.
    size
        Bytes; -1 where only its server knows.
    etag
        The version that was listed; empty where only its server knows.
    md5, sha256
        Hexadecimal digests of its content; empty where they are not known.
    """

    name: str
    key: str
    size: int = -1
    etag: str = ""
    md5: str = ""
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """How to fetch one file just now. It may hold a key: it is shown nowhere."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


class Signer(Protocol):
    """Makes links; blocking, and called in a thread."""

    def link(self, item: Item, tries: int) -> Link | None:
        """A link for a file; `tries` counts those that were refused before. None where there is no other to offer."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a node has fetched: files, their bytes, and files that were there before."""

    files: int = 0
    bytes: int = 0
    same: int = 0


async def fetch(
    connection: Connection,
    folder: str,
    items: Sequence[Item],
    signer: Signer,
    *,
    is_tree: bool,
    source: str,
    progress: Callable[[int], None] = lambda count: None,
    python: str = "python3",
) -> Fetched:
    """Let a machine fetch files into a folder; what is there already as it should be is not fetched again.

    Parameters
    ----------
    is_tree
        Whether the folder itself is the target, which may then not be the home.
    source
        What messages call where it comes from.
    progress
        Told the bytes that are there by now, those of before included.

    Raises
    ------
    FetchError
        Whole files have arrived by then, and the next run goes on.
    """
    remote_path(folder)
    try:
        async with talk(connection, python) as far:
            told = await far.ask({"open": folder}, ANSWER_SECONDS)
            _refuse_place(folder, told, is_tree=is_tree)
            stale = await _stale(far, items)
            same = len(items) - len(stale)
            before = sum(item.size for item in items if item.size > 0) - sum(
                item.size for item in stale if item.size > 0
            )
            _room(stale, told, source)
            progress(before)
            run = _Run(far, stale, signer, source, lambda moved: progress(before + moved))
            await run.carry_out()
            run.note((await far.ask({"stop": True}, ANSWER_SECONDS))["moved"])
            return Fetched(len(stale) - run.same, run.bytes, same + run.same)
    except Trouble as trouble:
        raise _error(trouble.code, trouble.why, source, "") from None
    except (KeyError, ValueError, TypeError, IndexError):
        raise _error("foul", "the machine's answer is malformed", source, "") from None


def _refuse_place(folder: str, told: Mapping[str, Any], *, is_tree: bool) -> None:
    if told.get("file") is True:
        raise FetchError(
            f"{shown(folder)} is a file on the machine",
            hint="choose another target",
            code="fetch.place",
        )
    if is_tree and told.get("home") is True:
        words = f"{shown(folder)} is the machine's whole home: what is in a bucket could replace its keys and settings"
        raise FetchError(words, hint="name a folder below it", code="fetch.place")


async def _stale(far: Far, items: Sequence[Item]) -> list[Item]:
    """The files that are not there as they should be."""
    known = [item for item in items if item.size >= 0]
    found = [item for item in items if item.size < 0]
    for start in range(0, len(known), CHECKED_AT_ONCE):
        some = known[start : start + CHECKED_AT_ONCE]
        answer = await far.ask(
            {"check": [[i.name, i.size, i.etag, i.md5] for i in some]}, CHECK_SECONDS
        )
        numbers = answer["stale"]
        if not isinstance(numbers, list) or not all(
            type(n) is int and 0 <= n < len(some) for n in numbers
        ):
            raise Trouble("foul", "the machine's answer is malformed")
        found += [some[number] for number in sorted(set(numbers))]
    return found


def _room(items: Sequence[Item], told: Mapping[str, Any], source: str) -> None:
    needs, free = sum(max(0, item.size) for item in items), told.get("free")
    if isinstance(free, int) and needs and needs + KEPT_FREE > free:
        words = f"{source}: {needs / 1e9:,.1f} GB do not fit on the machine's disk, which has {free / 1e9:,.1f} GB left"
        raise FetchError(
            words,
            hint="ask for more by disk_size in resources, or name less of the bucket",
            code="fetch.full",
        )


class _Run:
    """The files that one node fetches."""

    def __init__(
        self,
        far: Far,
        items: Sequence[Item],
        signer: Signer,
        source: str,
        progress: Callable[[int], None],
    ) -> None:
        self._far, self._items, self._signer = far, items, signer
        self._source, self._progress = source, progress
        self._tries: dict[int, int] = {}
        self.bytes = self.same = 0

    async def carry_out(self) -> None:
        """Hand out links as answers come; the first failure that no other link mends ends it."""
        waiting, out = deque(range(len(self._items))), 0
        failed: list[tuple[Item, str, str]] = []
        while waiting or out:
            batch = [waiting.popleft() for _ in range(min(len(waiting), AHEAD - out))]
            if batch:
                out += await self._hand_out(batch)
            answer = await self._far.next(STALL_SECONDS)
            if "moved" in answer:
                self.note(answer["moved"])
                continue
            number = answer["got"] if "got" in answer else answer["failed"]
            if type(number) is not int or self._tries.get(number, 0) < 1:
                raise Trouble("foul", "the machine speaks of a file it was not asked for")
            out -= 1
            if "got" in answer:
                self.same += answer["same"] is True
                del self._tries[number]
            elif (
                answer["code"] == "denied"
                and self._tries[number] < MOST_SIGNED
                and await self._has_another(number)
            ):
                waiting.appendleft(number)
            else:
                failed.append(
                    (
                        self._items[number],
                        str(answer["code"])[:20],
                        shown(str(answer["why"]), MOST_WORDS),
                    )
                )
                waiting.clear()  # what is under way may still arrive
        if failed:
            item, code, why = failed[0]
            raise _error(code, why, self._source, item.key)

    def note(self, moved: Any) -> None:
        """How many bytes have come."""
        if type(moved) is not int or not 0 <= moved < 1 << 60:
            raise Trouble("foul", "the machine's answer is malformed")
        self.bytes = moved
        self._progress(moved)

    async def _hand_out(self, numbers: Sequence[int]) -> int:
        def signed() -> list[tuple[int, Link | None]]:
            return [
                (number, self._signer.link(self._items[number], self._tries.get(number, 0)))
                for number in numbers
            ]

        for number, link in await asyncio.to_thread(signed):
            item = self._items[number]
            if link is None:
                raise _error("denied", "no link can be made", self._source, item.key)
            self._tries[number] = self._tries.get(number, 0) + 1
            await self._far.tell(
                get=number,
                name=item.name,
                url=link.url,
                headers=dict(link.headers),
                size=item.size,
                etag=item.etag,
                md5=item.md5,
                sha256=item.sha256,
            )
        return len(numbers)

    async def _has_another(self, number: int) -> bool:
        return (
            await asyncio.to_thread(self._signer.link, self._items[number], self._tries[number])
            is not None
        )


# ---------------------------------------------------------------- the channel


class Far:
    """A program of ours on the machine. No word it says is believed unchecked."""

    def __init__(self, process: asyncssh.SSHClientProcess[bytes], host: str) -> None:
        self._process, self._host = process, host
        self._frames, self._waiting = Frames(), deque[dict[str, Any]]()

    async def begin(self, modules: tuple[str, ...]) -> None:
        """Send the program, and wait for its first word."""
        await self._write(program(modules))
        seen = b""
        while (at := seen.find(MARKER)) < 0:
            if len(seen) > MOST_GREETING:
                raise Trouble("foul", "no program of ours answers")
            seen += await self._read(ANSWER_SECONDS)
        self._feed(seen[at + len(MARKER) :])

    async def ask(self, question: dict[str, Any], patience: Seconds) -> dict[str, Any]:
        """One question, and its answer."""
        await self.tell(**question)
        while "moved" in (answer := await self.next(patience)) and "stopped" not in answer:
            pass
        return answer

    async def tell(self, **content: Any) -> None:
        """Say something."""
        await self._write(message(**content))

    async def next(self, patience: Seconds) -> dict[str, Any]:
        """The next message."""
        while not self._waiting:
            self._feed(await self._read(patience))
        answer = self._waiting.popleft()
        if "trouble" in answer:
            raise Trouble(str(answer["trouble"])[:20], shown(str(answer.get("why")), MOST_WORDS))
        return answer

    def _feed(self, data: bytes) -> None:
        for frame in self._frames.feed(data):
            if not isinstance(frame, dict) or len(self._waiting) > MOST_FRAME // 1024:
                raise Trouble("foul", "the machine sent what was not asked for")
            self._waiting.append(frame)

    async def _write(self, data: bytes) -> None:
        import asyncssh

        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                self._process.stdin.write(data)
                await self._process.stdin.drain()
        except (OSError, TimeoutError, asyncssh.Error):
            raise Trouble("lost", f"the connection to {self._host} broke") from None

    async def _read(self, patience: Seconds) -> bytes:
        import asyncssh

        try:
            async with asyncio.timeout(patience):
                data = await self._process.stdout.read(CHUNK)
        except TimeoutError:
            raise Trouble("stalled", f"nothing has come for {patience:g} s") from None
        except (OSError, asyncssh.Error):
            data = b""
        if not data:
            raise Trouble(
                "lost", f"the connection to {self._host} broke, or the machine has no Python 3.8"
            )
        return data if isinstance(data, bytes) else data.encode()


@asynccontextmanager
async def talk(
    connection: Connection, python: str = "python3", modules: tuple[str, ...] = PROGRAM
) -> AsyncIterator[Far]:
    """Run modules of this folder on the machine, and speak with them. Their program ends with the block."""
    async with connection.channel(reading_command(python, len(program(modules)))) as process:
        noise = asyncio.create_task(_drained(process.stderr))
        try:
            far = Far(process, connection.host)
            await far.begin(modules)
            yield far
        finally:
            noise.cancel()


async def _drained(stream: asyncssh.SSHReader[bytes]) -> None:
    import asyncssh

    # A channel whose stderr nobody reads would come to a halt.
    with suppress(OSError, asyncssh.Error):
        while await stream.read(CHUNK):
            pass


# ---------------------------------------------------------------- errors

_AGAIN = "run the cell again: what has arrived is kept, and it goes on from there"
_SAID: Mapping[str, tuple[str, str]] = {
    "denied": (
        "denied",
        "who may read it? see that your log-in here may, or make it public; a link may have run out",
    ),
    "missing": ("missing", "see that the address is right, upper and lower case too"),
    "changed": ("changed", _AGAIN),
    "damaged": (
        "damaged",
        "ask whoever keeps it: what the server sends is not what its digest says",
    ),
    "length": ("failed", "fetch it in `setup` by a tool of your choice"),
    "full": ("full", "ask for more by disk_size in resources; what has arrived is kept"),
    "name": ("name", "is the host's name right, and does the machine reach the internet?"),
    "connect": ("unreachable", "does the machine reach that server?"),
    "silent": ("unreachable", _AGAIN),
    "cut": ("unreachable", _AGAIN),
    "http": ("failed", _AGAIN),
    "redirect": ("failed", "name the address that it leads to, if you trust it"),
    "certificate": ("certificate", "on a bare image: apt-get install ca-certificates"),
    "permission": ("place", "choose a target that the machine's user may write"),
    "place": ("place", "choose another target"),
    "io": ("place", "choose another target"),
    "foul": ("foul", "nothing was written here; end the machine if it is not to be trusted"),
    "busy": ("failed", "wait for the other run"),
    "stalled": ("stalled", _AGAIN),
    "lost": ("lost", _AGAIN),
}


def _error(code: str, why: str, source: str, key: str) -> FetchError:
    kind, hint = _SAID.get(code, ("failed", _AGAIN))
    what = f" ({shown(key)})" if key and not source.endswith(key) else ""
    return FetchError(f"{source}{what}: {why}", hint=hint, code=f"fetch.{kind}")


__all__ = ["Far", "FetchError", "Fetched", "Item", "Link", "Signer", "fetch", "talk"]
