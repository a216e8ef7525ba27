"""Read what ends a cluster: autostop, max_lifetime and budget."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nbprov.model.guards import Autostop, Guards
from nbprov.model.money import Micros
from nbprov.spec.schema.registry import Section
from nbprov.spec.yaml.diagnostics import Findings, InvalidValue
from nbprov.spec.yaml.nodes import (
    Mapping,
    Mark,
    Node,
    Scalar,
    ScalarKind,
    Sequence,
    describe,
    quoted,
)

from . import literals
from .field_reader import attempt, choice, converted, members, read_boolean, text_of

DEFAULT_IDLE_MINUTES = 5.0
"""What `autostop: true`, and a map without minutes, mean."""

SHORTEST_IDLE: float = 60.0
"""`autostop: 0` means one minute, because idleness cannot be seen in less."""

_MINUTES = "write minutes (10), a duration (2h), true, false, or a map with idle_minutes"


@dataclass(frozen=True, slots=True)
class AutostopField:
    """`autostop` as written; its value is None if it is switched off."""

    autostop: Autostop | None
    at: Mark
    path: str


def read_autostop(node: Node, path: str, findings: Findings) -> AutostopField | None:
    """Read `10`, `2h`, `true`, `false` or the map; None, and a problem, for anything else."""
    if isinstance(node, Mapping):
        mapped = _autostop_map(node, path, findings)
        return AutostopField(mapped, node.start, path) if mapped else None
    if not isinstance(node, Scalar):
        findings.error(
            node.start,
            path,
            "type",
            f"{path} must be minutes or a map, not {describe(node)}",
            _MINUTES,
        )
        return None
    if node.kind is ScalarKind.BOOL or (
        node.plain and node.text.lower() in ("yes", "no", "on", "off")
    ):
        wanted = literals.boolean(node)
        return AutostopField(
            Autostop(DEFAULT_IDLE_MINUTES * 60) if wanted else None, node.start, path
        )
    idle = attempt(node, path, findings, lambda: _idle_seconds(node.text))
    if idle is None:
        return None
    return AutostopField(Autostop(_at_least_a_minute(idle, node, path, findings)), node.start, path)


def _idle_seconds(text: str) -> float:
    return (
        literals.duration(text.lower())
        if text[-1:].isalpha() and not text.startswith("-")
        else _minutes(text)
    )


def _minutes(text: str) -> float:
    if text.strip("0.") == "" and any(c == "0" for c in text):
        return 0.0
    if text.startswith("-"):
        raise InvalidValue(
            f"{quoted(text)} is below zero", "write minutes, or `autostop: false` to switch it off"
        )
    return literals.duration(f"{literals.positive(text, 'a number of minutes', '10')}m")


def _at_least_a_minute(idle: float, node: Node, path: str, findings: Findings) -> float:
    if idle == 0:
        findings.note(
            node.start, path, "one-minute", "autostop after 0 minutes means after one minute"
        )
        return SHORTEST_IDLE
    return idle


def _autostop_map(node: Mapping, path: str, findings: Findings) -> Autostop | None:
    before = findings.problem_count
    autostop = Autostop(DEFAULT_IDLE_MINUTES * 60)
    for name, value, here in members(node, Section.AUTOSTOP, path, findings):
        if name == "idle_minutes":
            minutes = converted(value, here, findings, _minutes, wants="a number of minutes")
            autostop = (
                autostop
                if minutes is None
                else replace(autostop, idle=_at_least_a_minute(minutes, value, here, findings))
            )
        elif name == "down":
            autostop = replace(autostop, down=bool(read_boolean(value, here, findings)))
        elif name == "wait_for":
            autostop = replace(
                autostop,
                wait_for=choice(value, here, findings, ("jobs_and_ssh", "jobs", "none"))
                or autostop.wait_for,
            )
        elif name == "hook":
            autostop = replace(
                autostop,
                hook=text_of(value, here, findings, wants="a command", numbers=False) or "",
            )
        elif name == "down_after":
            autostop = replace(
                autostop,
                down_after=converted(value, here, findings, literals.duration, wants="a duration"),
            )
        else:
            limit = converted(value, here, findings, literals.seconds, wants="a number of seconds")
            autostop = replace(autostop, hook_timeout=limit or autostop.hook_timeout)
    if findings.problem_count > before:
        return None
    if autostop.down and autostop.down_after is not None:
        findings.note(
            node.start,
            path,
            "down-after",
            "down_after changes nothing with `down: true`: the machine is ended, not stopped",
        )
    return autostop


@dataclass(frozen=True, slots=True)
class BudgetField:
    """`budget` as written."""

    total: Micros
    warn: tuple[float, ...] = ()
    at_limit: str = "down"


def read_budget(node: Node, path: str, findings: Findings) -> BudgetField | None:
    """Read `10`, `$5`, or `{total: 10, warn: [50%, 80%], at_limit: down}`.

    None, and a problem, for anything else.
    """
    if not isinstance(node, Mapping):
        total = converted(node, path, findings, literals.money, wants="an amount of US dollars")
        return None if total is None else BudgetField(total)
    total, said = None, False
    warn: tuple[float, ...] = ()
    at_limit = "down"
    for name, value, here in members(node, Section.BUDGET, path, findings):
        if name == "total":
            said = True
            total = converted(
                value, here, findings, literals.money, wants="an amount of US dollars"
            )
        elif name == "warn":
            warn = _warn_shares(value, here, findings)
        else:
            at_limit = choice(value, here, findings, ("down", "stop")) or at_limit
    if not said:
        findings.error(
            node.start,
            path,
            "missing",
            f"{path} does not say its total",
            "write budget: {total: 10}",
        )
    return None if total is None else BudgetField(total, warn, at_limit)


def _warn_shares(node: Node, path: str, findings: Findings) -> tuple[float, ...]:
    items = node.items if isinstance(node, Sequence) else (node,)
    shares = [
        converted(item, path, findings, _share_of_budget, wants="a share of the budget")
        for item in items
    ]
    return tuple(sorted({found for found in shares if found is not None}))


def _share_of_budget(text: str) -> float:
    part = literals.share(text)
    if part > 1:
        raise InvalidValue(
            f"{quoted(text)} is more than the budget", "write shares up to 100%: [50%, 80%, 95%]"
        )
    return part


def guards_of(
    autostop: AutostopField | None,
    max_lifetime: float | None,
    budget: BudgetField | None,
    findings: Findings,
) -> Guards:
    """The guards of a spec, or the default ones if it gives none."""
    if autostop is None and max_lifetime is None and budget is None:
        return Guards()
    idle = autostop.autostop if autostop else None
    if autostop is not None and idle is None and max_lifetime is None and budget is None:
        words = (
            "autostop is off and there is no max_lifetime or budget: the machine runs, and "
            "costs, until you end it"
        )
        findings.warn(autostop.at, autostop.path, "unguarded", words)
    if budget is None:
        return Guards(idle, max_lifetime, is_default=False)
    return Guards(
        idle,
        max_lifetime,
        budget.total,
        is_default=False,
        warn=budget.warn,
        at_limit=budget.at_limit,
    )
