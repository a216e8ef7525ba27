"""`%nbprov tunnel` and `%nbprov ssh`: local ports to machines, and ssh for other programs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from html import escape
from typing import Any

from nbprov.api import session
from nbprov.api.services.tunnels import Tunnel
from nbprov.machines.files.folder_sync import size_words
from nbprov.machines.tunnels.tunnel import TunnelView, in_words
from nbprov.model.errors import UsageError
from nbprov.notebook.arguments import MagicParser
from nbprov.notebook.rendering.result_table import ResultTable
from nbprov.notebook.rendering.tables import Column
from nbprov.notebook.terminal import say

_COLUMNS = (
    Column("cluster", flexible=True),
    Column("node", right=True),
    Column("port", right=True),
    Column("local address", unbroken=True),
    Column("connections", right=True),
    Column("received", right=True),
    Column("sent", right=True),
    Column("remarks", flexible=True),
)


class TunnelTable(ResultTable):
    """A table of tunnels with links to their addresses."""

    def html(self) -> str:
        """Return the table as HTML that every viewer shows."""
        page = super().html()
        for url in {view.url for view in self.data if not view.paused and view.scheme == "http"}:
            link = f'href="{escape(url)}" target="_blank" rel="noopener noreferrer"'
            page = page.replace(f">{escape(url)}<", f"><a {link}>{escape(url)}</a><")
        return page


def arguments(parser: MagicParser) -> None:
    """Add the arguments of `%nbprov tunnel`."""
    parser.add_argument(
        "name",
        nargs="?",
        default="",
        help="the cluster; without it, all tunnels of this kernel are listed",
    )
    parser.add_argument(
        "port",
        nargs="?",
        type=int,
        help="the port on the machine's 127.0.0.1; without it, the cluster's tunnels are listed",
    )
    parser.add_argument(
        "--local",
        type=int,
        metavar="PORT",
        help="the local port (default: the same number if it is free, else the next free one)",
    )
    parser.add_argument("--node", type=int, metavar="N", help="which node (default: 0, the head)")
    parser.add_argument(
        "--close", action="store_true", help="close these tunnels instead of opening one"
    )


def run(shell: Any, arguments: argparse.Namespace, cell: str | None) -> Any:
    """Open, close or list tunnels; the table is the cell's value."""
    if arguments.close:
        _close(_named(arguments))
        return None
    if arguments.port is None:
        if arguments.local is not None:
            raise UsageError(
                "--local needs the machine's port too",
                hint="%nbprov tunnel NAME PORT --local LOCAL",
            )
        return _listed(_named(arguments), arguments.name)
    tunnel = (
        session()
        .cluster(arguments.name)
        .tunnel(arguments.port, arguments.local, arguments.node or 0)
    )
    view = tunnel.view()
    taken = (
        ""
        if view.local in (arguments.port, arguments.local)
        else f" (the local port {arguments.port} is in use)"
    )
    return TunnelTable(f"{in_words([view])[0]}{taken}", _COLUMNS, _rows([view]), (), [view])


def _named(arguments: argparse.Namespace) -> list[Tunnel]:
    """Return the tunnels that a line names: all, or those of a cluster, node or port."""
    if arguments.name:
        known = {tunnel.cluster for tunnel in session().tunnels()}
        if arguments.name not in known:
            session().cluster(arguments.name)  # raises if there is no such cluster
    return [
        tunnel
        for tunnel in session().tunnels()
        if arguments.name in ("", tunnel.cluster)
        and arguments.port in (None, tunnel.port)
        and arguments.node in (None, tunnel.node)
        and arguments.local in (None, tunnel.local)
    ]


def _close(tunnels: Sequence[Tunnel]) -> None:
    words = in_words([tunnel.view() for tunnel in tunnels])
    session().close_tunnels(list(tunnels))
    for line in words:
        say(f"closed: {line}")
    if not tunnels:
        say("no such tunnel is open")


def _listed(tunnels: Sequence[Tunnel], name: str) -> Any:
    if not tunnels:
        where = f" to {name}" if name else ""
        say(f"no tunnel is open{where}: %nbprov tunnel {name or 'NAME'} PORT opens one")
        return None
    views = [tunnel.view() for tunnel in tunnels]
    noun = "tunnel" if len(views) == 1 else "tunnels"
    heading = f"{len(views)} {noun}, on the loopback of the computer where this kernel runs"
    return TunnelTable(heading, _COLUMNS, _rows(views), (), views)


def _rows(views: Sequence[TunnelView]) -> list[list[str]]:
    return [
        [
            view.cluster,
            str(view.node),
            str(view.port),
            view.url,
            f"{view.open_now} open, {view.carried} in total" if view.carried else "none yet",
            size_words(view.received),
            size_words(view.sent),
            view.paused or view.trouble or view.what,
        ]
        for view in views
    ]


def ssh_arguments(parser: MagicParser) -> None:
    """Add the arguments of `%nbprov ssh`."""
    parser.add_argument("name", nargs="?", default="", help="the cluster")
    parser.add_argument(
        "--node", type=int, default=0, metavar="N", help="which node (default: 0, the head)"
    )
    parser.add_argument(
        "--config",
        action="store_true",
        help="write a separate ssh config file for VS Code, scp and rsync, and keep it up to date",
    )


def run_ssh(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Print the ssh command of a machine, or write the config file and print how to use it."""
    here = session()
    if arguments.config:
        path = here.write_ssh_config()
        names = here.services.ssh.file.names()
        say(
            f"{path}: {', '.join(names) if names else 'no cluster is running'};"
            " it is kept up to date while a kernel with nbprov runs"
        )
        say("put this line at the top of ~/.ssh/config, which nbprov does not change:")
        say(f"  {here.services.ssh.file.include}")
        return
    if not arguments.name:
        raise UsageError(
            "name the cluster", hint="%nbprov ssh NAME, or %nbprov ssh --config for all of them"
        )
    say(here.cluster(arguments.name).ssh_command(arguments.node))
