"""Which Python of a machine has the engine; where none has, it is installed: beside the environment of `python`, or into one of our own."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections import deque
from collections.abc import Callable, Sequence
from importlib import metadata

from nbprov.machines.agents import agent_of
from nbprov.model.clock import Seconds
from nbprov.on_machine.loader import source
from nbprov.provisioning.live_cluster import Node
from nbprov.remote.agent.messages import Output

from .engine_state import FOLDER, EngineFailed, EngineMissing, Facts

PACKAGE = {"dask": "distributed", "ray": "ray"}
INSTALLED = {"ray": "ray[client]"}
"""What is asked of pip where that is more than the package itself."""
TRAVELLING = {
    "dask": (
        "dask",
        "distributed",
        "cloudpickle",
        "msgpack",
        "toolz",
        "tornado",
        "numpy",
        "pandas",
        "pyarrow",
        "lz4",
        "bokeh",
    ),
    "ray": ("ray", "numpy", "pandas", "pyarrow"),
}
"""Packages whose versions matter on both ends: the protocol, and the data that goes over it."""

RAYS_DASHBOARD = (
    "aiohttp-cors",
    "opencensus",
    "opentelemetry-exporter-prometheus",
    "prometheus-client",
)
"""What Ray's dashboard stands on, besides what Ray itself does: `ray[default]` brings it. They matter on the machine alone."""
LOOKED_FOR = {**TRAVELLING, "ray": TRAVELLING["ray"] + RAYS_DASHBOARD}

PROBE_SECONDS: Seconds = 60.0
"""How long a look at the interpreters may take: a few starts of Python, slow on a disk that was never read."""
INSTALL_SECONDS: Seconds = 900.0
"""As long as the agent gives its own installing: some hundred megabytes over a slow mirror."""

MARK = "nbprov-found: "
OLDER = "nbprov-older"
LONGEST_LINE = 10_000
"""Of what a machine says, that is kept: its versions take some hundred characters."""
LAST_LINES = 6
"""Of pip's that are shown where it fails."""
PATH = 'PATH="$HOME/.nbprov/python/bin:$PATH"; export PATH'
"""The environment of the spec's `python` comes before the machine's own."""
OF_SPEC = '"$HOME/.nbprov/python/bin/python"'
"""Its interpreter."""
BESIDE = '"$HOME/.nbprov/python/engine/bin/python"'
"""Where the engine is that was installed beside it; see `on_machine/overlay_venv.py`."""

_LOOK = """
import json, os, platform, sys
from importlib import metadata
names, found = json.loads(sys.argv[1]), {}
for name in names:
    try:
        found[name] = metadata.version(name)
    except Exception:
        pass
# Not by way of a link, which may lead to another environment when the process is started again.
folder, name = os.path.split(sys.executable)
program = os.path.join(os.path.realpath(folder), name)
print(sys.argv[2] + json.dumps({"program": program, "python": platform.python_version(), "packages": found}))
"""


def versions_here(kind: str) -> dict[str, str]:
    """The versions of what matters to an engine, in this kernel's environment; what is missing is left out."""
    found = {}
    for name in TRAVELLING[kind]:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def requirements(kind: str) -> list[str]:
    """What is installed on a machine that has no such engine: the notebook's versions, or the newest where it has none.

    Examples
    --------
    >>> requirements("ray")  # doctest: +SKIP
    ['ray[client]==2.60.0', 'numpy==2.4.6']
    """
    here = versions_here(kind)
    if PACKAGE[kind] not in here:
        return [INSTALLED.get(kind, PACKAGE[kind])]
    return [
        f"{INSTALLED.get(name, name)}=={version.partition('+')[0]}"
        for name, version in here.items()
    ]


async def interpreter(node: Node, kind: str, report: Callable[[str], None]) -> Facts:
    """The interpreter of a machine that has the engine; installs it where none has.

    Raises
    ------
    EngineMissing
        If it could not be installed, with pip's last lines.
    """
    found = await _look(node, kind)
    if PACKAGE[kind] in found.packages:
        return found
    await _install(node, kind, found, report)
    found = await _look(node, kind)
    if PACKAGE[kind] not in found.packages:
        raise EngineMissing(f"{kind} was installed on {_place(node)} and is not found there")
    return found


def look_script(kind: str) -> str:
    """What a machine runs to say what its interpreters have of an engine, a line each."""
    look = (
        f"-c {shlex.quote(_LOOK)} {shlex.quote(json.dumps(LOOKED_FOR[kind]))} {shlex.quote(MARK)}"
    )
    own = f'"$HOME"{FOLDER[1:]}/venv/bin/python'
    # Where the spec has a `python`, what was installed without it is of another interpreter, and sees nothing of it.
    script = f"{PATH}\nif [ -x {OF_SPEC} ]; then own={BESIDE}; else own={own}; fi\n"
    script += f'for p in python3 python "$own"; do command -v "$p" >/dev/null 2>&1 && "$p" {look} 2>/dev/null; done; true'
    return script


