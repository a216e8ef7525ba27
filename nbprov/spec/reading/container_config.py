"""Read `config`: container options and hooks.

The table of fields decides whether settings of other platforms are noted or refused.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Any

from nbprov.model.spec import Hook
from nbprov.spec.schema.registry import Section
from nbprov.spec.yaml.diagnostics import Findings
from nbprov.spec.yaml.nodes import Mapping, Mark, Node, Sequence, as_given, is_null, quoted

from . import literals
from .field_reader import as_mapping, choice, converted, join, members, recognise, text_of

EVENTS = ("stop", "down", "preemption")
MAX_OPTIONS = 200

_PRIVILEGED = re.compile(
    r"--privileged(=true)?|--cap-add(=.*)?|--device(-cgroup-rule)?(=.*)?"
    r"|--(pid|network|net|ipc|userns|uts|cgroupns)=host"
    r"|--security-opt(=.*)?|(-v|--volume)=?.*/(var/run/)?docker\.sock.*|--(pid|network|net|userns)"
)


@dataclass(frozen=True, slots=True)
class ContainerConfig:
    """The parts of `config` that nbprov reads."""

    docker_options: tuple[str, ...] = ()
    hooks: tuple[Hook, ...] = ()


def read_config(node: Node, findings: Findings) -> ContainerConfig:
    """Read `config`, and remark on the parts that are not for nbprov."""
    path = "config"
    mapping = as_mapping(
        node, path, findings, "write config: {docker: {run_options: [--ipc=host]}}"
    )
    options: tuple[str, ...] = ()
    hooks: tuple[Hook, ...] = ()
    for key, value in mapping.pairs if mapping else ():
        field = recognise(key, value, Section.CONFIG, path, findings)
        if field is None or is_null(value):
            continue
        here = join(path, field.name)
        if field.name == "docker":
            options = _docker(value, here, findings)
        else:
            hooks = _hooks(value, key.start, here, findings)
    return ContainerConfig(options, hooks)


def _docker(node: Node, path: str, findings: Findings) -> tuple[str, ...]:
    if not isinstance(node, Mapping):
        findings.error(
            node.start,
            path,
            "type",
            f"{path} must be a map, not {as_given(node)}",
            "write docker: {run_options: [--ipc=host]}",
        )
        return ()
    options: list[str] = []
    at = node.pairs[0][0].start if node.pairs else node.start
    for _, value, here in members(node, Section.DOCKER, path, findings):
        items = value.items if isinstance(value, Sequence) else (value,)
        for number, item in enumerate(items[:MAX_OPTIONS]):
            text = text_of(
                item, f"{here}[{number}]", findings, wants="an option of docker run", numbers=False
            )
            options += _split(item, text, here, findings) if text else []
    if options:
        risky = [option for option in options if _PRIVILEGED.fullmatch(option)]
        named = (
            f"; of these {', '.join(map(quoted, risky[:8]))} would open the machine to the "
            "container"
            if risky
            else ""
        )
        findings.not_acted_on(
            at,
            path,
            "docker",
            f"{path}.run_options are read, but no container is started with them yet{named}",
        )
    return tuple(options)


def _split(node: Node, text: str, path: str, findings: Findings) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        findings.error(
            node.start,
            path,
            "value",
            f"{quoted(text)} has a quotation mark that does not end",
            "close it",
        )
        return []


def _hooks(node: Node, at: Mark, path: str, findings: Findings) -> tuple[Hook, ...]:
    items = node.items if isinstance(node, Sequence) else (node,)
    hooks = []
    for number, item in enumerate(items):
        here = f"{path}[{number}]" if isinstance(node, Sequence) else path
        hook = _hook(item, here, findings)
        if hook is not None:
            hooks.append(hook)
    if hooks:
        findings.not_acted_on(
            at, path, "hooks", f"{path} are read, but only autostop.hook is run yet"
        )
    return tuple(hooks)


def _hook(node: Node, path: str, findings: Findings) -> Hook | None:
    hint = "write hooks: [{run: ./save.sh, events: [stop, down]}]"
    if not isinstance(node, Mapping):
        findings.error(
            node.start, path, "type", f"{path} must be a map with `run`, not {as_given(node)}", hint
        )
        return None
    before = findings.problem_count
    found: dict[str, Any] = {}
    for name, value, here in members(node, Section.HOOK, path, findings):
        if name == "run":
            found[name] = text_of(value, here, findings, wants="a command", numbers=False)
        elif name == "timeout":
            found[name] = converted(
                value, here, findings, literals.seconds, wants="a number of seconds"
            )
        else:
            given = value.items if isinstance(value, Sequence) else (value,)
            words = [choice(item, here, findings, EVENTS) for item in given]
            found[name] = tuple(dict.fromkeys(word for word in words if word))
    if findings.problem_count > before:
        return None
    if not str(found.get("run", "")).strip():
        findings.error(node.start, path, "missing", f"{path} has no command", hint)
        return None
    if "events" in found and not found["events"]:
        findings.error(
            node.start,
            join(path, "events"),
            "empty",
            f"{path}.events names no event",
            f"write events: [{', '.join(EVENTS)}]",
        )
        return None
    return Hook(**found)
