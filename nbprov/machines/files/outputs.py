"""Pull a spec's `outputs` from every node of a cluster, and name what could not be pulled."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from nbprov.machines.liveness import (
    LivenessPolicy,
    NodeSilent,
    is_connection_error,
    wait_until_answered,
)
from nbprov.model.clock import Seconds
from nbprov.model.errors import NbprovError
from nbprov.model.spec import Spec
from nbprov.on_machine.sync_protocol import Skip
from nbprov.on_machine.transfer_limit import MOST_SECONDS, in_words
from nbprov.provisioning.live_cluster import LiveCluster, Node
from nbprov.remote.errors import RemoteError, SshError
from nbprov.remote.pull.options import PullOptions, PullResult
from nbprov.remote.pull.pull import pull
from nbprov.remote.sync.errors import SyncError, shown

from .folder_sync import MEMORY_FOLDER, awake, open_connection, size_words
from .output_targets import HINT, OutputFolders, wishes

log = logging.getLogger("nbprov.machines")

STALL_SECONDS: Seconds = 720.0
"""A pull with fewer than `LEAST_BYTES` in this time is given up; one step may take 600 s."""
LEAST_BYTES = 1_000_000
"""At 1.4 kB a second a gigabyte would take a week, and the machine costs money meanwhile."""
LOOK_SECONDS: Seconds = 1.0
MOST_CUTS = 20
"""How often the connection may break during one output; complete files need not come again."""
NAMED = 3
HARMLESS = (
    *(Skip.SPECIAL, Skip.LINK_NOWHERE, Skip.LINK_OUTSIDE, Skip.WINDOWS_LINK),
    *(Skip.GIT_FOLDER, Skip.IGNORE_FILE, Skip.IGNORED, Skip.UNFINISHED),
)
"""Why a file may be left on the machine. Every other file is a result that would be lost."""


class OutputsNotPulled(NbprovError):
    """Outputs of a cluster are still only on its machines."""

    code = "outputs.not-pulled"


@dataclass(slots=True)
class OutputPull:
    """A pull of outputs; written on the engine's thread, read on any.

    Attributes
    ----------
    lines
        Lines that describe it so far.
    total, sent
        Bytes that are known to come, and bytes that came.
    files, bytes
        What has arrived.
    same
        Files that were here before.
    left
        `(output, why)` for what did not come.
    silent
        Nodes that fell silent during the pull; the rest of their outputs cannot be pulled.
    steps
        A count of everything that was done.
    is_over
        Whether the pull has ended.
    """

    name: str
    lines: list[str] = field(default_factory=list)
    total: int = 0
    sent: int = 0
    files: int = 0
    bytes: int = 0
    same: int = 0
    left: list[tuple[str, str]] = field(default_factory=list)
    silent: list[int] = field(default_factory=list)
    steps: int = 0
    is_over: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether everything that is wanted is here."""
        return not self.left and not self.silent

    def words(self) -> str:
        """Return in a few words what came.

        Examples
        --------
        >>> OutputPull("dev", files=1, bytes=2_000_000, same=3).words()
        '1 file, 2.0 MB (3 were here already)'
        """
        count = f"{self.files:,} file{'' if self.files == 1 else 's'}, {size_words(self.bytes)}"
        were = (
            f" ({self.same:,} {'was' if self.same == 1 else 'were'} here already)"
            if self.same
            else ""
        )
        return count + were

    def left_words(self) -> str:
        """Return in a line what did not come."""
        if not self.left:
            return f"it fell silent{self.silent_words()}"
        first = "; ".join(f"{shown(what)}: {shown(why, 200)}" for what, why in self.left[:NAMED])
        return first + (f"; and {len(self.left) - NAMED:,} more" if len(self.left) > NAMED else "")

    def silent_words(self) -> str:
        """Return which nodes fell silent, to be appended; empty if it is the head alone."""
        return (
            f" (node {', '.join(map(str, sorted(self.silent)))})"
            if self.silent not in ([], [0])
            else ""
        )


