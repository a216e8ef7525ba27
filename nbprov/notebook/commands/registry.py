"""`%nbprov COMMAND …`: the table of all commands, and the function that runs one."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from nbprov.model.errors import UsageError
from nbprov.notebook.arguments import HelpWanted, MagicParser
from nbprov.notebook.terminal import say

Act = Callable[[Any, argparse.Namespace, str | None], Any]


@dataclass(frozen=True, slots=True)
class Command:
    """A command of `%nbprov`.

    Attributes
    ----------
    summary
        What it does, in one line.
    module
        The module of this package that implements it. It is imported when the command is first
        used, because most sessions use few of them.
    run
        The function there that runs it, given the shell, the parsed line and the cell's text.
    arguments
        The function there that adds its arguments to a parser; empty if it has none.
    """

    summary: str
    module: str
    run: str = "run"
    arguments: str = "arguments"

    def configure(self, parser: MagicParser) -> None:
        """Add the command's arguments to a parser."""
        if self.arguments:
            self._load(self.arguments)(parser)

    def act(self, shell: Any, arguments: argparse.Namespace, cell: str | None) -> Any:
        """Run the command."""
        return self._load(self.run)(shell, arguments, cell)

    def _load(self, name: str) -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(import_module(f".{self.module}", __package__), name)
        return found


def run_command(shell: Any, line: str, cell: str | None) -> Any:
    """Run one `%nbprov` line.

    Raises
    ------
    UsageError
        If there is no such command; it names the closest one.
    """
    word, rest = [*line.split(maxsplit=1), "", ""][:2]
    if word == "help" and rest.strip() in COMMANDS:
        word, rest = rest.strip(), "--help"
    if word.startswith("#") or word in ("", "--help", "-h", "help"):
        say(overview())
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
        say(wanted)
        return None
    return command.act(shell, arguments, cell)


def parser_of(word: str) -> MagicParser:
    """Return the parser of one command's line."""
    command = COMMANDS[word]
    parser = MagicParser(f"%nbprov {word}", command.summary)
    command.configure(parser)
    return parser


def overview() -> str:
    """Return what `%nbprov --help` prints."""
    width = max(map(len, COMMANDS))
    lines = ["%nbprov COMMAND …   (%nbprov COMMAND --help tells more)", ""]
    lines += [f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(lines)


COMMANDS: dict[str, Command] = {
    "check": Command("ask each cloud whether it can be used", "check"),
    "plan": Command(
        "%%nbprov plan: show what the YAML in the cell would try, and create nothing", "plan"
    ),
    "attempts": Command(
        "show the attempts of the latest launch, and why each failed",
        "reports",
        "attempts",
        "launch_argument",
    ),
    "blocks": Command(
        "show which places are blocked, why, and for how long",
        "reports",
        "blocks",
        "blocks_arguments",
    ),
    "costs": Command(
        "show what the latest launches have cost, and all together", "reports", "costs", ""
    ),
    "history": Command(
        "list every launch with its times, cost, attempts and end; x = %nbprov history is a"
        " DataFrame",
        "history",
    ),
    "dashboard": Command(
        "show clusters, costs, launches, blocks and stock in one live panel",
        "dashboard",
        arguments="",
    ),
    "watch": Command(
        "wait until a cloud has a GPU in stock, and say so; nothing is launched", "watch"
    ),
    "log": Command(
        "print the provision log of the latest launch; --console prints what its machine wrote on"
        " its console while it booted",
        "reports",
        "log",
        "log_arguments",
    ),
    "jobs": Command(
        "list, submit, wait for or cancel jobs: shell scripts that queue for the machines' GPUs",
        "jobs",
    ),
    "logs": Command(
        "print the output of a job, also after its machine has ended; -f follows it", "logs"
    ),
    "cells": Command(
        "list the cells of a machine, and show, follow, save or interrupt one", "cells"
    ),
    "setup": Command(
        "set up a running cluster again (files, python, setup), with its log as it comes",
        "setup",
    ),
    "tunnel": Command(
        "open a port of a machine on this computer; without a port, list the open tunnels",
        "tunnel",
    ),
    "ssh": Command(
        "print the ssh command of a machine; --config writes a config file for VS Code, scp and"
        " rsync",
        "tunnel",
        "run_ssh",
        "ssh_arguments",
    ),
    "sync": Command(
        "synchronize a folder here with one on a machine: --push, --pull, or both ways", "sync"
    ),
    "outputs": Command(
        "fetch the outputs of a cluster now; down and stop also do this first", "outputs"
    ),
    "autostop": Command(
        "show what the guards of a cluster see and will do",
        "lifecycle",
        "autostop",
        "autostop_arguments",
    ),
    "stop": Command("stop clusters and keep their disks", "lifecycle", "stop", "clusters_argument"),
    "start": Command(
        "start stopped clusters; --wait tries again until their zone has room",
        "lifecycle",
        "start",
        "start_arguments",
    ),
    "rename": Command("give a cluster another name", "lifecycle", "rename", "rename_arguments"),
    "down": Command(
        "terminate clusters or cancel launches; wait until the provider no longer lists them",
        "lifecycle",
        "down",
        "down_arguments",
    ),
    "sweep": Command(
        "terminate machines of yours that the ledger does not know; those younger than ten minutes"
        " are only listed",
        "reports",
        "sweep",
        "sweep_arguments",
    ),
    "catalog": Command(
        "show the state of each cloud's prices; refresh, diff, restore and path work on them",
        "catalog",
    ),
    "config": Command("list the options and what they do", "config", arguments=""),
    "new-cloud": Command(
        "create the package of a cloud that nbprov does not know yet", "new_cloud"
    ),
}
