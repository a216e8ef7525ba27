"""The guards of a cluster as its agents get them and as the ledger keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nbprov.clouds.base import Capabilities
from nbprov.model.clock import Instant, Seconds, short_duration, utc_text
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import UsageError
from nbprov.model.events import BUDGET_EVENTS, NODE_EVENTS, EventKind
from nbprov.model.guards import Autostop, Guards
from nbprov.model.launches import OnShutdown
from nbprov.model.money import MICROS_PER_USD, SECONDS_PER_HOUR, Micros, exact_usd, format_usd
from nbprov.model.offers import Candidate
from nbprov.model.places import Market
from nbprov.model.spec import Spec
from nbprov.provisioning.ledger import ClusterRow, Ledger
from nbprov.remote.agent.config import HOLD_SECONDS, GuardConfig

from .condition_notes import condition_notes

LEAST_BUDGET_SECONDS: Seconds = 600.0
"""A budget that buys less than this of the first candidate is refused.

The machine would be ended before it is of use.
"""


STOP, DOWN = "stop", "down"

NOTHING = ":"
"""The command of a machine whose guard is due and whose poweroff would not end its bill.

The agent says that the guard is due, and a kernel ends the machine through the cloud.
"""


def end_command(capabilities: Capabilities) -> str:
    """The shell command with which a machine ends its own bill; `NOTHING` where it cannot."""
    return capabilities.poweroff if capabilities.poweroff_ends_bill else NOTHING


def can_stop(capabilities: Capabilities, candidate: Candidate) -> bool:
    """Whether a machine may be stopped rather than ended.

    A stopped spot machine may never come back.
    """
    return capabilities.stop and candidate.offer.market is not Market.SPOT


def on_shutdown(guards: Guards, capabilities: Capabilities, candidate: Candidate) -> OnShutdown:
    """What the cloud shall do when the machine powers itself off.

    `down: false` in the spec keeps the disk, where the cloud can do so.
    """
    by_idleness = guards.autostop is not None and not guards.autostop.down
    # The cloud has one rule for all guards: what ends by idleness must not leave a disk on the
    # bill for the budget's sake.
    by_budget = guards.autostop is None and guards.budget is not None and guards.at_limit == STOP
    keeps = (by_idleness or by_budget) and can_stop(capabilities, candidate)
    return OnShutdown.STOP if keeps else OnShutdown.TERMINATE


def check_budget(guards: Guards, candidate: Candidate, *, spent: Micros = 0) -> None:
    """Refuse a budget that buys next to nothing.

    Parameters
    ----------
    spent
        What failed attempts of the run have cost already.

    Raises
    ------
    UsageError
        Naming what the budget buys and the least that makes sense.
    """
    if guards.budget is None or candidate.hourly <= 0:
        return
    seconds = max(0, guards.budget - spent) * SECONDS_PER_HOUR / candidate.hourly
    if seconds < LEAST_BUDGET_SECONDS:
        least = spent + int(candidate.hourly * LEAST_BUDGET_SECONDS / SECONDS_PER_HOUR)
        rest = f", {format_usd(spent)} of it spent," if spent else ""
        minutes = round(seconds / 60)
        raise UsageError(
            f"a budget of {exact_usd(guards.budget)}{rest} buys"
            f" {minutes} minute{'' if minutes == 1 else 's'} of {candidate.offer.instance_type}"
            f" at {exact_usd(candidate.hourly)}/h",
            hint=f"raise it to {exact_usd(max(least, MICROS_PER_USD // 100))} or more,"
            " or cap the price with max_price",
            code="budget.too-small",
        )


def guard_config(
    guards: Guards,
    capabilities: Capabilities,
    candidate: Candidate,
    *,
    spent: Micros = 0,
    hold: Seconds = 0.0,
) -> GuardConfig:
    """The guards that the agent of every node gets.

    Each node's budget counts the whole cluster's price. What cannot be stopped is ended.

    Parameters
    ----------
    spent
        What counts against the budget already.
    hold
        How long a machine waits for its outputs to be pulled (`hold_of`).
    """
    if not can_stop(capabilities, candidate):
        autostop = None if guards.autostop is None else replace(guards.autostop, down=True)
        guards = replace(guards, autostop=autostop, at_limit=DOWN)
    return GuardConfig.of(
        guards, poweroff=end_command(capabilities), hourly=candidate.hourly, spent=spent, hold=hold
    )


def hold_of(spec: Spec) -> Seconds:
    """How long machines of a spec wait, at their end, for their outputs to be pulled."""
    return HOLD_SECONDS if spec.outputs else 0.0


def hold_known(ledger: Ledger, run_id: str) -> Seconds:
    """As `hold_of`, by the guards that the cluster's agents got last."""
    known = ledger.guards.get(run_id)
    return float(known[0].get("outputs", {}).get("hold_seconds", 0.0)) if known is not None else 0.0


def of_node(config: GuardConfig, ledger: Ledger, run_id: str, token: str, node: int) -> GuardConfig:
    """The guards of one node.

    A machine that replaced a lost one gets the rest of lifetime and budget.
    """
    launch = ledger.launches.by_token(token)
    late = (
        ledger.replacements.late_nodes(token, launch.created).get(node)
        if launch is not None
        else None
    )
    return config if late is None else config.later(*late)


