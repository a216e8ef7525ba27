"""The Python environment of a spec, made alike on every node: the head finds the exact list, the others install that list."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nbprov.machines.agents import agent_of
from nbprov.machines.remote_file import read_far
from nbprov.machines.setup.setup_jobs import LAST_LINES, Steps
from nbprov.model.clock import Seconds
from nbprov.model.errors import NbprovError
from nbprov.provisioning.live_cluster import Node
from nbprov.remote.agent.messages import TaskInfo
from nbprov.remote.programs import loading
from nbprov.remote.uv_side import STEP_SECONDS, TOO_LONG

from .requirement_files import PythonSource

PYTHON = "python"
"""The name of the step, and of its jobs."""

PROGRAM = ("uv_side", "python_side")
"""The modules that run on the machine, in the order of their imports."""
RECORD = '"$HOME"/.nbprov/python/nbprov.json'
REQUEST = '"$HOME"/.nbprov/python/request.json'
MOST_RECORD = 32_000_000
"""Bytes of a record: a list with hashes has some hundred kB; what says more is not one of ours."""
MAKING_SECONDS: Seconds = 2 * STEP_SECONDS
"""How long one node may take: two of its steps at their longest, gigabytes over a slow line and a package that is compiled."""
NAMED = 5
"""Packages that an error names."""

_WORD = re.compile(r"[\w.+!-]{1,200}", re.ASCII)
_END = "NBPROV_END_OF_PROGRAM"


class PythonTimeout(NbprovError):
    """The making of an environment did not come to an end in time. The cluster is kept, as after any step that failed."""

    code = "python.timeout"


class PythonDiffers(NbprovError):
    """The nodes of a cluster do not have the same Python, or packages."""

    code = "python.differs"


@dataclass(frozen=True, slots=True)
class Made:
    """The environment that a node has, by its own word."""

    node: int
    key: str
    python: str
    implementation: str
    lock: str
    packages: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, node: int, text: str) -> Made:
        """Read a node's record.

        Raises
        ------
        PythonDiffers
            If it is none.
        """
        try:
            record = json.loads(text)
            words = [record[name] for name in ("key", "python", "implementation", "lock")]
            packages = tuple(sorted(record["packages"].items()))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            words, packages = [None], ()
        # What it says is shown: a word is a word.
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
    """The job that makes an environment: the whole program and what is asked of it, in one text that is in no file and on no command line."""
    start = f"import json\nsys.exit(module.main(json.loads({json.dumps(request)!r})))\n"
    return f"exec python3 -u - <<'{_END}'\n{loading(PROGRAM)}{start}{_END}\n"


async def start_python(
    steps: Steps, node: Node, source: PythonSource, *, lock: str = "", python: str = ""
) -> str:
    """Start the step on a node; the id of its job. One that goes on there already is followed: it is of an earlier kernel."""

    def goes_on(job: TaskInfo) -> bool:
        return not job.is_over and known is not None and source.is_source_of(str(known["command"]))

    known = steps.known(PYTHON)
    return await steps.start(
        node, PYTHON, job_script(source.request(lock=lock, python=python)), reuse=goes_on
    )


async def see_made(steps: Steps, node: Node, id: str) -> None:
    """See the step on one node to its end; one that takes too long is ended.

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
            steps, node, tail, f"is not made after {MAKING_SECONDS / 60:.0f} min, and was ended"
        ) from None
    if code == TOO_LONG:
        raise _too_long(steps, node, tail, "took too long")
    if code != 0:
        raise steps.failed(node, PYTHON, code, tail)


def _too_long(steps: Steps, node: Node, tail: Iterable[str], said: str) -> PythonTimeout:
    name = steps.live.name
    where = f" on node {node.instance.node}" if len(steps.live.nodes) > 1 else ""
    return PythonTimeout(
        f"{name}: python{where} {said}; its last words:"
        + "".join(f"\n    {line.rstrip()}" for line in tail),
        hint=f"what was downloaded is kept: run the cell again. If it stands still: does the machine reach its index (%%on {name} --bash)? Is"
        " a package compiled there, of which another version has a wheel?",
    )


