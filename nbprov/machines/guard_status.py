"""The state of the guards on a cluster's head, and what they will do."""

from __future__ import annotations

from functools import partial

from nbprov.model.clock import short_duration
from nbprov.provisioning.ledger import Ledger
from nbprov.provisioning.live_cluster import LiveCluster, agent_of
from nbprov.remote.agent.messages import AgentStatus


async def guard_status(live: LiveCluster, ledger: Ledger) -> AgentStatus:
    """Ask the head's agent, and store its answer in the ledger for times when it is silent."""
    status = await agent_of(live.head).status()
    known = ledger.guards.get(live.run_id)
    report = {
        "idle": status.idle,
        "active": list(status.active),
        "guards": [g.reason for g in status.guards],
    }
    config = known[0] if known is not None else {}
    # A look needs no ledger: its answer is shown, whether it can be kept or not.
    ledger.record(partial(ledger.guards.set, live.run_id, 0, config, report), None)
    return status


def guard_lines(status: AgentStatus) -> list[str]:
    """Return the status in a few plain lines."""
    lines = [
        f"idle for {short_duration(status.idle)}"
        if not status.active
        else f"active: {', '.join(status.active)}"
    ]
    for guard in status.guards:
        when = "not counting now" if guard.left is None else f"in {short_duration(guard.left)}"
        # The reason is that of the end: of a limit with time left it is not true yet.
        is_true = guard.guard == "budget" or guard.left == 0
        reason = f" ({guard.reason})" if is_true else ""
        lines.append(f"{guard.guard}: {guard.mode} {when}{reason}")
    if not status.guards:
        lines.append("no guard is on: this cluster runs until you end it")
    if status.ending is not None:
        lines.append(f"ending now: {status.ending.reason}")
    return lines
