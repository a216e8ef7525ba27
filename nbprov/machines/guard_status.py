"""What the guards on a cluster's head see and will do."""

from __future__ import annotations

from nbprov.model.clock import short_duration
from nbprov.provisioning.ledger import Ledger
from nbprov.provisioning.live_cluster import LiveCluster
from nbprov.remote.agent.messages import AgentStatus

from .agents import agent_of


async def guard_status(live: LiveCluster, ledger: Ledger) -> AgentStatus:
    """Ask the head's agent, and keep what it says in the ledger for when it cannot be asked."""
    status = await agent_of(live.head).status()
    known = ledger.guards.get(live.run_id)
    report = {
        "idle": status.idle,
        "active": list(status.active),
        "guards": [g.reason for g in status.guards],
    }
    ledger.guards.set(live.run_id, 0, known[0] if known is not None else {}, report)
    return status


def guard_lines(status: AgentStatus) -> list[str]:
    """The status in a few plain lines."""
    lines = [
        f"idle for {short_duration(status.idle)}"
        if not status.active
        else f"active: {', '.join(status.active)}"
    ]
    for guard in status.guards:
        when = "not counting now" if guard.left is None else f"in {short_duration(guard.left)}"
        lines.append(f"{guard.guard}: {guard.mode} {when} ({guard.reason})")
    if not status.guards:
        lines.append("no guard is on: this cluster runs until you end it")
    if status.ending is not None:
        lines.append(f"ending now: {status.ending.reason}")
    return lines
