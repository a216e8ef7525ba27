"""`%nbprov attempts`, `blocks`, `costs`, `log` and `sweep`: what the ledger and the clouds know of launches."""

from __future__ import annotations

import argparse
from typing import Any

from nbprov.api import session
from nbprov.model.clock import short_duration
from nbprov.model.failures import RULES
from nbprov.model.money import format_usd
from nbprov.notebook.rendering.formatting import (
    ATTEMPT_LOOKS,
    RUN_LOOKS,
    nodes_words,
    per_hour,
    place_words,
    utc_words,
)
from nbprov.notebook.rendering.tables import Column, text_table


def print_table(heads: list[str], rows: list[list[str]], none: str) -> None:
    """Print rows under their heads, or what is said where there are none."""
    if not rows:
        print(none)
        return
    for line in text_table([Column(head) for head in heads], rows):
        print(line)


def attempts(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Print the attempts of the latest launch, and why each failed."""
    rows = [
        [
            str(tried.number),
            place_words(tried.candidate.offer.place),
            nodes_words(tried.candidate.count) + tried.candidate.offer.instance_type,
            tried.candidate.offer.market.value,
            per_hour(tried.candidate.hourly),
            str(ATTEMPT_LOOKS[tried.state]),
            tried.reason,
        ]
        for tried in session().attempts(arguments.name)
    ]
    whose = (
        f"nothing called {arguments.name} has been launched"
        if arguments.name
        else "nothing has been launched yet"
    )
    print_table(["#", "place", "type", "market", "price", "state", "reason"], rows, whose)


def blocks(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Print what is blocked, or forget it."""
    here = session()
    if arguments.clear:
        count = here.clear_blocks()
        print(f"{count} block{'' if count == 1 else 's'} forgotten")
        return
    now = here.engine.clock.now()
    rows = [
        [b.words(), RULES[b.cause].words, short_duration(b.expires - now), b.message]
        for b in here.blocks()
    ]
    print_table(["blocked", "because", "for another", "the cloud said"], rows, "nothing is blocked")


def costs(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Print what every launch has cost."""
    costs = session().costs()
    rows = [
        [
            c.name,
            utc_words(c.started),
            str(RUN_LOOKS[c.state]),
            str(c.attempts),
            format_usd(c.cost) + ("*" if c.simulated else ""),
        ]
        for c in costs
    ]
    print_table(
        ["name", "started", "state", "attempts", "cost"], rows, "nothing has been launched yet"
    )
    if not rows:
        return
    print(
        f"you pay {format_usd(sum(c.cost for c in costs if not c.simulated))} in all, disks and traffic not counted"
    )
    if any(c.simulated for c in costs):
        print(
            f"* simulated: shown as if it were paid, {format_usd(sum(c.cost for c in costs if c.simulated))} in all; you pay $0 of it"
        )


def sweep(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Print, or end, machines of ours that the ledger does not know."""
    lines = session().sweep(end=arguments.end)
    print("\n".join(lines) if lines else "no machine of ours is unknown to the ledger")


def log(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Print the provision log of the latest launch."""
    here = session()
    run = next(
        (
            r
            for r in here.engine.ledger.runs.latest()
            if not arguments.name or r.name == arguments.name
        ),
        None,
    )
    if run is None:
        print(
            f"nothing called {arguments.name} has been launched"
            if arguments.name
            else "nothing has been launched yet"
        )
        return
    path = here.engine.home / "logs" / f"{run.run_id}.log"
    print(
        path.read_text(encoding="utf-8")
        if path.exists()
        else f"{run.name}: its provision log is gone\n",
        end="",
    )