async def pull_outputs(
    live: LiveCluster,
    spec: Spec,
    folders: OutputFolders,
    home: Path,
    taking: OutputPull,
    tell: Callable[[], object],
    liveness: LivenessPolicy,
    *,
    keep_names: bool = False,
) -> OutputPull:
    """Pull the outputs of every node; what fails is in `taking.left`, and the rest still comes.

    Parameters
    ----------
    folders
        Where they may be written to, as agreed to at Launch. It is checked here again, since this
        may be another kernel, and links may have been made since.
    home
        Our folder, where the state of pulled files is remembered.
    tell
        Called when there is something new to show.
    liveness
        When a node counts as silent; it is then in `taking.silent`, and the others continue.
    keep_names
        Give files their own names too whose ending is not one of data.
    """

    memory = partial(_memory_file, home / MEMORY_FOLDER, live.run_id)
    taking.lines += [
        f"node {node.instance.node}: it was lost, and what it had with it"
        for node in live.nodes
        if node.missing
    ]
    async with awake(live):
        wanted = [
            (node, wishes(spec, folders, live.name, number, memory, keep_names=keep_names))
            for number, node in enumerate(live.nodes)
            if not node.missing
        ]
        wanted = [(node, _allowed(its, folders, taking)) for node, its in wanted]
        work = [_pull_while_alive(node, its, taking, tell, liveness) for node, its in wanted]
        tasks = [asyncio.ensure_future(one) for one in work]
        try:
            await _until_stalled(tasks, taking)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return taking


def _memory_file(folder: Path, run_id: str, key: str) -> Path:
    name = f"{run_id}\0{key}".encode("utf-8", "surrogateescape")
    return folder / f"{hashlib.sha256(name).hexdigest()[:32]}.json"


def _allowed(
    wanted: list[PullOptions], folders: OutputFolders, taking: OutputPull
) -> list[PullOptions]:
    """Return what may be written here, and note the rest in `taking.left`."""
    allowed = []
    for wish in wanted:
        why = folders.why_not(wish.target)
        if why:
            refusal = (wish.source, f"{wish.target} {why}; {HINT}")
            taking.left += [refusal] if refusal not in taking.left else []
        else:
            allowed.append(wish)
    return allowed


