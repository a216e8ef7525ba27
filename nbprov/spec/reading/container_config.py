"""Read `config`: container options and hooks.

The table of fields decides whether settings of other platforms are noted or refused.
"""

from __future__ import annotations

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
            options = _docker(value, key.start, here, findings)
        else:
            hooks = _hooks(value, here, findings)
    return ContainerConfig(options, hooks)


def _docker(node: Node, at: Mark, path: str, findings: Findings) -> tuple[str, ...]:
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
    for _, value, here in members(node, Section.DOCKER, path, findings):
        items = value.items if isinstance(value, Sequence) else (value,)
        for number, item in enumerate(items[:MAX_OPTIONS]):
            text = text_of(
                item, f"{here}[{number}]", findings, wants="an option of docker run", numbers=False
            )
            options += _split(item, text, here, findings) if text else []
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


def _hooks(node: Node, path: str, findings: Findings) -> tuple[Hook, ...]:
    items = node.items if isinstance(node, Sequence) else (node,)
    hooks = []
    for number, item in enumerate(items):
        here = f"{path}[{number}]" if isinstance(node, Sequence) else path
        hook = _hook(item, here, findings)
        if hook is not None:
            hooks.append(hook)
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
