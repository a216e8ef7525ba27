"""Check a git repository out as `~/sky_workdir` of every node.

The node clones it; if that takes a log-in, it is cloned here and sent over without the log-in.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from nbprov.clouds.web.proxies import without_proxy_logins
from nbprov.model.clock import Seconds
from nbprov.model.sources import WORKDIR, Repository
from nbprov.on_machine import git_commands
from nbprov.on_machine.git_commands import Git
from nbprov.on_machine.git_install import INSTALL_SECONDS
from nbprov.on_machine.sync_protocol import SyncFailure
from nbprov.provisioning.live_cluster import LiveCluster
from nbprov.remote.errors import RemoteError
from nbprov.remote.remote_program import RemoteProgram, open_program
from nbprov.remote.ssh.connection import Connection
from nbprov.remote.sync.errors import MOST_WORDS, shown

from .folder_sync import open_connection, size_words

PROGRAM = ("sync_protocol", "git_commands", "git_install", "git_checkout")
"""The modules that run on the machine, in the order of their imports."""
PATIENCE: Seconds = INSTALL_SECONDS + 60.0
"""How long the machine may be silent.

Installing git is the longest silent step; the machine ends git itself after two silent minutes.
"""
STOP_SECONDS: Seconds = 10.0
"""How long a killed git may take to be gone."""
BUNDLE = ".nbprov/workdir.bundle"
"""Below the machine's home: the clone made here, until it is unpacked."""
SHOWN_OF_COMMIT = 7
MOST_NOTES = 5

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_T = TypeVar("_T")


class RepositoryError(RemoteError):
    """A git repository could not be checked out on a machine.

    Its code tells why: `git.missing` (no git), `git.denied` (it does not exist, or asks for a
    log-in), `git.unreachable`, `git.ref` (no such branch, tag or commit), `git.place` (something
    else is in `~/sky_workdir`), `git.busy` (another run clones it), `git.full` (the disk),
    `git.stalled`, `git.lost` (the connection to the machine), `git.foul` (the machine broke the
    protocol), `git.failed` (anything else).
    """

    code = "git"


class RepositoryCheckout:
    """The checkout of one repository on the nodes of a cluster; used in `async with`.

    Parameters
    ----------
    report, note
        Receive lines: what happens now, and what is worth keeping (the commit, and what was left
        unchanged).
    """

    def __init__(
        self,
        live: LiveCluster,
        repository: Repository,
        report: Callable[[str], None],
        note: Callable[[str], None],
    ) -> None:
        self._live, self._repository, self._report, self._note = live, repository, report, note
        self._here = _LocalClone(repository, report)
        self._commits: set[str] = set()

    async def __aenter__(self) -> RepositoryCheckout:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._here.close()
        if error is None and len(self._commits) > 1:
            self._note(
                "code: not all nodes have the same commit:"
                " run the cell again, or name a commit as ref"
            )

    async def bring(self, number: int) -> None:
        """Check it out on one node.

        Raises
        ------
        RepositoryError
            If it fails; `~/sky_workdir` is then unchanged.
        """
        connection = await open_connection(self._live.nodes[number])
        where = f"{self._live.name} node {number}" if len(self._live.nodes) > 1 else self._live.name
        try:
            async with (
                asyncio.timeout(git_commands.LONGEST_SECONDS),
                open_program(connection, PROGRAM) as far,
            ):
                answer = await self._check_out(far, connection)
        except TimeoutError:
            raise self._error(SyncFailure("stalled", "it does not finish"), where) from None
        except SyncFailure as trouble:
            raise self._error(trouble, where) from None
        self._note_commit(answer, where)

    async def _check_out(self, far: RemoteProgram, connection: Connection) -> Mapping[str, Any]:
        if _uses_ssh(self._repository.url):
            return await self._clone_here_and_send(far, connection)
        answer = await self._ask(far)
        if answer.get("failed") in ("login", "road"):
            return await self._clone_here_and_send(far, connection)
        return _raise_failure(answer)

    async def _clone_here_and_send(
        self, far: RemoteProgram, connection: Connection
    ) -> Mapping[str, Any]:
        wanted = await self._here.wanted()
        answer = _raise_failure(await self._ask(far, wanted=wanted))
        if "need" not in answer:
            return answer
        wanted, bundle, roots = await self._here.bundle()
        size = bundle.stat().st_size
        self._report(
            f"code: {self._repository.short}: {size_words(size)} are sent from here,"
            " since cloning it takes a log-in"
        )
        await connection.copy_in(bundle, f"~/{BUNDLE}", progress=self._sent(size))
        return _raise_failure(await self._ask(far, wanted=wanted, bundle=BUNDLE, roots=roots))

    def _sent(self, size: int) -> Callable[[int], None]:
        told = 0.0

        def tell(count: int) -> None:
            nonlocal told
            if time.monotonic() - told >= git_commands.TOLD_EVERY:
                told = time.monotonic()
                self._report(f"code: {size_words(min(count, size))} of {size_words(size)}")

        return tell

    async def _ask(self, far: RemoteProgram, **more: Any) -> dict[str, Any]:
        is_ours = self._live.candidate.offer.cloud == "local"
        asked = {
            "url": self._repository.url,
            "ref": self._repository.ref,
            "folder": WORKDIR,
            "install": not is_ours,
        }
        await far.tell(**asked, **more)
        while "said" in (answer := await far.next(PATIENCE)):
            self._report(f"code: {shown(str(answer['said']))}")
        return answer

    def _note_commit(self, answer: Mapping[str, Any], where: str) -> None:
        try:
            commit, name, left = (
                str(answer["commit"]),
                shown(str(answer["name"])),
                shown(str(answer["left"]), MOST_WORDS),
            )
            notes = [shown(str(note), MOST_WORDS) for note in list(answer["notes"])[:MOST_NOTES]]
        except (KeyError, TypeError, ValueError):
            commit = ""
        if not _COMMIT.match(commit):
            raise self._error(SyncFailure("foul", "the machine's answer is malformed"), where)
        self._commits.add(commit)
        beside = f" ({name})" if name and not commit.startswith(name.lower()) else ""
        on = f" on {where}" if len(self._live.nodes) > 1 else ""
        self._note(f"code: {self._repository.short} at {commit[:SHOWN_OF_COMMIT]}{beside}{on}")
        if left:
            name = self._live.name
            self._note(
                f"code: left as it is{on}, since {left};"
                f" to update it: %%on {name} --bash, cd ~/{WORKDIR}, git status"
            )
        for note in notes:
            self._note(f"code: {note}")

    def _error(self, trouble: SyncFailure, where: str) -> RepositoryError:
        url, name = shown(self._repository.url), self._live.name
        kind, hint = _CODES.get(
            trouble.code, ("failed", "run the cell again; the folder there is unchanged")
        )
        why = shown(trouble.why, MOST_WORDS)
        if kind == "place":
            head = f"~/{WORKDIR} on {where} {why}"
        elif kind == "ref":
            head = f"{url} (ref {shown(self._repository.ref) or 'of the default branch'}): {why}"
        else:
            head = f"{url} to {where}: {why}"
        return RepositoryError(
            head, hint=hint.format(url=url, name=name, folder=f"~/{WORKDIR}"), code=f"git.{kind}"
        )


