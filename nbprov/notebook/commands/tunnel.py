"""`%nbprov tunnel` and `%nbprov ssh`: ports of machines on this computer, and the way in for other programs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from html import escape
from typing import Any

from nbprov.api import session
from nbprov.api.services.tunnels import Tunnel
from nbprov.machines.files.folder_sync import size_words
from nbprov.machines.tunnels.tunnels import TunnelView, in_words
from nbprov.model.errors import UsageError
from nbprov.notebook.arguments import MagicParser
from nbprov.notebook.rendering.result_table import Sheet
from nbprov.notebook.rendering.tables import Column

_COLUMNS = (
    Column("cluster", flexible=True),
    Column("node", right=True),
    Column("port", right=True),
    Column("here", unbroken=True),
    Column("connections", right=True),
    Column("from it", right=True),
    Column("to it", right=True),
    Column("remarks", flexible=True),
)


class TunnelSheet(Sheet):
    """A table of tunnels whose addresses can be clicked."""

    def html(self) -> str:
        """As HTML that every viewer shows."""
        page = super().html()
        for url in {view.url for view in self.data if not view.paused and view.scheme == "http"}:
            page = page.replace(
                f">{escape(url)}<",
                f'><a href="{escape(url)}" target="_blank" rel="noopener noreferrer">{escape(url)}</a><',
            )
        return page


def arguments(parser: MagicParser) -> None:
    """The line of `%nbprov tunnel`."""
    parser.add_argument(
        "name",
        nargs="?",
        default="",
        help="the cluster; without one, all tunnels of this kernel are listed",
    )
    parser.add_argument(
        "port",
        nargs="?",
        type=int,
        help="the port of the machine's own 127.0.0.1; without one, the cluster's tunnels are listed",
    )
    parser.add_argument(
        "--local",
        type=int,
        metavar="PORT",
        help="the port here (default: the same number where it is free, else the next)",
    )
    parser.add_argument("--node", type=int, metavar="N", help="which node (default: 0, the head)")
    parser.add_argument(
        "--close", action="store_true", help="close these tunnels instead of opening one"
    )


def run(shell: Any, arguments: argparse.Namespace, cell: str | None) -> Any:
    """Open, close or list tunnels; a table is the cell's value."""
    if arguments.close:
        _close(_named(arguments))
        return None
    if arguments.port is None:
        if arguments.local is not None:
            raise UsageError(
                "--local wants the machine's port too",
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
        else f" ({arguments.port} is taken here)"
    )
    return TunnelSheet(f"{in_words([view])[0]}{taken}", _COLUMNS, _rows([view]), (), [view])


def _named(arguments: argparse.Namespace) -> list[Tunnel]:
    """The tunnels that a line names: all, a cluster's, a node's, a port's."""
    if arguments.name:
        known = {tunnel.cluster for tunnel in session().tunnels()}
        if arguments.name not in known:
            session().cluster(arguments.name)  # says so where there is no such cluster
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
        print(f"closed: {line}")
    if not tunnels:
        print("no such tunnel is open")


def _listed(tunnels: Sequence[Tunnel], name: str) -> Any:
    if not tunnels:
        print(
            f"no tunnel is open{f' to {name}' if name else ''}: %nbprov tunnel {name or 'NAME'} PORT opens one"
        )
        return None
    views = [tunnel.view() for tunnel in tunnels]
    heading = f"{len(views)} tunnel{'' if len(views) == 1 else 's'}, on the loopback of the computer where this kernel runs"
    return TunnelSheet(heading, _COLUMNS, _rows(views), (), views)


def _rows(views: Sequence[TunnelView]) -> list[list[str]]:
    return [
        [
            view.cluster,
            str(view.node),
            str(view.port),
            view.url,
            f"{view.open_now} open, {view.carried} in all" if view.carried else "none yet",
            size_words(view.received),
            size_words(view.sent),
            view.paused or view.trouble or view.what,
        ]
        for view in views
    ]


def ssh_arguments(parser: MagicParser) -> None:
    """The line of `%nbprov ssh`."""
    parser.add_argument("name", nargs="?", default="", help="the cluster")
    parser.add_argument(
        "--node", type=int, default=0, metavar="N", help="which node (default: 0, the head)"
    )
    parser.add_argument(
        "--config",
        action="store_true",
        help="write an ssh config file of our own for VS Code, scp and rsync, and keep it up",
    )


def run_ssh(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Print the ssh command of a machine, or write the config file and say how to include it."""
    here = session()
    if arguments.config:
        path = here.write_ssh_config()
        names = here.services.ssh.file.names()
        print(
            f"{path}: {', '.join(names) if names else 'no cluster runs now'}; it follows your clusters while a kernel with nbprov runs"
        )
        print("put this line at the top of ~/.ssh/config, which nbprov never touches:")
        print(f"  {here.services.ssh.file.include}")
        return
    if not arguments.name:
        raise UsageError(
            "which cluster?", hint="%nbprov ssh NAME, or %nbprov ssh --config for all of them"
        )
    print(here.cluster(arguments.name).ssh_command(arguments.node))
