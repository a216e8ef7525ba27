"""`%nbprov COMMAND …`: one function a command, one table of all."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nbprov.api import session
from nbprov.model.errors import UsageError
from nbprov.notebook.arguments import HelpWanted, MagicParser, assume_argument, listed
from nbprov.notebook.options import options_of

from . import lifecycle, reports

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
    if word == "help" and rest.strip() in COMMANDS:
        word, rest = rest.strip(), "--help"
    if word.startswith("#") or word in ("", "--help", "-h", "help"):
        print(overview())
        return None
    command = COMMANDS.get(word)
    if command is None:
        from difflib import get_close_matches

        near = get_close_matches(word, COMMANDS, n=1)
        raise UsageError(
            f"%nbprov has no command {word!r}",
            hint=f"did you mean %nbprov {near[0]}?" if near else f"commands: {', '.join(COMMANDS)}",
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


# ---------------------------------------------------------------- what is


def _check(shell: Any, arguments: argparse.Namespace, cell: str | None) -> Any:
    from .check import check_sheet

    here = session()
    return check_sheet(
        here.check(arguments.cloud or None), () if arguments.cloud else here.without_adapter()
    )


def _plan(shell: Any, arguments: argparse.Namespace, cell: str | None) -> Any:
    from nbprov.notebook.magics.provision import TRY_RELAX, read_cell, show_plan
    from nbprov.notebook.rendering.relaxations import relax_sheet

    if cell is None:
        raise UsageError(
            "%nbprov plan wants a spec",
            hint="write %%nbprov plan (two percent signs), and the YAML below it",
        )
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


def _catalog(shell: Any, arguments: argparse.Namespace, cell: str | None) -> Any:
    from .catalog import run

    return run(shell, arguments, cell)


def _catalog_arguments(parser: MagicParser) -> None:
    from .catalog import arguments

    arguments(parser)


def _new_cloud(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    from .new_cloud import run

    run(shell, arguments, cell)


def _new_cloud_arguments(parser: MagicParser) -> None:
    from .new_cloud import arguments

    arguments(parser)


def _tunnel(shell: Any, arguments: argparse.Namespace, cell: str | None) -> Any:
    from .tunnel import run

    return run(shell, arguments, cell)


def _tunnel_arguments(parser: MagicParser) -> None:
    from .tunnel import arguments

    arguments(parser)


def _ssh(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    from .tunnel import run_ssh

    run_ssh(shell, arguments, cell)


def _ssh_arguments(parser: MagicParser) -> None:
    from .tunnel import ssh_arguments

    ssh_arguments(parser)


def _sync(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    from .sync import run

    run(shell, arguments, cell)


def _sync_arguments(parser: MagicParser) -> None:
    from .sync import arguments

    arguments(parser)


def _cells(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    from .cells import run

    run(shell, arguments, cell)


def _setup(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    from .setup import run

    run(shell, arguments, cell)


def _cells_arguments(parser: MagicParser) -> None:
    from .cells import arguments

    arguments(parser)


# ---------------------------------------------------------------- clusters


def _history(shell: Any, arguments: argparse.Namespace, cell: str | None) -> Any:
    from .history import run

    return run(shell, arguments, cell)


def _history_arguments(parser: MagicParser) -> None:
    from .history import arguments

    arguments(parser)


def _dashboard(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    from .dashboard import run

    run(shell, arguments, cell)


def _watch(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    from .watch import run

    run(shell, arguments, cell)


def _watch_arguments(parser: MagicParser) -> None:
    from .watch import arguments

    arguments(parser)


def _autostop(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    from nbprov.machines.guard_status import guard_lines

    for line in guard_lines(session().cluster(arguments.name).guards()):
        print(line)


def _jobs(shell: Any, arguments: argparse.Namespace, cell: str | None) -> Any:
    from .jobs import run

    return run(shell, arguments, cell)


def _jobs_arguments(parser: MagicParser) -> None:
    from .jobs import arguments

    arguments(parser)


def _logs(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    from .logs import run

    run(shell, arguments, cell)


def _logs_arguments(parser: MagicParser) -> None:
    from .logs import arguments

    arguments(parser)


def _config(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    options = options_of(shell)
    rows = [
        [name, str(getattr(options, name)), str(trait.help)]
        for name, trait in sorted(options.traits(config=True).items())
    ]
    reports.print_table(["option", "value", "what it does"], rows, "no options")
    print("change one with %config Nbprov.NAME = VALUE")


def _outputs(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    from .outputs import run

    run(shell, arguments, cell)


def _plan_arguments(parser: MagicParser) -> None:
    parser.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="FIELD",
        help="turn the error about a field into a warning",
    )
    parser.add_argument(
        "--relax",
        action="store_true",
        help="say too what one constraint less would open, and from what price",
    )
    assume_argument(parser)


def _launch_argument(parser: MagicParser) -> None:
    parser.add_argument("name", nargs="?", default="", help="the latest launch of this name")


def _one_cluster(parser: MagicParser) -> None:
    parser.add_argument("name", help="the cluster")


COMMANDS: dict[str, Command] = {
    "check": Command(
        "ask each cloud whether it can be used",
        _check,
        lambda p: p.add_argument("cloud", nargs="*", help="only these clouds"),
    ),
    "plan": Command(
        "%%nbprov plan: show what the YAML in the cell would try, and create nothing",
        _plan,
        _plan_arguments,
    ),
    "attempts": Command(
        "the attempts of the latest launch and why each failed",
        reports.attempts,
        _launch_argument,
    ),
    "blocks": Command(
        "what is blocked, why, for how long",
        reports.blocks,
        lambda p: p.add_argument("--clear", action="store_true", help="forget all blocks"),
    ),
    "costs": Command("what every launch has cost so far", reports.costs),
    "history": Command(
        "every launch: state, times, cost, attempts, why it ended; x = %nbprov history: a DataFrame",
        _history,
        _history_arguments,
    ),
    "dashboard": Command(
        "clusters, costs, launches, blocks and stock in one live panel", _dashboard
    ),
    "watch": Command(
        "ask clouds for the stock of a GPU until one has it, and say so; nothing is launched",
        _watch,
        _watch_arguments,
    ),
    "log": Command("the provision log of the latest launch", reports.log, _launch_argument),
    "jobs": Command(
        "the jobs of your clusters; NAME submit, wait, cancel: queue a shell script by GPU, and what becomes of it",
        _jobs,
        _jobs_arguments,
    ),
    "logs": Command(
        "the output of a job, also after the end of its machine; -f: as it comes",
        _logs,
        _logs_arguments,
    ),
    "cells": Command(
        "the cells of a machine, and what they put out: --follow, --save, --interrupt",
        _cells,
        _cells_arguments,
    ),
    "setup": Command(
        "set a running cluster up again: files, python, setup; its log is shown as it comes",
        _setup,
        _one_cluster,
    ),
    "tunnel": Command(
        "a port of a machine on this computer; without a port: the tunnels there are",
        _tunnel,
        _tunnel_arguments,
    ),
    "ssh": Command(
        "the ssh command of a machine; --config: a config file for VS Code, scp and rsync",
        _ssh,
        _ssh_arguments,
    ),
    "sync": Command(
        "a folder here and one on a machine, brought into step: --push, --pull, or both ways",
        _sync,
        _sync_arguments,
    ),
    "outputs": Command(
        "pull the outputs of a cluster's spec now; down and stop do it by themselves",
        _outputs,
        _one_cluster,
    ),
    "autostop": Command("what the guards of a cluster see and will do", _autostop, _one_cluster),
    "stop": Command(
        "stop clusters and keep their disks", lifecycle.stop, lifecycle.clusters_argument
    ),
    "start": Command(
        "start stopped clusters; --wait: until their zone has room again",
        lifecycle.start,
        lifecycle.start_arguments,
    ),
    "rename": Command("give a cluster another name", lifecycle.rename, lifecycle.rename_arguments),
    "down": Command(
        "end clusters or give launches up, and confirm it by the cloud's list",
        lifecycle.down,
        lifecycle.down_arguments,
    ),
    "sweep": Command(
        "end machines of yours that the ledger does not know; of those younger than ten minutes it only tells",
        reports.sweep,
        lambda p: p.add_argument(
            "--end", action="store_true", help="end those too, whatever their age"
        ),
    ),
    "catalog": Command(
        "the price catalogue: rows, age, source, edits and errors a cloud; refresh, diff, restore, path",
        _catalog,
        _catalog_arguments,
    ),
    "config": Command("the options and what they do", _config),
    "new-cloud": Command(
        "begin the package of a cloud that nbprov does not know yet",
        _new_cloud,
        _new_cloud_arguments,
    ),
}
