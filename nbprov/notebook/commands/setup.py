"""`%nbprov setup NAME`: set a running cluster up again, its log live."""

from __future__ import annotations

import argparse
from typing import Any

from nbprov.api import session


def run(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Do it, and block until it is done: who asks for it wants to see how it goes."""
    from nbprov.notebook.magics.provision import asking
    from nbprov.notebook.magics.setup_display import follow_setting_up

    setting_up = session().cluster(arguments.name).set_up(ask=asking(shell))
    follow_setting_up(arguments.name, setting_up, wait=True)