_CODES: Mapping[str, tuple[str, str]] = {
    "git": (
        "missing",
        "install git in the machine's image;"
        " this computer needs git too, for repositories that take a log-in",
    ),
    "here": ("missing", "install git on this computer"),
    "login": (
        "denied",
        "is the address right? `git ls-remote {url}` in a terminal here must answer"
        " without a question: see git's credential helper",
    ),
    "road": (
        "unreachable",
        "is the address right, and can the machine or this computer reach it?",
    ),
    "ref": ("ref", "name a branch, a tag or a commit of it; upper and lower case matter"),
    "place": (
        "place",
        "see what it is: %%on {name} --bash;"
        " move it away there (mv {folder} ~/before) and run the cell again",
    ),
    "busy": ("busy", "wait for the other run"),
    "full": ("full", "ask for more by disk_size in resources"),
    "stalled": ("stalled", "run the cell again"),
    "lost": ("lost", "run the cell again"),
    "foul": ("foul", "end the machine if you do not trust it"),
}


def _uses_ssh(url: str) -> bool:
    return "://" not in url or url.lower().startswith("ssh://")


def _raise_failure(answer: dict[str, Any]) -> dict[str, Any]:
    if "failed" in answer:
        raise SyncFailure(str(answer["failed"])[:20], str(answer.get("why")))
    return answer


class _LocalClone:
    """The repository as the person's own git reads it.

    The remote is asked once for all nodes; the clone lies in a folder that `close` removes.
    """

    def __init__(self, repository: Repository, report: Callable[[str], None]) -> None:
        self._repository = repository
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._git = Git(
            "",
            lambda text: report(f"code: {shown(without_proxy_logins(text))}"),
            git_commands.protocols_for(repository.url),
        )
        self._lock = asyncio.Lock()
        self._wanted: dict[str, str] = {}
        self._bundle: tuple[Path, list[str]] | None = None

    async def wanted(self) -> dict[str, str]:
        """Return what the ref means now."""
        async with self._lock:
            if not self._wanted:
                self._wanted = await self._in_thread(self._resolved)
            return self._wanted

    async def bundle(self) -> tuple[dict[str, str], Path, list[str]]:
        """Return that commit as a bundle, and the commits whose parents are not in it."""
        async with self._lock:
            if self._bundle is None:
                self._bundle = await self._in_thread(self._bundled)
            return (self._wanted, *self._bundle)

    def close(self) -> None:
        """Remove what was cloned."""
        if self._folder is not None:
            self._folder.cleanup()

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        future = asyncio.get_running_loop().run_in_executor(None, work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            self._git.stop()
            await asyncio.wait([future], timeout=STOP_SECONDS)
            raise
        except SyncFailure as trouble:
            raise SyncFailure(
                "here" if trouble.code == "git" else trouble.code,
                f"this computer's git: {without_proxy_logins(trouble.why)}",
            ) from None

    def _resolved(self) -> dict[str, str]:
        self._open()
        return git_commands.resolve(self._git, self._repository.url, self._repository.ref)

    def _open(self) -> None:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(
                prefix="nbprov-code-", ignore_cleanup_errors=True
            )
            self._git.folder = self._folder.name
            self._git.run("init", "-q", "--bare", "--template=")

    def _bundled(self) -> tuple[Path, list[str]]:
        folder = Path(self._git.folder)
        commit = git_commands.fetch(self._git, self._repository.url, self._wanted, shallow=True)
        self._wanted = {**self._wanted, "commit": commit}
        header = self._git.run("cat-file", "commit", commit).partition("\n\n")[0]
        roots = [commit] if "\nparent " in header else []
        # Only one commit is sent; the rest can be fetched there later by anyone with access.
        (folder / "shallow").write_text(
            "".join(f"{root}\n" for root in roots), encoding="ascii", newline="\n"
        )
        path = folder / "code.bundle"
        self._git.run(
            "-c",
            "pack.window=0",
            "bundle",
            "create",
            "--progress",
            str(path),
            git_commands.tracking(self._wanted),
        )
        path.chmod(0o600)
        return path, roots


__all__ = ["RepositoryCheckout", "RepositoryError"]
