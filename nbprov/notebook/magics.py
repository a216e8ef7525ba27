"""The magics. Each reads its line and hands over to the module that does the work; nothing else happens here."""

from __future__ import annotations

from typing import Any

from IPython.core.magic import Magics, cell_magic, line_cell_magic, line_magic, magics_class, no_var_expand
from traitlets import Bool, Float, observe

from .arguments import HelpWanted, clusters_parser, on_parser, prices_parser, provision_parser


@magics_class
class Nbprov(Magics):
    """The magics of nbprov and its options (`%config Nbprov`)."""

    nest_asyncio = Bool(
        False,
        help="Apply nest_asyncio for your own nested loops. Nothing in nbprov needs it: its engine has a thread and a loop of its own.",
    ).tag(config=True)
    demo = Bool(False, help="Let the simulated `local` cloud into every plan, not only into those that name it.").tag(config=True)
    hedge = Float(20.0, help="Seconds after which a race (--race N) starts its next attempt.").tag(config=True)

    @observe("nest_asyncio")
    def _nest(self, change: Any) -> None:
        if change["new"]:
            from .nesting import apply

            apply()

    @observe("demo")
    def _demo(self, change: Any) -> None:
        from nbprov.api import session

        session().demo = bool(change["new"])

    @no_var_expand
    @cell_magic
    def provision(self, line: str, cell: str) -> Any:
        """Get machines as the YAML in the cell says: `%%provision [NAME]`; see `%%provision --help`."""
        try:
            arguments = provision_parser().parse_line(line)
        except HelpWanted as wanted:
            print(wanted)
            return None
        from .provisioning import provision_cell

        return provision_cell(self.shell, arguments, cell, hedge=self.hedge)

    @no_var_expand
    @line_magic
    def prices(self, line: str) -> Any:
        """What is on sale, cheapest first: `%prices [GPU[:N]]`; see `%prices --help`."""
        try:
            arguments = prices_parser().parse_line(line)
        except HelpWanted as wanted:
            print(wanted)
            return None
        from .price_listing import list_prices

        return list_prices(self.shell, arguments)

    @no_var_expand
    @line_magic
    def clusters(self, line: str) -> Any:
        """The clusters of this user; see `%clusters --help`."""
        try:
            arguments = clusters_parser().parse_line(line)
        except HelpWanted as wanted:
            print(wanted)
            return None
        from .cluster_listing import list_clusters

        return list_clusters(self.shell, ended=arguments.all)

    @no_var_expand
    @cell_magic
    def on(self, line: str, cell: str) -> Any:
        """Run the cell on a cluster: `%%on NAME`; see `%%on --help`."""
        try:
            arguments = on_parser().parse_line(line)
        except HelpWanted as wanted:
            print(wanted)
            return None
        from .remote_cell import run_cell

        return run_cell(self.shell, arguments, cell)

    @no_var_expand
    @line_cell_magic
    def nbprov(self, line: str, cell: str | None = None) -> Any:
        """Everything else: `%nbprov check | plan | attempts | blocks | costs | sweep | logs | jobs | stop | start | down | …`; see `%nbprov --help`."""
        from .commands import run_command

        return run_command(self.shell, line, cell)
