"""Make the Python environment of a spec alike on every node.

The head resolves the exact list of packages; the other nodes install that list.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nbprov.machines.remote_file import read_remote_file
from nbprov.machines.setup.setup_jobs import LAST_LINES, SetupSteps
from nbprov.model.clock import Seconds
from nbprov.model.errors import NbprovError
from nbprov.on_machine.loader import loading
from nbprov.on_machine.uv import STEP_SECONDS, TOO_LONG
from nbprov.provisioning.live_cluster import Node, agent_of
from nbprov.remote.agent.messages import TaskInfo

from .requirement_files import PythonSource

PYTHON = "python"
"""The name of the step and of its jobs."""

PROGRAM = ("uv", "python_env")
"""The modules that run on the machine, in the order of their imports."""
RECORD = '"$HOME"/.nbprov/python/nbprov.json'
REQUEST = '"$HOME"/.nbprov/python/request.json'
MOST_RECORD = 32_000_000
"""Bytes of a record; an honest one with hashes has some hundred kB."""
MAKING_SECONDS: Seconds = 2 * STEP_SECONDS
"""How long one node may take: two of its steps at their longest.

That is gigabytes over a slow line and a package that is compiled.
"""
NAMED = 5
"""Packages that an error lists."""

_WORD = re.compile(r"[\w.+!-]{1,200}", re.ASCII)
_END = "NBPROV_END_OF_PROGRAM"


class PythonTimeout(NbprovError):
    """An environment was not made in time. The cluster is kept, as after any failed step."""

    code = "python.timeout"


class PythonDiffers(NbprovError):
    """The nodes of a cluster do not have the same Python or packages."""

    code = "python.differs"


@dataclass(frozen=True, slots=True)
class EnvironmentRecord:
    """The environment of a node, as the node describes it."""

    node: int
    key: str
    python: str
    implementation: str
    lock: str
    packages: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, node: int, text: str) -> EnvironmentRecord:
        """Read a node's record.

        Raises
        ------
        PythonDiffers
            If it is malformed.
        """
        try:
            record = json.loads(text)
            words = [record[name] for name in ("key", "python", "implementation", "lock")]
            packages = tuple(sorted(record["packages"].items()))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            words, packages = [None], ()
        # These are shown, so each must look like a name or a version.
        shown = [*words[1:3], *(word for package in packages for word in package)]
        if not all(isinstance(word, str) for word in words) or not all(
            isinstance(w, str) and _WORD.fullmatch(w) for w in shown
        ):
            raise PythonDiffers(
                f"node {node} does not say which Python it has",
                hint="run the %%provision cell again",
                code="python.no-record",
            )
        return cls(node, words[0], words[1], words[2], words[3], packages)


def job_script(request: dict[str, object]) -> str:
    """Return the script of the job that makes an environment.

    It holds the whole program and its request, so that neither is in a file or a command line.
    """
    start = f"import json\nsys.exit(module.main(json.loads({json.dumps(request)!r})))\n"
    return f"exec python3 -u - <<'{_END}'\n{loading(PROGRAM)}{start}{_END}\n"


async def start_python(
    steps: SetupSteps, node: Node, source: PythonSource, *, lock: str = "", python: str = ""
) -> str:
    """Start the step on a node and return its job's id.

    If it runs there already, started by an earlier kernel, that job is followed.
    """

    def goes_on(job: TaskInfo) -> bool:
        return not job.is_over and known is not None and source.is_source_of(str(known["command"]))

    known = steps.known(PYTHON)
    return await steps.start(
        node, PYTHON, job_script(source.request(lock=lock, python=python)), reuse=goes_on
    )


async def follow_node(steps: SetupSteps, node: Node, id: str) -> None:
    """Follow the step on one node to its end; cancel it if it takes too long.

    Raises
    ------
    SetupFailed, PythonTimeout
        With its last lines.
    """
    tail: deque[str] = deque(maxlen=LAST_LINES)
    try:
        async with asyncio.timeout(MAKING_SECONDS) as limit:
            code, _ = await steps.follow(node, PYTHON, id, tail)
    except TimeoutError:
        if not limit.expired():
            raise
        with contextlib.suppress(NbprovError, TimeoutError):
            await agent_of(node).cancel_job(id)
        raise _too_long(
            steps,
            node,
            tail,
            f"is not made after {MAKING_SECONDS / 60:.0f} min, and was ended",
        ) from None
    if code == TOO_LONG:
        raise _too_long(steps, node, tail, "took too long")
    if code != 0:
        raise steps.failed(node, PYTHON, code, tail)


def _too_long(steps: SetupSteps, node: Node, tail: Iterable[str], said: str) -> PythonTimeout:
    name = steps.live.name
    where = f" on node {node.instance.node}" if len(steps.live.nodes) > 1 else ""
    return PythonTimeout(
        f"{name}: python{where} {said}; its last words:"
        + "".join(f"\n    {line.rstrip()}" for line in tail),
        hint="what was downloaded is kept: run the cell again. If it stands still: does the"
        f" machine reach its index (%%on {name} --bash)? Is a package compiled there, of which"
        " another version has a wheel?",
    )


async def copy_head_environment(steps: SetupSteps, node: Node) -> None:
    """Make the head's environment on one node that joins later.

    It is made from the head's own record, whatever the local files say by now.

    Raises
    ------
    SetupFailed, PythonTimeout
        With its last lines.
    PythonDiffers
        If the head's record is malformed, or the node has something else in the end.
    """
    head, source = await read_record(steps.live.head), await read_request(steps.live.head)
    await follow_node(
        steps, node, await start_python(steps, node, source, lock=head.lock, python=head.python)
    )
    check_same([head, await read_record(node)])


async def follow_environment(steps: SetupSteps, source: PythonSource, id: str) -> None:
    """Follow the head's step, repeat it on the other nodes, and check that all have the same.

    Raises
    ------
    SetupFailed
        With the last lines of the node where it failed.
    PythonTimeout
        If a node does not finish in time.
    PythonDiffers
        If the nodes differ in the end; the message names how.
    """
    live = steps.live
    steps.record(id, PYTHON, source.noted, "running")
    try:
        await follow_node(steps, live.head, id)
        first = await read_record(live.head)
        others = live.nodes[1:]

        async def as_the_head(node: Node) -> None:
            await follow_node(
                steps,
                node,
                await start_python(steps, node, source, lock=first.lock, python=first.python),
            )

        ended = await asyncio.gather(*map(as_the_head, others), return_exceptions=True)
        for error in filter(None, ended):
            raise error
        made = [first, *await asyncio.gather(*(read_record(node) for node in others))]
        check_same(made)
    except NbprovError:
        steps.record(id, PYTHON, source.noted, "ended", 1)
        raise
    steps.record(id, PYTHON, source.noted, "ended", 0)
    steps.report(same_words(made))


def check_same(made: Sequence[EnvironmentRecord]) -> None:
    """Compare the nodes' records.

    Raises
    ------
    PythonDiffers
        Naming the first node that differs from the head, and how.
    """
    head = made[0]
    for other in made[1:]:
        if (other.python, other.implementation) != (head.python, head.implementation):
            said = (
                f"node {other.node} has {other.implementation} {other.python},"
                f" the head {head.implementation} {head.python}"
            )
        elif other.packages != head.packages:
            differences = _differences(dict(head.packages), dict(other.packages))
            said = f"node {other.node} has other packages than the head: {differences}"
        else:
            continue
        raise PythonDiffers(
            said,
            hint="give the exact version of Python (3.12.4), and a lock or exact requirements,"
            " and run the cell again",
        )


def _differences(head: dict[str, str], other: dict[str, str]) -> str:
    names = sorted(name for name in head.keys() | other.keys() if head.get(name) != other.get(name))
    told = [
        f"{name} {other.get(name, 'missing')} instead of {head.get(name, 'none')}"
        for name in names[:NAMED]
    ]
    return ", ".join(told) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


def same_words(made: Sequence[EnvironmentRecord]) -> str:
    """Return what the nodes have, in a line.

    Examples
    --------
    >>> same_words([EnvironmentRecord(0, "", "3.12.4", "cpython", "", (("six", "1"),))])
    'python: 3.12.4 with 1 package'
    """
    count = len(made[0].packages)
    nodes = f", the same on {len(made)} nodes" if len(made) > 1 else ""
    return f"python: {made[0].python} with {count} package{'' if count == 1 else 's'}{nodes}"


async def read_record(node: Node) -> EnvironmentRecord:
    """Return a node's present environment.

    Raises
    ------
    PythonDiffers
        If its record is missing or malformed.
    """
    return EnvironmentRecord.of(
        node.instance.node,
        (await read_remote_file(node, RECORD, MOST_RECORD) or b"").decode("utf-8", "replace"),
    )


async def read_request(node: Node) -> PythonSource:
    """Return what a node's environment was made from.

    Raises
    ------
    PythonDiffers
        If its record is missing or malformed.
    """
    try:
        said = json.loads(await read_remote_file(node, REQUEST, MOST_RECORD) or b"")
        files = {str(name): text for name, text in said["files"].items() if isinstance(text, str)}
        found = PythonSource(str(said["kind"]), str(said["version"]), files)
        is_whole = said["key"] == found.key
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        is_whole = False
    if not is_whole:
        raise PythonDiffers(
            f"node {node.instance.node} does not say what its Python was made from",
            hint="%nbprov setup NAME writes it down anew",
            code="python.no-record",
        )
    return found
