"""`%nbprov start`, `stop`, `autostop`, `rename` and `down`."""

from __future__ import annotations

import argparse
import time
from typing import Any

from nbprov.api import session
from nbprov.api.operation import Operation
from nbprov.api.reports.costs import cost_of_last
from nbprov.model.clock import Seconds, short_duration
from nbprov.model.clusters import ClusterView
from nbprov.model.errors import EndUnrecorded, NbprovError, UsageError
from nbprov.notebook.arguments import MagicParser
from nbprov.notebook.rendering.formatting import CLUSTER_LOOKS, format_cost
from nbprov.notebook.terminal import say


def clusters_argument(parser: MagicParser) -> None:
    """Add the arguments that name clusters."""
    parser.add_argument("names", nargs="*", help="the clusters")
    parser.add_argument(
        "--all",
        action="store_true",
        help="all your live clusters, and for down all launches under way",
    )


def named(arguments: argparse.Namespace, *, verb: str) -> list[str]:
    """Return the clusters that a line names, each once; with `--all` the live ones.

    Launches under way are among these only for `down`: nothing else can be done to them, so for
    other commands they are named as left alone.

    Raises
    ------
    UsageError
        If the line names no cluster.
    """
    views = session().clusters()
    if arguments.all:
        return _all_names(views, verb)
    if not arguments.names:
        live = ", ".join(dict.fromkeys(view.name for view in views))
        raise UsageError(
            "name the cluster",
            hint=f"live clusters: {live}; --all means all of them"
            if live
            else "no cluster is live; a %%provision cell launches one",
        )
    return list(dict.fromkeys(arguments.names))


def _all_names(views: list[ClusterView], verb: str) -> list[str]:
    if not views:
        say("no cluster is live")
    chosen = [v for v in views if verb == "down" or not (v.is_launch or v.attempt is not None)]
    names = list(dict.fromkeys(v.name for v in chosen))
    if verb == "down" and names:
        ending = ", ".join(f"{v.name} ({CLUSTER_LOOKS[v.state].words})" for v in views)
        say(f"ending {ending}", flush=True)
    for view in views:
        if view.is_launch and view not in chosen:
            say(
                f"{view.name} is {CLUSTER_LOOKS[view.state].words} and is left alone;"
                f" %nbprov down {view.name} ends it"
            )
    return names


def start_arguments(parser: MagicParser) -> None:
    """Add the arguments of `%nbprov start`."""
    clusters_argument(parser)
    parser.add_argument(
        "--wait",
        metavar="TIME",
        default="",
        help="how long to try again while their zone has no room: 30m, 2h; they cannot start in"
        " another zone",
    )


