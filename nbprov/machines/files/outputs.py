"""A spec's `outputs`: brought here from every node of a cluster, with the names of what could not be."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nbprov.machines.liveness import Answers, Silent, is_line, until_answered
from nbprov.machines.setup.cluster_setup import WORKDIR
from nbprov.model.clock import Seconds
from nbprov.model.errors import NbprovError
from nbprov.model.sources import Mount
from nbprov.model.spec import Spec
from nbprov.provisioning.live_cluster import LiveCluster, Node
from nbprov.remote.errors import RemoteError, SshError
from nbprov.remote.pull.autoload_names import is_worked_in
from nbprov.remote.pull.patterns import MAGIC
from nbprov.remote.pull.pull import Pulled, Wish, pull
from nbprov.remote.sync.errors import SyncError, shown
from nbprov.remote.sync_side import Folder

from .folder_sync import MEMORY_FOLDER, awake, open_line, size_words

log = logging.getLogger("nbprov.machines")

STALL_SECONDS: Seconds = 720.0
"""A pull in which so long less than `LEAST_BYTES` came is given up: the longest single step, to list a folder or digest a file, has 600 s."""
LEAST_BYTES = 1_000_000
"""Of a line that is up: 1.4 kB a second would take a week for a gigabyte, and the machine is on the bill."""
LOOK_SECONDS: Seconds = 1.0
MOST_CUTS = 20
"""So often a line may break under one output that comes; what is whole by then need not come again."""
NAMED = 3
HARMLESS = (
    "neither a file",
    "a link that",
    "a link, which",
    "a .git folder",
    "an ignore file",
    "ignored here",
    "a name of our unfinished",
)
"""How reasons begin for which something is left on the machine that nobody misses; the rest is a result that would be lost."""


class OutputsNotPulled(NbprovError):
    """Outputs of a cluster are still on its machines only."""

    code = "outputs.not-pulled"


@dataclass(slots=True)
class Taking:
    """A pull of outputs that goes on, or has ended. Written on the engine's thread, read on any.

    Attributes
    ----------
    lines
        What can be said of it so far, a line each.
    total, sent
        Bytes that are known to come, and that came.
    files, bytes
        What came.
    same
        Files that were here already.
    left
        `(output, why)`: what did not come.
    silent
        Nodes that fell silent meanwhile: what else they have cannot be had.
    steps
        Counts what was done, however small.
    is_over
        Whether it has ended.
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
        """Whether nothing that is wanted is on the machine alone."""
        return not self.left and not self.silent

    def words(self) -> str:
        """What came, in a few words.

        Examples
        --------
        >>> Taking("dev", files=1, bytes=2_000_000, same=3).words()
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
        """What did not come, in a line."""
        if not self.left:
            return f"it fell silent{self.silent_words()}"
        first = "; ".join(f"{shown(what)}: {shown(why, 200)}" for what, why in self.left[:NAMED])
        return first + (f"; and {len(self.left) - NAMED:,} more" if len(self.left) > NAMED else "")

    def silent_words(self) -> str:
        """Which nodes fell silent, to be put behind a sentence; nothing where it is the head alone."""
        return (
            f" (node {', '.join(map(str, sorted(self.silent)))})"
            if self.silent not in ([], [0])
            else ""
        )


def wishes(
    spec: Spec,
    folder: Path,
    name: str,
    node: int,
    memory: Callable[[str], Path | None] = lambda key: None,
) -> list[Wish]:
    """What a spec wants brought from a node.

    A source that is not absolute is relative to where `setup` and `run` begin: `~/sky_workdir` with a `workdir`, else the home. What comes from
    another node than the head lands in a folder `node1` and so on, beside what comes from the head. Without a target a relative source keeps
    its whole path.

    Examples
    --------
    >>> spec = Spec(outputs=(Mount(".", "one/*.pt"), Mount("./out", "/data/x")))
    >>> [(w.source, str(w.target), w.own_name, w.below) for w in wishes(spec, Path("/nb"), "dev", 1)]
    [('~/one/*.pt', '/nb', True, 'node1/one'), ('/data/x', '/nb/out', False, 'node1')]
    """
    found = []
    for mount in spec.outputs:
        source = _there(mount.source, has_workdir=bool(spec.workdir))
        target, own_name = _here(mount, folder, name)
        key = f"outputs\0{node}\0{source}\0{target}"
        below = [*([f"node{node}"] if node else []), *_folders_kept(mount)]
        at_work = bool(MAGIC.search(source)) and is_worked_in(
            str(target.joinpath(*below)), str(folder)
        )
        found.append(
            Wish(source, target, own_name, "/".join(below), f"from-{name}", memory(key), at_work)
        )
    return found


def _folders_kept(mount: Mount) -> list[str]:
    """The folders above a relative source without a target, kept here: `one/out` and `two/out` must not become one."""
    if os.path.normpath(mount.target) != "." or mount.source.startswith(("/", "~")):
        return []
    parts = [part for part in mount.source.split("/") if part not in ("", ".")]
    return parts[: next((n for n, part in enumerate(parts) if MAGIC.search(part)), len(parts) - 1)]


def _there(source: str, *, has_workdir: bool) -> str:
    if source.startswith(("/", "~")):
        return source.rstrip("/") or "/"
    parts = [part for part in source.split("/") if part not in ("", ".")]
    return "/".join(["~", *([WORKDIR] if has_workdir else []), *parts])


def _here(mount: Mount, folder: Path, name: str) -> tuple[Path, bool]:
    target = folder / Path(mount.target).expanduser()
    own_name = (
        os.path.normpath(mount.target) == "."
        or mount.target.endswith(("/", os.sep))
        or bool(MAGIC.search(mount.source))
    )
    if own_name and MAGIC.search(mount.source) and Folder(str(target)).is_home_or_above():
        # A pattern lets the machine choose the names, and a home has some that are run: a folder of its own there.
        target = target / f"{name}-outputs"
    return target, own_name


async def pull_outputs(
    live: LiveCluster,
    spec: Spec,
    folder: Path,
    home: Path,
    taking: Taking,
    tell: Callable[[], object],
    answers: Answers,
) -> Taking:
    """Bring the outputs of every node here. What fails is in `taking.left`; the rest comes all the same.

    Parameters
    ----------
    folder
        What relative targets are relative to.
    home
        Our folder, where it is remembered what was brought.
    tell
        Called when there is something new to show.
    answers
        When a node counts as silent; it is in `taking.silent` then, and the others go on.
    """

    def memory(key: str) -> Path:
        return (
            home
            / MEMORY_FOLDER
            / (
                hashlib.sha256(
                    f"{live.run_id}\0{key}".encode("utf-8", "surrogateescape")
                ).hexdigest()[:32]
                + ".json"
            )
        )

    taking.lines += [
        f"node {node.instance.node}: it was lost, and what it had with it"
        for node in live.nodes
        if node.missing
    ]
    async with awake(live):
        wanted = [
            (node, wishes(spec, folder, live.name, number, memory))
            for number, node in enumerate(live.nodes)
            if not node.missing
        ]
        work = [_while_heard(node, its, taking, tell, answers) for node, its in wanted]
        tasks = [asyncio.ensure_future(one) for one in work]
        try:
            await _while_it_moves(tasks, taking)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return taking


async def _while_it_moves(tasks: Sequence[asyncio.Task[None]], taking: Taking) -> None:
    since, seen = time.monotonic(), (0, 0)
    pending = set(tasks)
    while pending:
        _, pending = await asyncio.wait(pending, timeout=LOOK_SECONDS)
        now = (taking.steps, taking.sent // LEAST_BYTES)
        if now != seen:
            since, seen = time.monotonic(), now
        elif time.monotonic() - since > STALL_SECONDS:
            taking.left.append(
                (taking.name, f"hardly a byte came for {STALL_SECONDS / 60:.0f} minutes")
            )
            return
    for task in tasks:
        task.result()


async def _while_heard(
    node: Node, wanted: list[Wish], taking: Taking, tell: Callable[[], object], answers: Answers
) -> None:
    came = [0]
    try:
        await answers.heard(node, _from_node(node, wanted, taking, tell, came), lambda: came[0])
    except Silent as error:
        taking.silent.append(node.instance.node)
        taking.lines.append(f"node {node.instance.node}: {error.message}")


async def _from_node(
    node: Node, wanted: list[Wish], taking: Taking, tell: Callable[[], object], came: list[int]
) -> None:
    where = f"node {node.instance.node} " if node.instance.node else ""
    for wish in wanted:
        try:
            done = await _over_cuts(node, wish, taking, tell, came)
        except (RemoteError, SshError, OSError) as error:
            words = error.message if isinstance(error, NbprovError) else str(error)
            taking.left.append((where + wish.source, words))
            taking.lines.append(f"{where}{shown(wish.source)}: {shown(words, 300)}")
        else:
            _note(taking, where, wish, done)
        taking.steps += 1
        tell()


async def _over_cuts(
    node: Node, wish: Wish, taking: Taking, tell: Callable[[], object], came: list[int]
) -> Pulled:
    """One output. Where its line broke it goes on once the node answers again, which whoever listens to the node bounds."""
    for cuts in range(MOST_CUTS):
        try:
            # A line that breaks on and on must not look like one that brings something: only the first listing counts as a step.
            return await _once(node, wish, taking, tell, came, is_step=not cuts)
        except (RemoteError, SshError, OSError) as error:
            is_ours = isinstance(error, OSError) and not isinstance(
                error, ConnectionError | TimeoutError
            )
            if is_ours:
                raise
            # Whatever it is called: a machine that is silent now did not refuse anything.
            await until_answered(node)
            if not is_line(error):
                raise
            log.info("%s: %s; goes on", wish.source, error)
    return await _once(node, wish, taking, tell, came, is_step=False)


async def _once(
    node: Node,
    wish: Wish,
    taking: Taking,
    tell: Callable[[], object],
    came: list[int],
    *,
    is_step: bool,
) -> Pulled:
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
        return await pull(await open_line(node), wish, on_found=found, progress=progress)
    except BaseException:
        taking.sent -= sent
        taking.total -= total
        raise


def _note(taking: Taking, where: str, wish: Wish, done: Pulled) -> None:
    taking.files += done.files
    taking.bytes += done.bytes
    taking.same += done.same
    taking.sent = max(taking.sent, taking.bytes)
    lost = [(name, why) for name, why in done.skipped if not why.startswith(HARMLESS)]
    if done.found and done.found == len(done.skipped):
        lost = list(done.skipped)  # it was wanted by its name, and nothing of it can come
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
    if done.apart:
        named = ", ".join(shown(final) for final, _ in done.apart[:NAMED]) + (
            f", and {len(done.apart) - NAMED:,} more" if len(done.apart) > NAMED else ""
        )
        patterns = " ".join(dict.fromkeys(shown(why) for _, why in done.apart[:NAMED]))
        taking.lines.append(
            f"  renamed, as Python or a tool would take it from this folder by itself: {named}; as they are they come by the pattern {patterns}"
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


__all__ = ["OutputsNotPulled", "SyncError", "Taking", "pull_outputs", "wishes"]