async def make_as_the_head(steps: Steps, node: Node) -> None:
    """Make on one node, later than on the others, the very environment of the head: from what the head has written down, whatever lies here by now.

    Raises
    ------
    SetupFailed, PythonTimeout
        With its last lines.
    PythonDiffers
        If the head does not say what it has, or if the node has something else after all.
    """
    head, source = await read_made(steps.live.head), await read_asked(steps.live.head)
    await see_made(
        steps, node, await start_python(steps, node, source, lock=head.lock, python=head.python)
    )
    check_same([head, await read_made(node)])


async def see_python(steps: Steps, source: PythonSource, id: str) -> None:
    """Follow the head's step, do the same on the other nodes, and check that all have the same.

    Raises
    ------
    SetupFailed
        With the last lines of the node where it failed.
    PythonTimeout
        If a node does not come to an end in time.
    PythonDiffers
        If the nodes differ after all; the message names how.
    """
    live, ledger = steps.live, steps.ledger
    ledger.jobs.set(live.run_id, id, PYTHON, source.noted, "running")
    try:
        await see_made(steps, live.head, id)
        first = await read_made(live.head)
        others = live.nodes[1:]

        async def as_the_head(node: Node) -> None:
            await see_made(
                steps,
                node,
                await start_python(steps, node, source, lock=first.lock, python=first.python),
            )

        ended = await asyncio.gather(*map(as_the_head, others), return_exceptions=True)
        for error in filter(None, ended):
            raise error
        made = [first, *await asyncio.gather(*(read_made(node) for node in others))]
        check_same(made)
    except NbprovError:
        ledger.jobs.set(live.run_id, id, PYTHON, source.noted, "ended", 1)
        raise
    ledger.jobs.set(live.run_id, id, PYTHON, source.noted, "ended", 0)
    steps.report(same_words(made))


def check_same(made: Sequence[Made]) -> None:
    """Compare what the nodes say they have.

    Raises
    ------
    PythonDiffers
        Naming the first node that differs from the head, and in what.
    """
    head = made[0]
    for other in made[1:]:
        if (other.python, other.implementation) != (head.python, head.implementation):
            said = f"node {other.node} has {other.implementation} {other.python}, the head {head.implementation} {head.python}"
        elif other.packages != head.packages:
            said = f"node {other.node} has other packages than the head: {_differences(dict(head.packages), dict(other.packages))}"
        else:
            continue
        raise PythonDiffers(
            said,
            hint="give the exact version of Python (3.12.4), and a lock or exact requirements, and run the cell again",
        )


def _differences(head: dict[str, str], other: dict[str, str]) -> str:
    names = sorted(name for name in head.keys() | other.keys() if head.get(name) != other.get(name))
    told = [
        f"{name} {other.get(name, 'missing')} instead of {head.get(name, 'none')}"
        for name in names[:NAMED]
    ]
    return ", ".join(told) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


def same_words(made: Sequence[Made]) -> str:
    """What the nodes have, in a line.

    Examples
    --------
    >>> same_words([Made(0, "", "3.12.4", "cpython", "", (("six", "1"),))])
    'python: 3.12.4 with 1 package'
    """
    count = len(made[0].packages)
    nodes = f", the same on {len(made)} nodes" if len(made) > 1 else ""
    return f"python: {made[0].python} with {count} package{'' if count == 1 else 's'}{nodes}"


async def read_made(node: Node) -> Made:
    """What a node has now.

    Raises
    ------
    PythonDiffers
        If it does not say.
    """
    return Made.of(
        node.instance.node,
        (await read_far(node, RECORD, MOST_RECORD) or b"").decode("utf-8", "replace"),
    )


async def read_asked(node: Node) -> PythonSource:
    """What a node's environment was made from.

    Raises
    ------
    PythonDiffers
        If it does not say.
    """
    try:
        said = json.loads(await read_far(node, REQUEST, MOST_RECORD) or b"")
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
