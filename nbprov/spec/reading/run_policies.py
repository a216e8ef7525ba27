"""Read how a run chooses and when it asks: `prefer`, `race`, `wait` and `confirm_above`."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import Any

from nbprov.model.run_policies import ConfirmAbove, OrderPolicy, Race, WaitPolicy
from nbprov.spec.schema.registry import Section
from nbprov.spec.yaml.diagnostics import Findings, InvalidValue
from nbprov.spec.yaml.nodes import Mapping, Node, Scalar, ScalarKind, as_given, is_off

from . import literals
from .field_reader import attempt, choice, converted, members, whole

MAX_WIDTH = 16
"""More places at once are a mistake: each of them may start, and cost money."""

MAX_GANG_WIDTH = 2
"""With several nodes whole clusters race."""

_WEBHOOK = re.compile(r"https?://[^\s/]+\S*", re.IGNORECASE)


def read_prefer(node: Node, path: str, findings: Findings) -> OrderPolicy | None:
    """Read `cheapest`, `soonest` or `balanced`."""
    word = choice(node, path, findings, tuple(OrderPolicy))
    return None if word is None else OrderPolicy(word)


def read_race(node: Node, path: str, findings: Findings) -> Race | None:
    """Read `3`, `false`, or `{width: 3, hedge: 20s}`."""
    if is_off(node):
        return Race(1)
    if not isinstance(node, Mapping):
        width = whole(
            node,
            path,
            findings,
            most=MAX_WIDTH,
            example=f"{path}: 3, or {path}: false for one at a time",
        )
        return None if width is None else Race(width)
    race = Race()
    for name, value, here in members(node, Section.RACE, path, findings):
        if name == "width":
            width = (
                1
                if is_off(value)
                else whole(value, here, findings, most=MAX_WIDTH, example="width: 3")
            )
            race = race if width is None else replace(race, width=width)
        elif not (isinstance(value, Scalar) and value.text.strip().lower() == "auto"):
            race = replace(
                race,
                hedge=converted(
                    value,
                    here,
                    findings,
                    literals.duration_or_zero,
                    wants="a duration, or auto",
                ),
            )
    return race


def narrowed(race: Race, given: Node | None, path: str, num_nodes: int, findings: Findings) -> Race:
    """The race of a cluster of several nodes: at most two clusters at once."""
    if num_nodes < 2 or race.width <= MAX_GANG_WIDTH:
        return race
    if given is not None:
        words = (
            f"with several nodes whole clusters race: at most {MAX_GANG_WIDTH} at once, not "
            f"{race.width}"
        )
        findings.note(given.start, path, "race-width", words)
    return replace(race, width=MAX_GANG_WIDTH)


def read_wait(node: Node, path: str, findings: Findings) -> WaitPolicy | None:
    """Read `4h`, `0`, `false`, or `{for: 4h, notify: true}`."""
    if is_off(node):
        return WaitPolicy()
    if not isinstance(node, Mapping):
        seconds = converted(node, path, findings, literals.duration_or_zero, wants="a duration")
        return None if seconds is None else WaitPolicy(seconds)
    wait = WaitPolicy()
    for name, value, here in members(node, Section.WAIT, path, findings):
        if name == "for":
            wait = replace(
                wait,
                seconds=converted(
                    value, here, findings, literals.duration_or_zero, wants="a duration"
                )
                or 0.0,
            )
        else:
            told = attempt(value, here, findings, partial(_notify, value))
            wait = replace(wait, notify=bool(told), webhook=told if isinstance(told, str) else "")
            if wait.webhook:
                _say_what_becomes_of_webhook(value, here, findings)
    return wait


def _say_what_becomes_of_webhook(node: Node, path: str, findings: Findings) -> None:
    """Remark that the address is not stored.

    If it is written in the cell, warn that everybody with the notebook has it.
    """
    kept = "a run that another kernel takes up tells of its end in the notebook only"
    if findings.is_from_variable(node.start):
        findings.note(node.start, path, "webhook", f"{path}: the address is not stored; {kept}")
    else:
        words = (
            f"{path}: the address is saved in the notebook, and who has it can post; `notify: "
            "$hook` takes it from a variable"
        )
        findings.warn(node.start, path, "webhook", f"{words}. nbprov does not store it: {kept}")


def _notify(node: Node) -> str | bool:
    if (
        isinstance(node, Scalar)
        and node.kind is ScalarKind.TEXT
        and _WEBHOOK.fullmatch(node.text.strip())
    ):
        return node.text.strip()
    # The text may be most of a webhook's address, with which everybody can post: it is not
    # repeated.
    if isinstance(node, Scalar) and (
        node.kind is ScalarKind.BOOL
        or (node.plain and node.text.lower() in ("yes", "no", "on", "off"))
    ):
        return literals.boolean(node)
    raise InvalidValue(
        "it is neither true, false nor an http(s) address",
        "write notify: true, or the URL of a webhook",
    )


def read_confirm(node: Node, path: str, findings: Findings) -> ConfirmAbove | None:
    """Read `20%`, `$5`, `false`, or `{jump: 20%, hourly: 5, total: 50}`."""
    if is_off(node):
        return ConfirmAbove()
    if isinstance(node, Scalar):
        if node.text.rstrip().endswith("%"):
            jump = converted(node, path, findings, literals.share, wants="a share or US dollars")
            return None if jump is None else ConfirmAbove(jump=jump)
        hourly = converted(
            node,
            path,
            findings,
            literals.money,
            wants="a share (20%) or US dollars an hour ($5)",
        )
        return None if hourly is None else ConfirmAbove(hourly=hourly)
    if not isinstance(node, Mapping):
        findings.error(
            node.start,
            path,
            "type",
            f"{path} must be a share or an amount, not {as_given(node)}",
            f"write {path}: 20%",
        )
        return None
    found: dict[str, Any] = {}
    for name, value, here in members(node, Section.CONFIRM, path, findings):
        convert: Any = literals.share if name == "jump" else literals.money
        wants = "a share: 20%" if name == "jump" else "an amount of US dollars"
        found[name] = converted(value, here, findings, convert, wants=wants)
    if not node.pairs:
        findings.error(
            node.start,
            path,
            "missing",
            f"{path} does not say above what",
            f"write {path}: {{jump: 20%}}, or false",
        )
    return ConfirmAbove(**found)
