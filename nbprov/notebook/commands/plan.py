"""`%%nbprov plan`: what the spec in the cell would try."""

from __future__ import annotations

import argparse
from typing import Any

from nbprov.api import session
from nbprov.model.errors import UsageError
from nbprov.notebook.arguments import MagicParser, assume_argument, split_names
from nbprov.notebook.magics.plan_table import TRY_RELAX, show_plan
from nbprov.notebook.magics.spec_cell import read_cell
from nbprov.notebook.rendering.relaxations import relaxation_table
from nbprov.notebook.terminal import say


def arguments(parser: MagicParser) -> None:
    """Add the arguments of `%%nbprov plan`."""
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
        help="also show what dropping one constraint would open, and from what price",
    )
    assume_argument(parser)


def run(shell: Any, arguments: argparse.Namespace, cell: str | None) -> Any:
    """Show the plan; with `--relax` return the table of relaxations.

    Raises
    ------
    UsageError
        If there is no spec, because the magic was written as a line.
    """
    if cell is None:
        raise UsageError(
            "%nbprov plan needs a spec",
            hint="write %%nbprov plan (two percent signs), and the YAML below it",
        )
    try:
        spec = read_cell(session(), shell, cell, ignore=arguments.ignore)
        assume = split_names(arguments.assume)
        plan = show_plan(session(), spec, "plan; nothing is created", assume=assume)
        if arguments.relax:
            return relaxation_table(session().relax(spec, assume=assume))
        if plan.chosen is None:
            say(TRY_RELAX)
        return None
    finally:
        session().catalogue.begin_automatic()
