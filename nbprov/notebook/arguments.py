"""The argument lines of the magics: argparse without its exits, with help that is returned instead of printed."""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from nbprov.model.errors import UsageError

if TYPE_CHECKING:
    from nbprov.model.secret import Secret


class HelpWanted(Exception):
    """`--help` was given; carries the text."""


class _HelpAction(argparse.Action):
    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: Any,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        raise HelpWanted(parser.format_help())


class MagicParser(argparse.ArgumentParser):
    """A parser of one magic's line.

    Parameters
    ----------
    magic
        As the person writes it: `%%provision`, `%prices`.
    """

    def __init__(self, magic: str, description: str, epilog: str = "") -> None:
        super().__init__(
            prog=magic,
            description=description,
            epilog=epilog,
            add_help=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.add_argument(
            "--help", "-h", action=_HelpAction, nargs=0, help="show this and do nothing"
        )
        self.takes_script = False

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}", hint=f"{self.prog} --help")

    def parse_line(self, line: str) -> argparse.Namespace:
        """Parse a magic's line as a shell would split it, without a comment at its end (`# the big one`).

        Raises
        ------
        UsageError
            If the line does not fit.
        HelpWanted
            If `--help` is in it.
        """
        script = None
        if self.takes_script:
            # What follows -- is a shell's line, quotes and all.
            before, dashes, rest = f"{line} ".partition(" -- ")
            # Within a comment dashes begin nothing; in the shell's line a comment is the shell's.
            if _without_comment(before) == before:
                line, script = before, rest.strip() if dashes else None
        try:
            words = shlex.split(_without_comment(line))
        except ValueError as error:
            raise UsageError(
                f"{self.prog}: {error}",
                hint='put values with an apostrophe in double quotes: "it\'s"',
            ) from None
        return self.parse_args(
            words, argparse.Namespace(script=script) if self.takes_script else None
        )

    def option(self, flag: str) -> argparse.Action | None:
        """What a long flag that wants a value stands for; None for one that wants none, or is none."""
        action = self._option_string_actions.get(flag)
        return action if action is not None and action.nargs != 0 else None

    def flags(self) -> list[str]:
        """All long flags, for completion."""
        return [
            option
            for action in self._actions
            for option in action.option_strings
            if option.startswith("--")
        ]


def _without_comment(line: str) -> str:
    """A line up to the `#` that begins a word outside quotes, as a shell's line ends.

    Examples
    --------
    >>> _without_comment("gpu  # the big one")
    'gpu  '
    >>> _without_comment("a#b --env 'NOTE=x # y' https://x/#y")
    "a#b --env 'NOTE=x # y' https://x/#y"
    """
    quote, is_escaped, begins = "", False, True
    for at, sign in enumerate(line):
        if is_escaped:
            is_escaped = False
        elif sign == "\\" and quote != "'":
            is_escaped = True
        elif quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        elif sign == "#" and begins:
            return line[:at]
        begins = sign.isspace() and not quote and not is_escaped
    return line


def environment(items: Sequence[str], magic: str) -> dict[str, str | Secret]:
    """What `--env` gives, `["A=1", "TOKEN"]`: values as they stand there; a name alone stands for the kernel's own value, a secret that no cell shows.

    Raises
    ------
    UsageError
        If a name is none, or has no value here.
    """
    # The words of a spec take longer to load than all the magics' lines, and few lines name a secret.
    from nbprov.model.secret import Secret

    found: dict[str, str | Secret] = {}
    for item in items:
        name, sign, value = item.partition("=")
        if not re.match(r"[A-Za-z_][A-Za-z0-9_]*\Z", name):
            # Of what stands after the sign nothing is said: it may be a secret.
            raise UsageError(
                f"{magic}: --env wants NAME=VALUE or NAME, and {name!r} is no name of a variable",
                hint=f"{magic} --help",
            )
        if not sign and name not in os.environ:
            hint = f"--env {name}=VALUE, or set it there first"
            raise UsageError(
                f"the kernel's environment has no {name}", hint=hint, code="env.missing"
            )
        found[name] = value if sign else Secret(os.environ[name])
    return found


