"""`%nbprov COMMAND …`: one function a command, one table of all."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nbprov.api import session
from nbprov.model.causes import RULES
from nbprov.model.clock import short_duration
from nbprov.model.errors import NbprovError, UsageError
from nbprov.model.money import format_usd

from .arguments import HelpWanted, MagicParser, assume_argument, listed
from .options import options_of
from .rendering.tables import Column, text_table
from .rendering.words import ATTEMPT_LOOKS, RUN_LOOKS, cost_words, nodes_words, per_hour, place_words, utc_words

Configure = Callable[[MagicParser], object]
Act = Callable[[Any, argparse.Namespace, str | None], Any]


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand: what it does in one line, its arguments, its function."""

    summary: str
    act: Act
    configure: Configure = lambda parser: None


def run_command(shell: Any, line: str, cell: str | None) -> Any:
    """Run one `%nbprov` line.

    Raises
    ------
    UsageError
        If there is no such command, with the closest one.
    """
    word, rest = [*line.split(maxsplit=1), "", ""][:2]
    if word in ("", "--help", "-h", "help"):
        print(overview())
        return None
    command = COMMANDS.get(word)
    if command is None:
        from difflib import get_close_matches

        near = get_close_matches(word, COMMANDS, n=1)
        raise UsageError(
            f"%nbprov has no command {word!r}", hint=f"did you mean %nbprov {near[0]}?" if near else f"commands: {', '.join(COMMANDS)}"
        )
    try:
        arguments = parser_of(word).parse_line(rest)
    except HelpWanted as wanted:
        print(wanted)
        return None
    return command.act(shell, arguments, cell)


def parser_of(word: str) -> MagicParser:
    """The parser of one command's line."""
    command = COMMANDS[word]
    parser = MagicParser(f"%nbprov {word}", command.summary)
    command.configure(parser)
    return parser