async def is_elsewhere(node: Node, ids: Sequence[str]) -> bool:
    """Whether one of these processes runs in another environment than that of the node's `python` now; not where that is not known."""
    lines, _ = await _shell(
        node, whereabouts_script(ids), "engine-look", lambda line: None, verbatim=True
    )
    return says_elsewhere(lines)


def whereabouts_script(ids: Sequence[str]) -> str:
    """What a machine runs to say where its `python` is, and what these processes were started with."""
    states = " ".join(f'"$HOME"{FOLDER[1:]}/{shlex.quote(id)}.json' for id in ids)
    # One that has been made anew in the same place since then is another one, too.
    each = f'[ "$s" -ot request.json ] && echo {OLDER}; cat "$s" && echo'
    return f'cd "$HOME/.nbprov/python" 2>/dev/null || exit 0\npwd -P\nfor s in {states}; do [ -f "$s" ] && {{ {each}; }}; done; true'


def says_elsewhere(lines: Sequence[str]) -> bool:
    """Read what it says."""
    place = lines[0] if lines else ""
    programs = [program for program in map(_program, lines[1:]) if program]
    return bool(place) and (
        OLDER in lines[1:] or any(not program.startswith(f"{place}/") for program in programs)
    )


def _program(state: str) -> str:
    try:
        return Facts.of(json.loads(state)).program
    except (ValueError, RecursionError, EngineFailed):
        return ""


async def _look(node: Node, kind: str) -> Facts:
    lines, _ = await _shell(
        node, look_script(kind), "engine-look", lambda line: None, verbatim=True
    )
    every = []
    for line in lines:
        if line.startswith(MARK):
            try:
                every.append(Facts.of(json.loads(line[len(MARK) :])))
            except (ValueError, RecursionError):
                continue
    if not every:
        raise EngineFailed(
            f"no Python answers on {_place(node)}", hint="python3 must be there, 3.9 or later"
        )
    return next((facts for facts in every if PACKAGE[kind] in facts.packages), every[0])


async def _install(node: Node, kind: str, found: Facts, report: Callable[[str], None]) -> None:
    wanted = requirements(kind)
    report(f"{_place(node)} has no {kind}: installing {wanted[0]} there, once")
    script = install_script(found.program, wanted)
    lines, code = await _shell(
        node,
        script,
        "engine-install",
        lambda line: report(f"{kind}: {line[:120]}"),
        INSTALL_SECONDS,
    )
    if code != 0:
        last = "".join(f"\n    {line[:200]}" for line in lines[-LAST_LINES:])
        hint = f"let setup install it, or name it in python: {{requirements: [{wanted[0]}]}}; the Python there is {found.python}"
        raise EngineMissing(f"{kind} could not be installed on {_place(node)}{last}", hint=hint)


def install_script(program: str, wanted: Sequence[str]) -> str:
    """What a machine runs to install an engine: where the spec has a `python` in an environment that sees all of that one, else in one of its own."""
    place = f'"$HOME"{FOLDER[1:]}/venv'
    make = f"{shlex.quote(program)} -m venv --clear --system-site-packages {place}"
    # Debian and Ubuntu images come with a Python that cannot make virtual environments until this package is there.
    root = '$([ "$(id -u)" = 0 ] || echo sudo -n)'
    repair = f"command -v apt-get >/dev/null && {root} apt-get update -q && {root} apt-get install -y -q python3-venv"
    pip = f"{place}/bin/python -m pip install --progress-bar off --disable-pip-version-check {shlex.join(wanted)}"
    beside = source("overlay_venv")
    argument = shlex.quote(json.dumps(list(wanted)))
    return (
        f"set -e\n{PATH}\nif [ -x {OF_SPEC} ]; then\nexec {OF_SPEC} - {argument} <<'NBPROV_END'\n{beside}NBPROV_END\nfi\n"
        f'mkdir -p "$HOME"{FOLDER[1:]}\n{make} || {{ {repair} && {make}; }}\n{pip}\n'
    )


async def _shell(
    node: Node,
    script: str,
    name: str,
    hear: Callable[[str], None],
    seconds: Seconds = PROBE_SECONDS,
    *,
    verbatim: bool = False,
) -> tuple[list[str], int]:
    agent = agent_of(node)
    following = await agent.shell(script, name=name, verbatim=verbatim)
    lines: deque[str] = deque(maxlen=200)
    end: Output | None = None
    try:
        async with asyncio.timeout(seconds):
            async for output in following:
                if output.kind in ("stdout", "stderr"):
                    for line in output.text.splitlines():
                        lines.append(line[:LONGEST_LINE])
                        hear(line)
                elif output.kind == "end":
                    end = output
    except TimeoutError:
        await agent.cancel_job(following.id)
        raise EngineFailed(
            f"{name} on {_place(node)} took longer than {seconds:g} s", code="engine.timeout"
        ) from None
    code = None if end is None else end.content.get("exit_code")
    return list(lines), code if isinstance(code, int) else -1


def _place(node: Node) -> str:
    return f"node {node.instance.node}"
