"""`%nbprov setup NAME`: set up a running cluster again, with its log as it comes."""

from __future__ import annotations

import argparse
from typing import Any

from nbprov.api import session
from nbprov.notebook.arguments import MagicParser
from nbprov.notebook.magics.setup_display import follow_setup
from nbprov.notebook.magics.spec_cell import value_prompt
from nbprov.notebook.terminal import say


def arguments(parser: MagicParser) -> None:
    """Add the arguments of `%nbprov setup`."""
    parser.add_argument("name", help="the cluster")


def run(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Set the cluster up again, and block until it is done, since the person wants to watch."""
    setting_up = session().cluster(arguments.name).set_up(ask=value_prompt(shell))
    for note in setting_up.notes:
        say(note)
    follow_setup(arguments.name, setting_up, wait=True)
