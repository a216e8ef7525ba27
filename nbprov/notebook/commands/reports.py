"""`%nbprov attempts`, `blocks`, `costs`, `log` and `sweep`: reports from the ledger."""

from __future__ import annotations

import argparse
from typing import Any

from nbprov.api import session
from nbprov.api.reports.costs import costs as costs_of
from nbprov.api.reports.launch_log import log_path
from nbprov.model.clock import short_duration
from nbprov.model.failures import RULES
from nbprov.model.money import format_usd
from nbprov.notebook.arguments import MagicParser
from nbprov.notebook.rendering.formatting import (
    ATTEMPT_LOOKS,
    RUN_LOOKS,
    format_place,
    format_utc,
    nodes_prefix,
    per_hour,
)
from nbprov.notebook.rendering.tables import Column, text_table
from nbprov.notebook.terminal import say
from nbprov.runtime.waiting import wait_for

MOST_COSTS = 50
"""So many launches are listed by `%nbprov costs`; `%nbprov history` lists more."""


def print_table(heads: list[str], rows: list[list[str]], none: str) -> None:
    """Print a table, or `none` where there are no rows."""
    if not rows:
        say(none)
        return
    for line in text_table([Column(head) for head in heads], rows):
        say(line)


def launch_argument(parser: MagicParser) -> None:
    """Add the argument that names a launch."""
    parser.add_argument("name", nargs="?", default="", help="the latest launch of this name")


def attempts(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Print the attempts of the latest launch, and why each failed."""
    rows = [
        [
            str(attempt.number),
            format_place(attempt.candidate.offer.place),
            nodes_prefix(attempt.candidate.count) + attempt.candidate.offer.instance_type,
            attempt.candidate.offer.market.value,
            per_hour(attempt.candidate.hourly),
            str(ATTEMPT_LOOKS[attempt.state]),
            attempt.reason,
        ]
        for attempt in session().attempts(arguments.name)
    ]
    whose = (
        f"nothing called {arguments.name} has been launched"
        if arguments.name
        else "nothing has been launched yet"
    )
    print_table(["#", "place", "type", "market", "price", "state", "reason"], rows, whose)


def blocks_arguments(parser: MagicParser) -> None:
    """Add the arguments of `%nbprov blocks`."""
    parser.add_argument("--clear", action="store_true", help="remove all blocks")


def blocks(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Print the blocks, or remove them."""
    here = session()
    if arguments.clear:
        count = here.clear_blocks()
        say(f"{count} block{'' if count == 1 else 's'} removed")
        return
    now = here.engine.clock.now()
    rows = [
        [b.words(), RULES[b.cause].words, short_duration(b.expires - now), b.message]
        for b in here.blocks()
    ]
    print_table(["blocked", "because", "for another", "the cloud said"], rows, "nothing is blocked")


def costs(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Print what launches have cost: the latest ones, those on the bill, and all together."""
    here = session()
    ledger = here.engine.ledger
    shown = costs_of(ledger, MOST_COSTS)
    rows = [
        [
            c.name,
            format_utc(c.started),
            str(RUN_LOOKS[c.state]),
            str(c.attempts),
            format_usd(c.cost) + ("*" if c.simulated else ""),
        ]
        for c in shown
    ]
    print_table(
        ["name", "started", "state", "attempts", "cost"], rows, "nothing has been launched yet"
    )
    if not rows:
        return
    if (total := ledger.runs.count()) > len(shown):
        older = len(shown) - MOST_COSTS
        also = f", and {older} older on the bill" if older else ""
        say(f"the latest {MOST_COSTS} of {total:,} launches{also}; the total is of all")
    spent = here.services.bills.read().since(0.0)
    say(f"you pay {format_usd(spent.paid)} in total, without disks and traffic")
    if spent.simulated or any(c.simulated for c in shown):
        say(f"* simulated: {format_usd(spent.simulated)} in total, of which you pay $0")


def sweep_arguments(parser: MagicParser) -> None:
    """Add the arguments of `%nbprov sweep`."""
    parser.add_argument(
        "--end", action="store_true", help="also terminate the young ones, whatever their age"
    )


def sweep(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Print or terminate machines of this user that the ledger does not know."""
    lines = session().sweep(end=arguments.end)
    say("\n".join(lines) if lines else "the ledger knows all your machines")


def log_arguments(parser: MagicParser) -> None:
    """Add the arguments of `%nbprov log`."""
    launch_argument(parser)
    parser.add_argument(
        "--console",
        action="store_true",
        help="the consoles of its latest machines instead, as their cloud tells them",
    )


def log(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Print the provision log of the latest launch, or the console of its machine."""
    here = session()
    run = here.engine.ledger.runs.last(arguments.name)
    if run is None:
        say(
            f"nothing called {arguments.name} has been launched"
            if arguments.name
            else "nothing has been launched yet"
        )
        return
    if arguments.console:
        say(wait_for(here.services.consoles.read_cluster(run.run_id)))
        return
    path = log_path(here.engine.home, run.run_id)
    say(
        path.read_text(encoding="utf-8")
        if path.exists()
        else f"{run.name}: its provision log no longer exists\n",
        end="",
    )