def overview() -> str:
    """What `%nbprov --help` prints."""
    width = max(map(len, COMMANDS))
    lines = ["%nbprov COMMAND …   (%nbprov COMMAND --help tells more)", ""]
    lines += [f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(lines)


def _print_table(heads: list[str], rows: list[list[str]], none: str) -> None:
    if not rows:
        print(none)
        return
    for line in text_table([Column(head) for head in heads], rows):
        print(line)


# ---------------------------------------------------------------- what is


def _check(shell: Any, arguments: argparse.Namespace, cell: str | None) -> Any:
    from .check_sheet import check_sheet

    here = session()
    return check_sheet(here.check(arguments.cloud or None), () if arguments.cloud else here.without_adapter())


def _plan(shell: Any, arguments: argparse.Namespace, cell: str | None) -> Any:
    from .provisioning import TRY_RELAX, read_cell, show_plan
    from .rendering.relaxations import relax_sheet

    if cell is None:
        raise UsageError("%nbprov plan wants a spec", hint="write %%nbprov plan (two percent signs), and the YAML below it")
    try:
        spec = read_cell(session(), shell, cell, ignore=arguments.ignore)
        assume = listed(arguments.assume)
        plan = show_plan(session(), spec, "plan; nothing is created", assume=assume)
        if arguments.relax:
            return relax_sheet(session().relax(spec, assume=assume))
        if plan.chosen is None:
            print(TRY_RELAX)
        return None
    finally:
        session().catalogue.begin_automatic()


def _attempts(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
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
    whose = f"nothing called {arguments.name} has been launched" if arguments.name else "nothing has been launched yet"
    _print_table(["#", "place", "type", "market", "price", "state", "reason"], rows, whose)


def _blocks(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    here = session()
    if arguments.clear:
        count = here.clear_blocks()
        print(f"{count} block{'' if count == 1 else 's'} forgotten")
        return
    now = here.engine.clock.now()
    rows = [[b.words(), RULES[b.cause].words, short_duration(b.expires - now), b.message] for b in here.blocks()]
    _print_table(["blocked", "because", "for another", "the cloud said"], rows, "nothing is blocked")


def _costs(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    costs = session().costs()
    rows = [
        [c.name, utc_words(c.started), str(RUN_LOOKS[c.state]), str(c.attempts), format_usd(c.cost) + ("*" if c.simulated else "")]
        for c in costs
    ]
    _print_table(["name", "started", "state", "attempts", "cost"], rows, "nothing has been launched yet")
    if not rows:
        return
    print(f"you pay {format_usd(sum(c.cost for c in costs if not c.simulated))} in all, disks and traffic not counted")
    if any(c.simulated for c in costs):
        print(f"* simulated: shown as if it were paid, {format_usd(sum(c.cost for c in costs if c.simulated))} in all; you pay $0 of it")


def _sweep(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    lines = session().sweep(end=arguments.end)
    print("\n".join(lines) if lines else "no machine of ours is unknown to the ledger")


def _catalog(shell: Any, arguments: argparse.Namespace, cell: str | None) -> Any:
    from .catalog_command import run

    return run(shell, arguments, cell)


def _catalog_arguments(parser: MagicParser) -> None:
    from .catalog_command import arguments

    arguments(parser)


def _new_cloud(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    from .new_cloud import run

    run(shell, arguments, cell)


def _new_cloud_arguments(parser: MagicParser) -> None:
    from .new_cloud import arguments

    arguments(parser)


def _tunnel(shell: Any, arguments: argparse.Namespace, cell: str | None) -> Any:
    from .tunnel_command import run

    return run(shell, arguments, cell)


def _tunnel_arguments(parser: MagicParser) -> None:
    from .tunnel_command import arguments

    arguments(parser)


def _ssh(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    from .tunnel_command import run_ssh

    run_ssh(shell, arguments, cell)


def _ssh_arguments(parser: MagicParser) -> None:
    from .tunnel_command import ssh_arguments

    ssh_arguments(parser)


def _sync(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    from .sync_command import run

    run(shell, arguments, cell)


def _sync_arguments(parser: MagicParser) -> None:
    from .sync_command import arguments

    arguments(parser)


def _cells(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    from .cells_command import run

    run(shell, arguments, cell)


def _setup(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    from .setup_command import run

    run(shell, arguments, cell)


def _cells_arguments(parser: MagicParser) -> None:
    from .cells_command import arguments

    arguments(parser)


# ---------------------------------------------------------------- clusters


def _down(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    here, started = session(), time.monotonic()
    if arguments.forget:
        for name in arguments.names:
            print(f"{name}: forgotten. Look at the provider's console for {here.cluster(name).forget()}")
        if not arguments.names:
            raise UsageError("--forget needs the names of the clusters", hint="%clusters lists them")
        return
    from .outputs_command import followed, wait_showing

    # All at once: what is asked for last would be billed while the first is being confirmed.
    asked = followed(_names(arguments), lambda name: here.down(name, outputs=not arguments.no_outputs))
    for _, done, _ in asked:
        if done.note:
            print(done.note, flush=True)
    failures = []
    for name, done, _ in asked:
        try:
            wait_showing(done, [showing for _, _, showing in asked])
        except NbprovError as error:
            failures.append(error)
            print(f"{name}: not settled: {error.message}")
            continue
        cost = next((cost_words(c.cost, simulated=c.simulated) for c in here.costs() if c.name == name), "nothing")
        print(f"{name}: ended, confirmed by the cloud's list after {short_duration(time.monotonic() - started)}; it cost {cost}")
    if failures:
        raise failures[0]


def _stop(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    from .outputs_command import followed, wait_showing

    here = session()
    for name, done, showing in followed(_names(arguments), lambda name: here.cluster(name).stop()):
        wait_showing(done, [showing])
        print(f"{name}: stopped; its disk is kept and may be billed. %nbprov start {name} brings it back, %nbprov down {name} ends it")


def _start(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    from .life_commands import start

    start(_names(arguments), arguments.wait)


def _start_arguments(parser: MagicParser) -> None:
    from .life_commands import wait_argument

    _clusters_argument(parser)
    wait_argument(parser)


def _rename(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    from .life_commands import rename

    rename(shell, arguments, cell)


def _rename_arguments(parser: MagicParser) -> None:
    from .life_commands import rename_arguments

    rename_arguments(parser)


def _history(shell: Any, arguments: argparse.Namespace, cell: str | None) -> Any:
    from .history_command import run

    return run(shell, arguments, cell)


def _history_arguments(parser: MagicParser) -> None:
    from .history_command import arguments

    arguments(parser)


def _dashboard(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    from .dashboard_command import run

    run(shell, arguments, cell)


def _watch(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    from .watch_command import run

    run(shell, arguments, cell)


def _watch_arguments(parser: MagicParser) -> None:
    from .watch_command import arguments

    arguments(parser)


def _names(arguments: argparse.Namespace) -> list[str]:
    live = [view.name for view in session().clusters()]
    if arguments.all:
        if not live:
            print("no cluster is live")
        return live
    if not arguments.names:
        raise UsageError("which cluster?", hint=f"live clusters: {', '.join(live)}; --all means all of them" if live else "none is live")
    return list(dict.fromkeys(arguments.names))


def _autostop(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    from nbprov.machines.guarding import guard_lines

    for line in guard_lines(session().cluster(arguments.name).guards()):
        print(line)


def _jobs(shell: Any, arguments: argparse.Namespace, cell: str | None) -> Any:
    from .jobs_command import run

    return run(shell, arguments, cell)


def _jobs_arguments(parser: MagicParser) -> None:
    from .jobs_command import arguments

    arguments(parser)


def _logs(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    from .logs_command import run

    run(shell, arguments, cell)


def _logs_arguments(parser: MagicParser) -> None:
    from .logs_command import arguments

    arguments(parser)


def _log(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    here = session()
    run = next((r for r in here.engine.ledger.runs() if not arguments.name or r.name == arguments.name), None)
    if run is None:
        print(f"nothing called {arguments.name} has been launched" if arguments.name else "nothing has been launched yet")
        return
    path = here.engine.home / "logs" / f"{run.run_id}.log"
    print(path.read_text(encoding="utf-8") if path.exists() else f"{run.name}: its provision log is gone\n", end="")


def _config(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    options = options_of(shell)
    rows = [[name, str(getattr(options, name)), str(trait.help)] for name, trait in sorted(options.traits(config=True).items())]
    _print_table(["option", "value", "what it does"], rows, "no options")
    print("change one with %config Nbprov.NAME = VALUE")


def _clusters_argument(parser: MagicParser) -> None:
    parser.add_argument("names", nargs="*", help="the clusters")
    parser.add_argument("--all", action="store_true", help="all of yours")


def _down_arguments(parser: MagicParser) -> None:
    _clusters_argument(parser)
    parser.add_argument("--no-outputs", action="store_true", help="end them now, without pulling their outputs first")
    parser.add_argument(
        "--forget",
        action="store_true",
        help="for what has been ending for long and whose account is out of reach: take it for ended, unconfirmed",
    )


def _outputs(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    from .outputs_command import run

    run(shell, arguments, cell)


def _plan_arguments(parser: MagicParser) -> None:
    parser.add_argument("--ignore", action="append", default=[], metavar="FIELD", help="turn the error about a field into a warning")
    parser.add_argument("--relax", action="store_true", help="say too what one constraint less would open, and from what price")
    assume_argument(parser)


def _one_cluster(parser: MagicParser) -> None:
    parser.add_argument("name", help="the cluster")


COMMANDS: dict[str, Command] = {
    "check": Command(
        "ask each cloud whether it can be used", _check, lambda p: p.add_argument("cloud", nargs="*", help="only these clouds")
    ),
    "plan": Command("%%nbprov plan: show what the YAML in the cell would try, and create nothing", _plan, _plan_arguments),
    "attempts": Command(
        "the attempts of the latest launch and why each failed", _attempts, lambda p: p.add_argument("name", nargs="?", default="")
    ),
    "blocks": Command(
        "what is blocked, why, for how long", _blocks, lambda p: p.add_argument("--clear", action="store_true", help="forget all blocks")
    ),
    "costs": Command("what every launch has cost so far", _costs),
    "history": Command(
        "every launch: state, times, cost, attempts, why it ended; x = %nbprov history: a DataFrame", _history, _history_arguments
    ),
    "dashboard": Command("clusters, costs, launches, blocks and stock in one live panel", _dashboard),
    "watch": Command("ask clouds for the stock of a GPU until one has it, and say so; nothing is launched", _watch, _watch_arguments),
    "log": Command("the provision log of the latest launch", _log, lambda p: p.add_argument("name", nargs="?", default="")),
    "jobs": Command(
        "the jobs of your clusters; NAME submit, wait, cancel: queue a shell script by GPU, and what becomes of it", _jobs, _jobs_arguments
    ),
    "logs": Command("the output of a job, also after the end of its machine; -f: as it comes", _logs, _logs_arguments),
    "cells": Command("the cells of a machine, and what they put out: --follow, --save, --interrupt", _cells, _cells_arguments),
    "setup": Command("set a running cluster up again: files, python, setup; its log is shown as it comes", _setup, _one_cluster),
    "tunnel": Command("a port of a machine on this computer; without a port: the tunnels there are", _tunnel, _tunnel_arguments),
    "ssh": Command("the ssh command of a machine; --config: a config file for VS Code, scp and rsync", _ssh, _ssh_arguments),
    "sync": Command("a folder here and one on a machine, brought into step: --push, --pull, or both ways", _sync, _sync_arguments),
    "outputs": Command("pull the outputs of a cluster's spec now; down and stop do it by themselves", _outputs, _one_cluster),
    "autostop": Command("what the guards of a cluster see and will do", _autostop, _one_cluster),
    "stop": Command("stop clusters and keep their disks", _stop, _clusters_argument),
    "start": Command("start stopped clusters; --wait: until their zone has room again", _start, _start_arguments),
    "rename": Command("give a cluster another name", _rename, _rename_arguments),
    "down": Command("end clusters or give launches up, and confirm it by the cloud's list", _down, _down_arguments),
    "sweep": Command(
        "list machines of yours that the ledger does not know",
        _sweep,
        lambda p: p.add_argument("--end", action="store_true", help="end them, whatever their age"),
    ),
    "catalog": Command(
        "the price catalogue: rows, age, source, edits and errors a cloud; refresh, diff, restore, path", _catalog, _catalog_arguments
    ),
    "config": Command("the options and what they do", _config),
    "new-cloud": Command("begin the package of a cloud that nbprov does not know yet", _new_cloud, _new_cloud_arguments),
}
