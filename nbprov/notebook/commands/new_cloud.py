"""`%nbprov new-cloud NAME`: begin the package of a cloud that nbprov does not know yet."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from nbprov.model.errors import UsageError
from nbprov.notebook.arguments import MagicParser

GUIDE = "docs/adding-a-cloud.md"


def arguments(parser: MagicParser) -> None:
    """The line of `%nbprov new-cloud`."""
    parser.add_argument("name", help="as it will stand in a spec: cloud: NAME")
    parser.add_argument(
        "--into",
        metavar="DIR",
        default=".",
        help="where the folder NAME is made (default: beside the notebook)",
    )


def run(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Write the package, and say what comes next.

    Raises
    ------
    ScaffoldError
        If the name cannot be one or is taken, or there is such a folder already.
    UsageError
        If the folder cannot be written.
    """
    from nbprov.clouds.scaffold import FILES, scaffold

    # Not the command's `main`: it tells its errors on stderr, and a notebook that is run as a whole would go on.
    try:
        made = scaffold(arguments.name, Path(arguments.into).expanduser())
    except (OSError, RuntimeError) as error:
        raise UsageError(
            f"nothing was written: {error}",
            hint="choose another folder with --into",
            code="scaffold.folder",
        ) from None
    print(f"wrote {made}: {len(FILES)} files")
    print(f"  next: read {made / 'README.md'}; {GUIDE} goes through it step by step")