def start(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Start clusters, and print what was restored and what was not."""
    names = named(arguments, verb="start")
    here, seconds = session(), seconds_of(arguments.wait, "--wait")
    # All handles are made before the first start, so that a wrong name costs nothing.
    clusters = [here.cluster(name) for name in names]
    running = [cluster for cluster in clusters if cluster.runs_now()]
    begun = [(cluster, cluster.start(wait=seconds)) for cluster in clusters]
    for _, done in begun:
        done.on_say = lambda text: say(text, flush=True)
    failures: list[NbprovError] = []
    for cluster, done in begun:
        try:
            done.wait()
        except NbprovError as error:
            failures.append(error)
            if len(begun) > 1:
                say(f"{cluster.name}: not started: {error.message}")
            continue
        if cluster in running:
            say(f"{cluster.name}: was already running; nothing was changed")
            continue
        say(f"{cluster.name}: running")
        for line in cluster.restored():
            say(f"  {line}")
    if failures:
        raise failures[0]


def seconds_of(text: str, flag: str) -> Seconds:
    """Return a flag's duration in seconds; 0 where it was not given.

    Raises
    ------
    UsageError
        If it is not a duration.

    Examples
    --------
    >>> seconds_of("30m", "--wait"), seconds_of("", "--wait")
    (1800.0, 0.0)
    """
    from nbprov.spec.reading.literals import duration
    from nbprov.spec.yaml.diagnostics import InvalidValue

    if not text:
        return 0.0
    try:
        return float(duration(text))
    except InvalidValue as error:
        raise UsageError(f"{flag}: {error}", hint=f"{flag} 30m") from None


def stop(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Stop clusters and keep their disks; raise the first failure after all were tried."""
    from .outputs import begin_with_outputs, wait_showing

    here = session()
    asked = begin_with_outputs(
        named(arguments, verb="stop"), lambda name: here.cluster(name).stop()
    )
    failures = []
    for name, done, progress in asked:
        try:
            wait_showing(done, [progress])
        except NbprovError as error:
            failures.append(error)
            if len(asked) > 1:
                say(f"{name}: not stopped: {error.message}")
            continue
        say(
            f"{name}: stopped; its disk is kept and may be billed. %nbprov start {name} starts it"
            f" again, %nbprov down {name} terminates it"
            + "".join(f"; {words}, and stays on its disk" for words in done.remarks)
        )
    if failures:
        raise failures[0]


def autostop_arguments(parser: MagicParser) -> None:
    """Add the arguments of `%nbprov autostop`."""
    parser.add_argument("name", help="the cluster")


def autostop(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Print what the guards of a cluster see and will do."""
    from nbprov.machines.guard_status import guard_lines

    for line in guard_lines(session().cluster(arguments.name).guards()):
        say(line)


def rename_arguments(parser: MagicParser) -> None:
    """Add the arguments of `%nbprov rename`."""
    parser.add_argument("name", help="the cluster")
    parser.add_argument("new", help="the new name")


def rename(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Give a cluster another name, and store its handle under that name too."""
    from nbprov.notebook.magics.handle_variable import variable_of

    cluster = session().rename(arguments.name, arguments.new)
    variable = variable_of(cluster.name)
    shell.user_ns[variable] = cluster
    say(
        f"{arguments.name} is now called {cluster.name}, and the variable {variable} is its handle;"
        " its tags in the cloud keep the old name"
    )


def down_arguments(parser: MagicParser) -> None:
    """Add the arguments of `%nbprov down`."""
    clusters_argument(parser)
    parser.add_argument(
        "--no-outputs",
        action="store_true",
        help="terminate them now, without fetching their outputs first",
    )
    parser.add_argument(
        "--forget",
        action="store_true",
        help="only for clusters that have been ending for long and whose account cannot be reached:"
        " treat them as ended without confirmation",
    )


def down(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Terminate clusters or cancel launches, and print what each cost.

    The first failure is raised after all were tried.
    """
    here, started = session(), time.monotonic()
    if arguments.forget:
        for name in arguments.names:
            machines = here.cluster(name).forget()
            say(f"{name}: forgotten. Check the provider's console for {machines}")
        if not arguments.names:
            raise UsageError(
                "--forget needs the names of the clusters", hint="%clusters lists them"
            )
        return
    from .outputs import begin_with_outputs, wait_showing

    # All are terminated at once, because the last would be billed while the first is confirmed.
    asked = begin_with_outputs(
        named(arguments, verb="down"),
        lambda name: here.down(name, outputs=not arguments.no_outputs),
    )
    for _, done, _ in asked:
        if done.note:
            say(done.note, flush=True)
    failures = []
    for name, done, _ in asked:
        try:
            wait_showing(done, [progress for _, _, progress in asked])
        except EndUnrecorded as error:
            say(f"{error.message}. Next: {error.hint}{_lost(done)}")
            continue
        except NbprovError as error:
            failures.append(error)
            say(f"{name}: not known to have ended: {error.message}")
            continue
        last = cost_of_last(here.engine.ledger, name)
        cost = "nothing" if last is None else format_cost(last[0], simulated=last[1])
        took = short_duration(time.monotonic() - started)
        say(
            f"{name}: ended, confirmed by the cloud's list after {took}; it cost {cost}"
            f"{_lost(done)}"
        )
    if failures:
        raise failures[0]


def _lost(done: Operation) -> str:
    """What an end could not keep, to be added to its line."""
    return "".join(f"; {words}" for words in done.remarks)