async def _until_stalled(tasks: Sequence[asyncio.Task[None]], taking: OutputPull) -> None:
    begun = since = time.monotonic()
    seen = (0, 0)
    pending = set(tasks)
    while pending:
        _, pending = await asyncio.wait(pending, timeout=LOOK_SECONDS)
        now, progress = time.monotonic(), (taking.steps, taking.sent // LEAST_BYTES)
        if now - begun > MOST_SECONDS:
            taking.left.append((taking.name, f"not all had come after {in_words(MOST_SECONDS)}"))
            return
        if progress != seen:
            since, seen = now, progress
        elif now - since > STALL_SECONDS:
            taking.left.append(
                (taking.name, f"hardly a byte came for {STALL_SECONDS / 60:.0f} minutes")
            )
            return
    for task in tasks:
        task.result()


async def _pull_while_alive(
    node: Node,
    wanted: list[PullOptions],
    taking: OutputPull,
    tell: Callable[[], object],
    liveness: LivenessPolicy,
) -> None:
    came = [0]
    try:
        await liveness.run(node, _pull_from_node(node, wanted, taking, tell, came), lambda: came[0])
    except NodeSilent as error:
        taking.silent.append(node.instance.node)
        taking.lines.append(f"node {node.instance.node}: {error.message}")


async def _pull_from_node(
    node: Node,
    wanted: list[PullOptions],
    taking: OutputPull,
    tell: Callable[[], object],
    came: list[int],
) -> None:
    where = f"node {node.instance.node} " if node.instance.node else ""
    for wish in wanted:
        try:
            done = await _pull_resuming(node, wish, taking, tell, came)
        except (RemoteError, SshError, OSError) as error:
            words = error.message if isinstance(error, NbprovError) else str(error)
            taking.left.append((where + wish.source, words))
            taking.lines.append(f"{where}{shown(wish.source)}: {shown(words, 300)}")
        else:
            _note(taking, where, wish, done)
        taking.steps += 1
        tell()


async def _pull_resuming(
    node: Node, wish: PullOptions, taking: OutputPull, tell: Callable[[], object], came: list[int]
) -> PullResult:
    """Pull one output.

    If its connection breaks, it continues once the node answers again; the caller bounds that.
    """
    for cuts in range(MOST_CUTS):
        try:
            # Only the first listing counts as progress, or a connection that keeps breaking would
            # look like one that brings something.
            return await _pull_once(node, wish, taking, tell, came, is_step=not cuts)
        except (RemoteError, SshError, OSError) as error:
            is_ours = isinstance(error, OSError) and not isinstance(
                error, ConnectionError | TimeoutError
            )
            if is_ours:
                raise
            # Whatever the error is called, a machine that is silent now did not refuse anything.
            await wait_until_answered(node)
            if not is_connection_error(error):
                raise
            log.info("%s: %s; goes on", wish.source, error)
    return await _pull_once(node, wish, taking, tell, came, is_step=False)


async def _pull_once(
    node: Node,
    wish: PullOptions,
    taking: OutputPull,
    tell: Callable[[], object],
    came: list[int],
    *,
    is_step: bool,
) -> PullResult:
    sent = total = 0

    def progress(now: int) -> None:
        nonlocal sent
        taking.sent += now - sent
        sent = now
        came[0] += 1
        tell()

    def found(files: int, size: int) -> None:
        nonlocal total
        total += size
        taking.total += size
        taking.steps += is_step
        tell()

    try:
        return await pull(await open_connection(node), wish, on_found=found, progress=progress)
    except BaseException:
        taking.sent -= sent
        taking.total -= total
        raise


def _note(taking: OutputPull, where: str, wish: PullOptions, done: PullResult) -> None:
    taking.files += done.files
    taking.bytes += done.bytes
    taking.same += done.same
    taking.sent = max(taking.sent, taking.bytes)
    lost = [
        (name, why) for name, why in done.skipped if not (isinstance(why, Skip) and why in HARMLESS)
    ]
    if done.found and done.found == len(done.skipped):
        lost = list(done.skipped)  # it was named in the spec, and nothing of it can come
    taking.left += [
        (f"{where}{wish.source} {name}".strip(), why) for name, why in (*done.failed, *lost)
    ]
    head = f"{where}{shown(wish.source)}"
    if not done.found and not done.failed:
        taking.lines.append(f"{head}: there is nothing of it on the machine")
        return
    count = f"{done.files:,} file{'' if done.files == 1 else 's'}, {size_words(done.bytes)}"
    same = f", {done.same:,} here already" if done.same else ""
    taking.lines.append(f"{head} to {done.here}: {count}{same}")
    if done.aside:
        named = ", ".join(f"{shown(name)} is {shown(final)}" for name, final in done.aside[:NAMED])
        more = f", and {len(done.aside) - NAMED:,} more" if len(done.aside) > NAMED else ""
        taking.lines.append(f"  changed here, so put beside: {named}{more}")
    if done.renamed:
        named = ", ".join(shown(final) for _, final in done.renamed[:NAMED])
        more = ", …" if len(done.renamed) > NAMED else ""
        taking.lines.append(
            f"  {len(done.renamed):,} renamed ({named}{more}), as only files with an ending of data"
            f" keep their names; %nbprov outputs {taking.name} --keep-names brings them under"
            " their own names"
        )
    for what, pairs in (
        ("could not be brought", (*done.failed, *lost)),
        ("left there", [p for p in done.skipped if p not in lost]),
    ):
        if pairs:
            named = "; ".join(f"{shown(name)} {shown(why, 200)}" for name, why in pairs[:NAMED])
            taking.lines.append(
                f"  {what}: {len(pairs):,} ({named}{'; …' if len(pairs) > NAMED else ''})"
            )


__all__ = ["OutputPull", "OutputsNotPulled", "SyncError", "pull_outputs"]
