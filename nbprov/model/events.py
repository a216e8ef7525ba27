"""Events of a run's history: their kinds, their data for programs and their text for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from .clock import Instant


class EventKind(StrEnum):
    """What happened. Programs read the kind and the data of an event, never its text."""

    RUN_FINISHED = "run_finished"
    ATTEMPT_CHANGED = "attempt_changed"
    PASS_BEGUN = "pass_begun"
    SET_UP = "set_up"
    SETUP_FAILED = "setup_failed"
    RENAMED = "renamed"
    SIDE_OBJECT_REMOVED = "side_object_removed"

    CLUSTER_LISTED_RUNNING = "cluster_listed_running"
    CLUSTER_LISTED_UNKNOWN = "cluster_listed_unknown"
    CLUSTER_STARTED = "cluster_started"
    CLUSTER_START_FAILED = "cluster_start_failed"
    CLUSTER_STOPPED = "cluster_stopped"
    CLUSTER_ENDED = "cluster_ended"
    CLUSTER_KEPT = "cluster_kept"

    GUARD_ENFORCED = "guard_enforced"
    GUARDS_SET_AGAIN = "guards_set_again"
    MACHINES_UNREACHABLE = "machines_unreachable"
    MACHINES_REACHED = "machines_reached"
    CLOUD_UNREACHABLE = "cloud_unreachable"
    CLOUD_REACHED = "cloud_reached"
    ACCOUNT_DIFFERS = "account_differs"
    ACCOUNT_MATCHES = "account_matches"

    LOGS_KEPT = "logs_kept"

    OUTPUTS_PULL_ENDED = "outputs_pull_ended"
    OUTPUTS_ON_STOPPED_DISK = "outputs_on_stopped_disk"
    OUTPUTS_START_FAILED = "outputs_start_failed"

    BUDGET_SHARE_SPENT = "budget_share_spent"
    BUDGET_REPRICED = "budget_repriced"
    PRICE_ABOVE_AGREED = "price_above_agreed"
    PRICE_AGREED = "price_agreed"

    NODE_LOST = "node_lost"
    NODE_REPLACED = "node_replaced"
    NODE_NOT_REPLACED = "node_not_replaced"
    NODE_REPLACEMENT_DEFERRED = "node_replacement_deferred"
    NODE_REPLACEMENTS_EXHAUSTED = "node_replacements_exhausted"
    NODE_SURPLUS_ENDED = "node_surplus_ended"


CLUSTER_EVENTS = frozenset(
    {
        EventKind.CLUSTER_LISTED_RUNNING,
        EventKind.CLUSTER_LISTED_UNKNOWN,
        EventKind.CLUSTER_STARTED,
        EventKind.CLUSTER_START_FAILED,
        EventKind.CLUSTER_STOPPED,
        EventKind.CLUSTER_ENDED,
        EventKind.CLUSTER_KEPT,
    }
)
"""Changes of a cluster's state: what was said of its machines before may not hold any more."""

BUDGET_EVENTS = frozenset({EventKind.BUDGET_SHARE_SPENT, EventKind.BUDGET_REPRICED})
"""What a person is told of a budget."""

NODE_EVENTS = frozenset(
    {
        EventKind.NODE_LOST,
        EventKind.NODE_REPLACED,
        EventKind.NODE_NOT_REPLACED,
        EventKind.NODE_REPLACEMENT_DEFERRED,
        EventKind.NODE_REPLACEMENTS_EXHAUSTED,
        EventKind.NODE_SURPLUS_ENDED,
    }
)
"""What a person is told of a machine that was lost: the last of them is what holds now."""


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of a run's history.

    Attributes
    ----------
    text
        For people alone: no program reads it.
    data
        What programs read beside the kind; plain JSON values.
    token
        The launch it is about; empty where it is about the run.
    """

    at: Instant
    kind: EventKind
    text: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    token: str = ""