def at_least_one(text: str) -> int:
    """A number from 1 on, as the type of an argument."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def dollars(text: str) -> float:
    """An amount above 0, with or without its sign."""
    try:
        amount = float(text.removeprefix("$"))
    except ValueError:
        amount = -1.0
    if not 0 < amount < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of dollars above 0")
    return amount


def assume_argument(parser: argparse.ArgumentParser) -> None:
    """The flag of a plan that looks beyond the clouds that are set up."""
    parser.add_argument(
        "--assume",
        action="append",
        default=[],
        metavar="CLOUDS",
        help="plan as if these clouds were set up: --assume aws,gcp or --assume all; nothing is launched there",
    )


def listed(items: Sequence[str]) -> list[str]:
    """`["aws,gcp", "azure"]` as one list."""
    return [name.strip() for item in items for name in item.split(",") if name.strip()]


def provision_parser() -> MagicParser:
    """The line of `%%provision`."""
    parser = MagicParser(
        "%%provision",
        "Get machines as the YAML in the cell says. Shows the plan and waits for Launch.",
        "example:\n  %%provision dev\n  resources:\n    accelerators: A100\n    infra: [aws, gcp]\n    autostop: 30m",
    )
    parser.add_argument(
        "name",
        nargs="?",
        default="",
        help="name of the cluster, and of the variable that holds the run",
    )
    parser.add_argument(
        "--yes",
        "-y",
        action="store_true",
        help="launch without waiting for the button; agrees to the spec's caps",
    )
    parser.add_argument(
        "--wait",
        "-w",
        action="store_true",
        help="block until the cluster is set up, and show its failure as the cell's error",
    )
    parser.add_argument("--dry-run", action="store_true", help="show the plan and create nothing")
    parser.add_argument(
        "--replace",
        action="store_true",
        help="where a cluster of that name does not fit, make the new one beside it, then end the old one and give its name to the new one",
    )
    parser.add_argument(
        "--race",
        type=at_least_one,
        metavar="N",
        help="try up to N places at once; the first that is ready is kept (default: the cell's race)",
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="value for an env or secret of the spec, before the one written there; NAME alone takes the kernel's own (may be repeated)",
    )
    parser.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="FIELD",
        help="turn the error about a field into a warning",
    )
    parser.add_argument(
        "--on-interrupt",
        choices=("cancel", "detach"),
        default="cancel",
        help="what Ctrl-C does to the launch (default: cancel)",
    )
    parser.add_argument(
        "--on-setup-failure",
        choices=("keep", "down"),
        default="",
        help="what becomes of machines that could not be set up (default: the cell's on_setup_failure, else keep)",
    )
    return parser


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if not 0 <= days < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days")
    return days


def prices_parser() -> MagicParser:
    """The line of `%prices`."""
    parser = MagicParser(
        "%prices",
        "What is on sale, cheapest first; clouds that are not set up are listed too.",
        "examples:\n  %prices A100:8 --cloud aws --cloud gcp --spot\n  %prices A100:4+ --region eu --fresh 30"
        "\n  %prices 80GB+:8 --max-price 30\n  x = %prices /H[12]00/          # a pandas DataFrame",
    )
    parser.add_argument(
        "accelerator",
        nargs="?",
        default="",
        help="A100, A100:8, A100:4+, 80GB+, nvidia:24GB:2, A100*, /A100.*/ or part of a name; any case",
    )
    parser.add_argument(
        "--cloud",
        action="append",
        default=[],
        metavar="CLOUD",
        help="only this cloud (may be repeated)",
    )
    parser.add_argument(
        "--region",
        action="append",
        default=[],
        metavar="REGION",
        help="only this region, pattern (us-*), country or continent (de, eu) (may be repeated)",
    )
    parser.add_argument(
        "--zone",
        action="append",
        default=[],
        metavar="ZONE",
        help="only this zone (may be repeated)",
    )
    parser.add_argument(
        "--type",
        action="append",
        default=[],
        metavar="TYPE",
        help="only this instance type or pattern (may be repeated)",
    )
    market = parser.add_mutually_exclusive_group()
    market.add_argument("--spot", action="store_true", help="only the spot market")
    market.add_argument("--on-demand", action="store_true", help="only the on-demand market")
    parser.add_argument("--cpus", default=None, metavar="N", help="vCPUs: 8 (exactly) or 8+")
    parser.add_argument(
        "--memory",
        default=None,
        metavar="SIZE",
        help="memory in GiB: 32, 32+, 64GB+ or 4x (per vCPU)",
    )
    parser.add_argument(
        "--min-price",
        type=dollars,
        default=None,
        metavar="USD",
        help="at least so many dollars an hour a node",
    )
    parser.add_argument(
        "--max-price",
        type=dollars,
        default=None,
        metavar="USD",
        help="at most so many dollars an hour a node",
    )
    parser.add_argument(
        "--fresh",
        type=_days,
        default=None,
        metavar="DAYS",
        help="only prices that are not older than so many days",
    )
    parser.add_argument(
        "--live", action="store_true", help="ask the clouds that are set up for their prices now"
    )
    return parser


@cache
def on_parser() -> MagicParser:
    """The line of `%%on`. One for all cells: making it takes longer than reading a line by it."""
    parser = MagicParser(
        "%%on",
        "Run the cell on a cluster: Python in a kernel that lives there, or --bash. Waits until the cluster is set up.",
        "example:\n  %%on dev -i batch -o loss\n  loss = model(batch).mean().item()",
    )
    parser.add_argument("name", help="the cluster")
    parser.add_argument("--bash", action="store_true", help="run the cell as a shell script")
    parser.add_argument(
        "--input",
        "-i",
        action="append",
        default=[],
        metavar="NAMES",
        help="copy these variables there first: -i a,b",
    )
    parser.add_argument(
        "--output",
        "-o",
        action="append",
        default=[],
        metavar="NAMES",
        help="copy these variables back afterwards: -o c",
    )
    parser.add_argument(
        "--nodes",
        default="head",
        metavar="all|N",
        help="which nodes: head (default), all, a number, 0,2 or 1-3",
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="a variable of the environment there; without a value, this computer's, which is shown nowhere",
    )
    parser.add_argument(
        "--trust",
        action="store_true",
        help="let -o bring any object: unpickling it runs what the machine put into it",
    )
    return parser


def clusters_parser() -> MagicParser:
    """The line of `%clusters`."""
    parser = MagicParser(
        "%clusters",
        "The clusters of this user: state, cost so far, price, guards, and buttons to stop, start and end them.",
    )
    parser.add_argument("--all", action="store_true", help="those that have ended too")
    return parser
