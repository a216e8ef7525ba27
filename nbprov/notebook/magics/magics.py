"""The magics and their options.

Each magic parses its line and calls the module that does the work. Those modules are imported by
the magic, not here, so that loading the extension stays fast.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from IPython.core.magic import (
    Magics,
    cell_magic,
    line_cell_magic,
    line_magic,
    magics_class,
    no_var_expand,
)
from traitlets import Bool, Dict, Enum, Float, TraitError, default, observe, validate

from nbprov.model.errors import Interrupted, NbprovError, UsageError

if TYPE_CHECKING:
    from nbprov.notebook.arguments import MagicParser


@magics_class
class Nbprov(Magics):
    """The magics of nbprov and its options (`%config Nbprov`)."""

    nest_asyncio = Bool(
        False,
        help="Apply nest_asyncio for your own nested event loops. nbprov itself does not need it,"
        " because its engine has its own thread and loop.",
    ).tag(config=True)
    demo = Bool(
        help="Put the simulated `local` cloud into every plan, not only into those that name it."
    ).tag(config=True)
    hedge = Float(
        20.0,
        help="Seconds within which a place of a race (--race N) is to be ready before the next is"
        " tried beside it, where the spec's race has no hedge.",
    ).tag(config=True)

    catalog_refresh = Dict(
        help="How often each cloud's prices are renewed, by cloud name or `default`: '7h',"
        " 'on demand' or 'never'; 'automatic': False turns it off. See docs/catalogue.md."
    ).tag(config=True)

    badge = Enum(
        ("auto", True, False),
        default_value="auto",
        help="The line under a remote cell that says where it ran: under every cell (True), under"
        " none (False), or under those that took a second or ran in another place than the last"
        " one ('auto').",
    ).tag(config=True)

    frames = Enum(
        ("ask", "on", "off"),
        default_value="ask",
        help="Outputs of a machine that a program draws (figures of plotly, Vega and Bokeh, HTML"
        " with scripts) run in a closed frame: when you press their button ('ask'), at once"
        " ('on'), or never ('off').",
    ).tag(config=True)

    @default("demo")
    def _demo_default(self) -> bool:
        return os.environ.get("NBPROV_DEMO") == "1"

    @validate("nest_asyncio")
    def _apply_nesting(self, proposal: Any) -> bool:
        # A validator, unlike an observer, keeps the option off when it raises.
        if proposal["value"]:
            from nbprov.notebook.nest_asyncio_option import apply

            try:
                apply()
            except UsageError as error:
                raise TraitError(f"{error.message}; {error.hint}") from None
        return bool(proposal["value"])

    @validate("hedge")
    def _check_hedge(self, proposal: Any) -> float:
        seconds = float(proposal["value"])
        if not 0 <= seconds < float("inf"):
            raise TraitError(f"hedge must be a number of seconds of 0 or more, not {seconds:g}")
        return seconds

    @validate("catalog_refresh")
    def _apply_refresh(self, proposal: Any) -> dict[str, Any]:
        from nbprov.api import session

        chosen = dict(proposal["value"])
        try:
            session().catalogue.configure(chosen)
        except NbprovError as error:
            raise TraitError(error.message) from None
        return chosen

    @observe("demo")
    def _demo_changed(self, change: Any) -> None:
        from nbprov.api import session

        session().demo = bool(change["new"])

    @no_var_expand
    @cell_magic
    def provision(self, line: str, cell: str) -> Any:
        """Get machines as the YAML in the cell says: `%%provision [NAME]`.

        See `%%provision --help`.
        """

        def act(arguments: Any) -> None:
            from .provision import provision_cell

            try:
                provision_cell(self.shell, arguments, cell, hedge=self.hedge)
            finally:
                _renew_prices()

        from .parsers import provision_parser

        return _with_arguments(provision_parser(), line, act)

    @no_var_expand
    @line_magic
    def prices(self, line: str) -> Any:
        """List the offers, cheapest first: `%prices [GPU[:N]]`; see `%prices --help`."""

        def act(arguments: Any) -> Any:
            from .prices import list_prices

            try:
                return list_prices(self.shell, arguments)
            finally:
                _renew_prices()

        from .parsers import prices_parser

        return _with_arguments(prices_parser(), line, act)

    @no_var_expand
    @line_magic
    def clusters(self, line: str) -> Any:
        """Show your clusters; see `%clusters --help`."""

        def act(arguments: Any) -> None:
            from .clusters import list_clusters

            list_clusters(self.shell, ended=arguments.all)

        from .parsers import clusters_parser

        return _with_arguments(clusters_parser(), line, act)

    @no_var_expand
    @cell_magic
    def on(self, line: str, cell: str) -> Any:
        """Run the cell on a cluster: `%%on NAME`; see `%%on --help`."""

        def act(arguments: Any) -> None:
            from .on import run_cell

            run_cell(self.shell, arguments, cell)

        from .parsers import on_parser

        return _with_arguments(on_parser(), line, act)

    @no_var_expand
    @line_cell_magic
    def nbprov(self, line: str, cell: str | None = None) -> Any:
        """Run any other command: `%nbprov check | plan | logs | jobs | stop | start | down | …`.

        See `%nbprov --help`.
        """

        def act() -> Any:
            from nbprov.notebook.commands.registry import run_command

            return run_command(self.shell, line, cell)

        return _interruptible(act)


def _with_arguments(parser: MagicParser, line: str, act: Callable[[Any], Any]) -> Any:
    """Call `act` with the parsed line, or print the help where the line asks for it."""
    from nbprov.notebook.arguments import HelpWanted
    from nbprov.notebook.terminal import say

    try:
        arguments = parser.parse_line(line)
    except HelpWanted as wanted:
        say(wanted)
        return None
    return _interruptible(lambda: act(arguments))


def _import_verbs() -> None:
    """Import what every magic needs, without the full collections that so many objects trigger."""
    if "nbprov.api" in sys.modules:
        return  # the lock below may be held for the second that a large SDK takes
    from nbprov.clouds.sdk_import import without_collections

    with without_collections("nbprov.api"):
        importlib.import_module("nbprov.api")


def _renew_prices() -> None:
    """Renew prices that are due in the background, for the next question."""
    from nbprov.api import session

    session().catalogue.begin_automatic()


def _interruptible(act: Callable[[], Any]) -> Any:
    """Call `act`, and turn an interrupt that it does not handle into a one-line error."""
    try:
        _import_verbs()
        return act()
    except Interrupted:
        raise
    except KeyboardInterrupt:
        raise Interrupted(
            "interrupted before it was done; %clusters shows what is running"
        ) from None
