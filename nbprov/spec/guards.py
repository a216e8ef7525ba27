"""Reading what ends a cluster by itself: autostop, max_lifetime, budget."""

from __future__ import annotations

from dataclasses import dataclass

from nbprov.model.money import Micros
from nbprov.model.spec import Autostop, Guards

from . import scalars
from .fields import Where
from .nodes import Kind, Mapping, Mark, Node, Scalar, describe, is_null, quoted
from .problems import Findings
from .values import attempt, choice, converted, join, recognise, text_of

DEFAULT_IDLE_MINUTES = 5.0
"""What `autostop: true` and a map without minutes mean."""

SHORTEST_IDLE: float = 60.0
"""`autostop: 0` means one minute: nothing can be seen to be idle in less."""

_MINUTES = "write minutes (10), a duration (2h), true, false, or a map with idle_minutes"


@dataclass(frozen=True, slots=True)
class GivenAutostop:
    """An autostop as written: `autostop` is None where it was switched off."""

    autostop: Autostop | None
    at: Mark
    path: str


def read_autostop(node: Node, path: str, findings: Findings) -> GivenAutostop | None:
    """Read `10`, `2h`, `true`, `false` or the map; None, and a problem, for anything else."""
    if isinstance(node, Mapping):
        mapped = _autostop_map(node, path, findings)
        return GivenAutostop(mapped, node.start, path) if mapped else None
    if not isinstance(node, Scalar):
        findings.error(node.start, path, "type", f"{path} must be minutes or a map, not {describe(node)}", _MINUTES)
        return None
    if node.kind is Kind.BOOL or (node.plain and node.text.lower() in ("yes", "no", "on", "off")):
        wanted = scalars.boolean(node)
        return GivenAutostop(Autostop(DEFAULT_IDLE_MINUTES * 60) if wanted else None, node.start, path)
    idle = attempt(node, path, findings, lambda: _idle_seconds(node.text))
    if idle is None:
        return None
    return GivenAutostop(Autostop(_at_least_a_minute(idle, node, path, findings)), node.start, path)


def _idle_seconds(text: str) -> float:
    return scalars.duration(text) if text[-1:].isalpha() and not text.startswith("-") else _minutes(text)


def _minutes(text: str) -> float:
    if text.strip("0.") == "" and any(c == "0" for c in text):
        return 0.0
    if text.startswith("-"):
        raise scalars.Bad(f"{quoted(text)} is below zero", "write minutes, or `autostop: false` to switch it off")
    return scalars.duration(f"{scalars.positive(text, 'a number of minutes', '10')}m")


def _at_least_a_minute(idle: float, node: Node, path: str, findings: Findings) -> float:
    if idle == 0:
        findings.note(node.start, path, "one-minute", "autostop after 0 minutes means after one minute")
        return SHORTEST_IDLE
    return idle


def _autostop_map(node: Mapping, path: str, findings: Findings) -> Autostop | None:
    before = findings.problem_count
    idle, down, wait_for, hook, hook_timeout = DEFAULT_IDLE_MINUTES * 60, False, "jobs_and_ssh", "", 3600.0
    for key, value in node.pairs:
        field = recognise(key, value, Where.AUTOSTOP, path, findings)
        if field is None or is_null(value):
            continue
        here = join(path, field.name)
        if field.name == "idle_minutes":
            minutes = converted(value, here, findings, _minutes, wants="a number of minutes")
            idle = idle if minutes is None else _at_least_a_minute(minutes, value, here, findings)
        elif field.name == "down":
            down = bool(read_boolean(value, here, findings))
        elif field.name == "wait_for":
            wait_for = choice(value, here, findings, field.values) or wait_for
        elif field.name == "hook":
            hook = text_of(value, here, findings, wants="a command", numbers=False) or ""
        else:
            hook_timeout = converted(value, here, findings, _seconds, wants="a number of seconds") or hook_timeout
    return Autostop(idle, down, wait_for, hook, hook_timeout) if findings.problem_count == before else None


def _seconds(text: str) -> float:
    return scalars.duration(text if text[-1:].isalpha() else f"{text}s")


def read_boolean(node: Node, path: str, findings: Findings) -> bool | None:
    """Read true or false; None, and a problem, for anything else."""
    if not isinstance(node, Scalar):
        findings.error(node.start, path, "type", f"{path} must be true or false, not {describe(node)}", "write true or false")
        return None
    return attempt(node, path, findings, lambda: scalars.boolean(node))


def read_budget(node: Node, path: str, findings: Findings) -> Micros | None:
    """Read `10`, `$5` or a map with `total`; None, and a problem, for anything else."""
    if not isinstance(node, Mapping):
        return converted(node, path, findings, scalars.money, wants="an amount of US dollars")
    total, said = None, False
    for key, value in node.pairs:
        field = recognise(key, value, Where.BUDGET, path, findings)
        if field is not None and not is_null(value):
            said = True
            total = converted(value, join(path, field.name), findings, scalars.money, wants="an amount of US dollars")
    if not said:
        findings.error(node.start, path, "missing", f"{path} does not say its total", "write budget: {total: 10}")
    return total


def guards_of(autostop: GivenAutostop | None, max_lifetime: float | None, budget: Micros | None, findings: Findings) -> Guards:
    """The guards of a spec: what it gives, or the default where it gives none of the three."""
    if autostop is None and max_lifetime is None and budget is None:
        return Guards()
    idle = autostop.autostop if autostop else None
    if autostop is not None and idle is None and max_lifetime is None and budget is None:
        words = "autostop is off and there is no max_lifetime or budget: the machine runs, and costs, until you end it"
        findings.warn(autostop.at, autostop.path, "unguarded", words)
    return Guards(idle, max_lifetime, budget, is_default=False)
