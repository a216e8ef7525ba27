"""`%nbprov new-cloud NAME`: create the package of a cloud that nbprov does not know yet."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from nbprov.model.errors import UsageError
from nbprov.notebook.arguments import MagicParser
from nbprov.notebook.terminal import say

GUIDE = "docs/adding-a-cloud.md"


def arguments(parser: MagicParser) -> None:
    """Add the arguments of `%nbprov new-cloud`."""
    parser.add_argument("name", help="the name of the cloud in a spec, as in cloud: NAME")
    parser.add_argument(
        "--into",
        metavar="DIR",
        default=".",
        help="the folder in which the folder NAME is created (default: beside the notebook)",
    )


def run(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Write the package, and print the next step.

    Raises
    ------
    ScaffoldError
        If the name is not valid or is taken, or the folder exists already.
    UsageError
        If the folder cannot be written.
    """
    from nbprov.clouds.scaffold import FILES, scaffold

    # The command-line `main` is not used because it prints its errors instead of raising them.
    try:
        made = scaffold(arguments.name, Path(arguments.into).expanduser())
    except (OSError, RuntimeError) as error:
        raise UsageError(
            f"nothing was written: {error}",
            hint="choose another folder with --into",
            code="scaffold.folder",
        ) from None
    say(f"wrote {made}: {len(FILES)} files")
    say(f"  next: read {made / 'README.md'}; {GUIDE} explains each step")
