"""Find the Python interpreter of a machine that has the engine, or install the engine there.

It is installed beside the environment of the spec's `python`, or into an environment of its own.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from collections import deque
from collections.abc import Callable, Sequence
from importlib import metadata

from nbprov.model.clock import Seconds
from nbprov.on_machine.loader import source
from nbprov.provisioning.live_cluster import Node, agent_of
from nbprov.remote.agent.messages import OutputPiece

from .engine_state import FOLDER, EngineFailed, EngineMissing, Interpreter

PACKAGE = {"dask": "distributed", "ray": "ray"}
INSTALLED = {"ray": "ray[client]"}
"""The requirement given to pip where it is more than the package's name."""
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
"""Packages whose versions must match at both ends, for the protocol or the data sent over it."""

RAYS_DASHBOARD = (
    "aiohttp-cors",
    "opencensus",
    "opentelemetry-exporter-prometheus",
    "prometheus-client",
)
"""What Ray's dashboard needs beyond Ray itself, part of `ray[default]`.

Only the versions on the machine matter.
"""
LOOKED_FOR = {**TRAVELLING, "ray": TRAVELLING["ray"] + RAYS_DASHBOARD}

PROBE_SECONDS: Seconds = 60.0
"""How long it may take to ask the interpreters: a few starts of Python from a cold disk."""
INSTALL_SECONDS: Seconds = 900.0
"""As long as the agent allows its own installation: some hundred megabytes from a slow mirror."""

MARK = "nbprov-found: "
OLDER = "nbprov-older"
LONGEST_LINE = 10_000
"""Characters that are kept of a machine's line; its versions take some hundred."""
LAST_LINES = 6
"""Lines of pip that are shown where it fails."""
PATH = 'PATH="$HOME/.nbprov/python/bin:$PATH"; export PATH'
"""Puts the environment of the spec's `python` before the machine's own."""
OF_SPEC = '"$HOME/.nbprov/python/bin/python"'
"""Its interpreter."""
BESIDE = '"$HOME/.nbprov/python/engine/bin/python"'
"""The engine that was installed beside it; see `on_machine/engines/overlay_venv.py`."""

_LOOK = """
import json, os, platform, sys
from importlib import metadata
names, found = json.loads(sys.argv[1]), {}
for name in names:
    try:
        found[name] = metadata.version(name)
    except Exception:
        pass
# The real path: a link may lead to another environment when the process is restarted.
folder, name = os.path.split(sys.executable)
program = os.path.join(os.path.realpath(folder), name)
found = {"program": program, "python": platform.python_version(), "packages": found}
print(sys.argv[2] + json.dumps(found))
"""


def versions_here(kind: str) -> dict[str, str]:
    """Return the versions of an engine's packages in this kernel's environment."""
    found = {}
    for name in TRAVELLING[kind]:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def requirements(kind: str) -> list[str]:
    """Return what to install on a machine: this kernel's versions, or the newest if it has none.

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


async def ensure_installed(node: Node, kind: str, report: Callable[[str], None]) -> Interpreter:
    """Return the interpreter of a machine that has the engine, installing the engine if needed.

    Raises
    ------
    EngineMissing
        If it could not be installed; the message holds pip's last lines.
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
    """Return the script by which a machine's interpreters describe themselves, a line each."""
    look = (
        f"-c {shlex.quote(_LOOK)} {shlex.quote(json.dumps(LOOKED_FOR[kind]))} {shlex.quote(MARK)}"
    )
    own = f'"$HOME"{FOLDER[1:]}/venv/bin/python'
    # An engine that was installed before the spec had a `python` does not see its packages.
    script = f"{PATH}\nif [ -x {OF_SPEC} ]; then own={BESIDE}; else own={own}; fi\n"
    script += 'for p in python3 python "$own"; do command -v "$p" >/dev/null 2>&1'
    script += f' && "$p" {look} 2>/dev/null; done; true'
    return script


async def is_elsewhere(node: Node, ids: Sequence[str]) -> bool:
    """Return whether a process runs in another environment than the node's present `python`.

    False where this is not known.
    """
    lines, _ = await _shell(
        node, whereabouts_script(ids), "engine-look", lambda line: None, verbatim=True
    )
    return says_elsewhere(lines)


def whereabouts_script(ids: Sequence[str]) -> str:
    """Return the script that prints where a machine's `python` is and the processes' states."""
    states = " ".join(f'"$HOME"{FOLDER[1:]}/{shlex.quote(id)}.json' for id in ids)
    # An environment that was remade in the same place counts as another one.
    each = f'[ "$s" -ot request.json ] && echo {OLDER}; cat "$s" && echo'
    loop = f'for s in {states}; do [ -f "$s" ] && {{ {each}; }}; done; true'
    return f'cd "$HOME/.nbprov/python" 2>/dev/null || exit 0\npwd -P\n{loop}'


def says_elsewhere(lines: Sequence[str]) -> bool:
    """Read what `whereabouts_script` printed."""
    place = lines[0] if lines else ""
    programs = [program for program in map(_program, lines[1:]) if program]
    return bool(place) and (
        OLDER in lines[1:] or any(not program.startswith(f"{place}/") for program in programs)
    )


def _program(state: str) -> str:
    try:
        return Interpreter.of(json.loads(state)).program
    except (ValueError, RecursionError, EngineFailed):
        return ""


async def _look(node: Node, kind: str) -> Interpreter:
    lines, _ = await _shell(
        node, look_script(kind), "engine-look", lambda line: None, verbatim=True
    )
    every = []
    for line in lines:
        if line.startswith(MARK):
            try:
                every.append(Interpreter.of(json.loads(line[len(MARK) :])))
            except (ValueError, RecursionError):
                continue
    if not every:
        raise EngineFailed(
            f"no Python answers on {_place(node)}", hint="python3 must be there, 3.9 or later"
        )
    return next((one for one in every if PACKAGE[kind] in one.packages), every[0])


async def _install(
    node: Node, kind: str, found: Interpreter, report: Callable[[str], None]
) -> None:
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
        hint = (
            f"let setup install it, or set python: {{requirements: [{wanted[0]}]}} in the spec;"
            f" the Python there is {found.python}"
        )
        raise EngineMissing(f"{kind} could not be installed on {_place(node)}{last}", hint=hint)


def install_script(program: str, wanted: Sequence[str]) -> str:
    """Return the script that installs an engine on a machine.

    Where the spec has a `python`, it goes into an environment that sees all packages of that one;
    else into one of its own.
    """
    place = f'"$HOME"{FOLDER[1:]}/venv'
    make = f"{shlex.quote(program)} -m venv --clear --system-site-packages {place}"
    # Debian's and Ubuntu's Python cannot make virtual environments without python3-venv.
    root = '$([ "$(id -u)" = 0 ] || echo sudo -n)'
    repair = (
        f"command -v apt-get >/dev/null && {root} apt-get update -q"
        f" && {root} apt-get install -y -q python3-venv"
    )
    options = "--progress-bar off --disable-pip-version-check"
    pip = f"{place}/bin/python -m pip install {options} {shlex.join(wanted)}"
    beside = source("engines/overlay_venv")
    argument = shlex.quote(json.dumps(list(wanted)))
    return (
        f"set -e\n{PATH}\nif [ -x {OF_SPEC} ]; then\n"
        f"exec {OF_SPEC} - {argument} <<'NBPROV_END'\n{beside}NBPROV_END\nfi\n"
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
    end: OutputPiece | None = None
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
