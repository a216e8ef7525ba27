"""`%nbprov start`, `stop`, `rename` and `down`."""

from __future__ import annotations

import argparse
import time
from typing import Any

from nbprov.api import session
from nbprov.model.clock import Seconds, short_duration
from nbprov.model.errors import NbprovError, UsageError
from nbprov.notebook.arguments import MagicParser
from nbprov.notebook.rendering.formatting import cost_words


def clusters_argument(parser: MagicParser) -> None:
    """The clusters of a line, or all."""
    parser.add_argument("names", nargs="*", help="the clusters")
    parser.add_argument("--all", action="store_true", help="all of yours")


def named(arguments: argparse.Namespace) -> list[str]:
    """The clusters that a line names, each once; with `--all` those that live.

    Raises
    ------
    UsageError
        If it names none.
    """
    live = [view.name for view in session().clusters()]
    if arguments.all:
        if not live:
            print("no cluster is live")
        return live
    if not arguments.names:
        raise UsageError(
            "which cluster?",
            hint=f"live clusters: {', '.join(live)}; --all means all of them"
            if live
            else "none is live; a %%provision cell makes one",
        )
    return list(dict.fromkeys(arguments.names))


def start_arguments(parser: MagicParser) -> None:
    """The line of `%nbprov start`."""
    clusters_argument(parser)
    parser.add_argument(
        "--wait",
        metavar="TIME",
        default="",
        help="while their zone has no room, try again for so long: 30m, 2h; they start nowhere else",
    )


def start(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Start clusters, and say what is there again and what is not."""
    from nbprov.api.launching.cluster_start import runs_now

    names = named(arguments)
    here, seconds = session(), seconds_of(arguments.wait, "--wait")
    clusters = [
        here.cluster(name) for name in names
    ]  # all, before the first is on the bill: a wrong name is found here
    running = [cluster for cluster in clusters if runs_now(cluster)]
    begun = [(cluster, cluster.start(wait=seconds)) for cluster in clusters]
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
        if cluster in running:
            print(f"{cluster.name}: was running, and is as it was")
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
    from nbprov.spec.reading.units import duration
    from nbprov.spec.yaml.diagnostics import InvalidValue

    if not text:
        return 0.0
    try:
        return float(duration(text))
    except InvalidValue as error:
        raise UsageError(f"{flag}: {error}", hint=f"{flag} 30m") from None


def stop(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Stop clusters and keep their disks. Raises the first failure once all have been tried."""
    from .outputs import followed, wait_showing

    here = session()
    asked = followed(named(arguments), lambda name: here.cluster(name).stop())
    failures = []
    for name, done, showing in asked:
        try:
            wait_showing(done, [showing])
        except NbprovError as error:
            failures.append(error)
            if len(asked) > 1:
                print(f"{name}: not stopped: {error.message}")
            continue
        print(
            f"{name}: stopped; its disk is kept and may be billed. %nbprov start {name} brings it back, %nbprov down {name} ends it"
        )
    if failures:
        raise failures[0]


def rename_arguments(parser: MagicParser) -> None:
    """The line of `%nbprov rename`."""
    parser.add_argument("name", help="the cluster")
    parser.add_argument("new", help="what it is to be called")


def rename(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Give a cluster another name; its handle becomes the variable of that name too."""
    from nbprov.notebook.magics.provision import variable_of

    cluster = session().rename(arguments.name, arguments.new)
    variable = variable_of(cluster.name)
    shell.user_ns[variable] = cluster
    print(
        f"{arguments.name} is called {cluster.name} now, and the variable {variable} is its handle; its tags at the cloud keep the old name"
    )


def down_arguments(parser: MagicParser) -> None:
    """The line of `%nbprov down`."""
    clusters_argument(parser)
    parser.add_argument(
        "--no-outputs",
        action="store_true",
        help="end them now, without pulling their outputs first",
    )
    parser.add_argument(
        "--forget",
        action="store_true",
        help="for what has been ending for long and whose account is out of reach: take it for ended, unconfirmed",
    )


def down(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """End clusters, or give launches up, and say what each cost. Raises the first failure once all have been tried."""
    here, started = session(), time.monotonic()
    if arguments.forget:
        for name in arguments.names:
            print(
                f"{name}: forgotten. Look at the provider's console for {here.cluster(name).forget()}"
            )
        if not arguments.names:
            raise UsageError(
                "--forget needs the names of the clusters", hint="%clusters lists them"
            )
        return
    from .outputs import followed, wait_showing

    # All at once: what is asked for last would be billed while the first is being confirmed.
    asked = followed(
        named(arguments), lambda name: here.down(name, outputs=not arguments.no_outputs)
    )
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
        cost = next(
            (cost_words(c.cost, simulated=c.simulated) for c in here.costs() if c.name == name),
            "nothing",
        )
        print(
            f"{name}: ended, confirmed by the cloud's list after {short_duration(time.monotonic() - started)}; it cost {cost}"
        )
    if failures:
        raise failures[0]