def as_told(config: GuardConfig, ledger: Ledger, run_id: str) -> GuardConfig:
    """The guards as an agent is sent them: with all that was spent until now.

    The agent takes the higher of this and its own count, which may be of an old price, or lost.
    """
    if config.limit is None:
        return config
    return replace(config, spent=max(config.spent, ledger.prices.cost(run_id)))


def output_notes(spec: Spec) -> list[str]:
    """When outputs are pulled, and what has to run for that."""
    if not spec.outputs:
        return []
    return [
        "outputs: pulled before the machine ends, by a kernel with nbprov; while none runs the"
        f" machine waits {short_duration(HOLD_SECONDS)} for one at its end, and then they go with"
        " it. Use down: false, or copy to a bucket, where that is too short"
    ]


def kept(config: GuardConfig, guards: Guards) -> dict[str, Any]:
    """The guards of a cluster as the ledger keeps them.

    These are what its agents got, and what nbprov itself watches.
    """
    watched: dict[str, Any] = (
        {"warn": list(guards.warn)} if guards.warn and guards.budget is not None else {}
    )
    if (
        guards.autostop is not None
        and guards.autostop.down_after is not None
        and not guards.autostop.down
    ):
        watched["down_after"] = guards.autostop.down_after
    return config.to_json() | watched


def guards_from(config: Mapping[str, Any]) -> Guards:
    """The guards that `kept` made plain data of."""
    idle = config.get("idle_seconds")
    budget = config.get("budget", {})
    autostop = Autostop(
        idle or 0.0,
        down=config.get("mode") == "terminate",
        wait_for=config.get("wait_for", "jobs_and_ssh"),
        hook=config.get("hook", ""),
        hook_timeout=config.get("hook_timeout", 3600.0),
        down_after=config.get("down_after"),
    )
    return Guards(
        autostop=None if idle is None else autostop,
        max_lifetime=config.get("max_lifetime_seconds"),
        budget=budget.get("limit_micros"),
        is_default=False,
        warn=tuple(config.get("warn", ())),
        at_limit=STOP if budget.get("mode") == "stop" else DOWN,
    )


def guards_known(ledger: Ledger, run_id: str) -> Guards | None:
    """The guards that a cluster has by the ledger; None where its agents got none yet."""
    known = ledger.guards.get(run_id)
    return guards_from(known[0]) if known is not None and "poweroff" in known[0] else None


def shares_spent(guards: Guards, spent: Micros) -> list[tuple[float, Micros]]:
    """The spent shares of the budget that the spec wants warnings of, each with the budget."""
    if guards.budget is None:
        return []
    return [(share, guards.budget) for share in guards.warn if spent >= share * guards.budget]


def share_words(share: float, budget: Micros, spent: Micros) -> str:
    """What a person is told of a spent share of the budget."""
    return f"budget: {share:.0%} of {exact_usd(budget)} spent ({format_usd(spent)})"


def stopped_until(guards: Guards, row: ClusterRow) -> Instant | None:
    """When a stopped cluster is to be ended; None where it may stay.

    It counts from when nbprov saw that the cluster had stopped.
    """
    autostop = guards.autostop
    if (
        row.state is not ClusterState.STOPPED
        or row.confirmed is None
        or autostop is None
        or autostop.down_after is None
    ):
        return None
    return row.confirmed + autostop.down_after


def cluster_notes(ledger: Ledger, row: ClusterRow, guards: Guards) -> tuple[str, ...]:
    """What a person should know of a cluster now.

    These are spent shares of its budget, when a stopped cluster is ended, lost machines, outages,
    and logs that could not be kept.
    """
    said = (
        [event.text for event in ledger.events.of_kinds(row.run_id, BUDGET_EVENTS)]
        if guards.warn
        else []
    )
    due = stopped_until(guards, row)
    if due is not None:
        said.append(
            f"ended at {utc_text(due)} (down_after) by a kernel with nbprov;"
            " while none runs it stays, and its disk on the bill"
        )
    return (
        *said,
        *missing_notes(ledger, row),
        *condition_notes(ledger, row),
        *log_notes(ledger, row),
    )


def log_notes(ledger: Ledger, row: ClusterRow) -> tuple[str, ...]:
    """Which logs of jobs were not kept before the cluster's end or stop, in a line."""
    told = [e for e in ledger.events.of_run(row.run_id) if e.kind is EventKind.LOGS_KEPT]
    return (told[-1].text,) if told and told[-1].data.get("left") else ()


def missing_notes(ledger: Ledger, row: ClusterRow) -> tuple[str, ...]:
    """What is said of a cluster that lacks machines: how many work, and what is done about it."""
    count, there = row.candidate.count, len(ledger.launches.ids_of(row.token))
    if not 0 < there < count or row.state is ClusterState.ENDED:
        return ()
    said = [event.text for event in ledger.events.of_kinds(row.run_id, NODE_EVENTS)]
    latest = f": {said[-1]}" if said and said[-1] else ""
    return (f"{there} of {count} machines{latest}",)


def guard_notes(guards: Guards) -> list[str]:
    """The guards that nbprov itself watches, and so only while it runs."""
    said = []
    if guards.budget is not None and guards.warn:
        said.append(
            f"budget: warns at {', '.join(f'{share:.0%}' for share in guards.warn)},"
            " while a kernel with nbprov runs"
        )
    autostop = guards.autostop
    if autostop is not None and autostop.down_after is not None and not autostop.down:
        said.append(
            f"down_after: once stopped it is ended after {short_duration(autostop.down_after)},"
            " by a kernel with nbprov; while none runs it stays stopped, and its disk on the bill"
        )
    return said
