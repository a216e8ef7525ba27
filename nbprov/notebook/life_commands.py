"""`%nbprov start` and `%nbprov rename`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from nbprov.api import session
from nbprov.model.clock import Seconds
from nbprov.model.errors import NbprovError, UsageError
from nbprov.spec.scalars import Bad, duration

from .arguments import MagicParser


def wait_argument(parser: MagicParser) -> None:
    """The flag of a start that may wait for room."""
    parser.add_argument(
        "--wait", metavar="TIME", default="", help="while their zone has no room, try again for so long: 30m, 2h; they start nowhere else"
    )


def start(names: Sequence[str], wait: str) -> None:
    """Start clusters, and say what is there again and what is not."""
    here, seconds = session(), seconds_of(wait, "--wait")
    begun = [(cluster, cluster.start(wait=seconds)) for cluster in map(here.cluster, names)]
    for _, done in begun:
        done.on_say = lambda text: print(text, flush=True)
    failures: list[NbprovError] = []
    for cluster, done in begun:
        try:
            done.wait()
        except NbprovError as error:
            failures.append(error)
            if len(begun) > 1:
                print(f"{cluster.name}: not started: {error.message}")
            continue
        print(f"{cluster.name}: running")
        for line in cluster.restored():
            print(f"  {line}")
    if failures:
        raise failures[0]


def seconds_of(text: str, flag: str) -> Seconds:
    """A flag's length of time; 0 where it was not given.

    Raises
    ------
    UsageError
        If it is none.

    Examples
    --------
    >>> seconds_of("30m", "--wait"), seconds_of("", "--wait")
    (1800.0, 0.0)
    """
    if not text:
        return 0.0
    try:
        return float(duration(text))
    except Bad as error:
        raise UsageError(f"{flag}: {error}", hint=f"{flag} 30m") from None


def rename_arguments(parser: MagicParser) -> None:
    """The line of `%nbprov rename`."""
    parser.add_argument("name", help="the cluster")
    parser.add_argument("new", help="what it is to be called")


def rename(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Give a cluster another name; its handle becomes the variable of that name too."""
    from .provisioning import variable_of

    cluster = session().rename(arguments.name, arguments.new)
    variable = variable_of(cluster.name)
    shell.user_ns[variable] = cluster
    print(
        f"{arguments.name} is called {cluster.name} now, and the variable {variable} is its handle; its tags at the cloud keep the old name"
    )
