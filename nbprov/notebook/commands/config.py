"""`%nbprov config`: the options of `%config Nbprov`."""

from __future__ import annotations

import argparse
from typing import Any

from nbprov.notebook.options import options_of
from nbprov.notebook.terminal import say

from .reports import print_table


def run(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Print the options with their values."""
    options = options_of(shell)
    rows = [
        [name, str(getattr(options, name)), str(trait.help)]
        for name, trait in sorted(options.traits(config=True).items())
    ]
    print_table(["option", "value", "what it does"], rows, "no options")
    say("change one with %config Nbprov.NAME = VALUE")
