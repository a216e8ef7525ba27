"""Parse the argument lines of the magics.

argparse is used without its exits, and with help that is raised instead of printed.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from nbprov.model.errors import UsageError
from nbprov.model.text.variable_values import why_unfit

if TYPE_CHECKING:
    from nbprov.model.secret import Secret


MOST_DOLLARS = 1e9
"""An amount that a person writes is below that; `usd` reads none above a trillion."""


class HelpWanted(Exception):
    """Raised for `--help`, with the help text."""


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
    """The parser of one magic's line.

    Parameters
    ----------
    magic
        The magic as a person writes it: `%%provision`, `%prices`.
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
            "--help", "-h", action=_HelpAction, nargs=0, help="show this help and do nothing"
        )
        self.takes_script = False

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}", hint=f"{self.prog} --help")

    def parse_line(self, line: str) -> argparse.Namespace:
        """Parse a magic's line, split as a shell splits it and without a comment at its end.

        Raises
        ------
        UsageError
            If the line does not fit the parser.
        HelpWanted
            If the line holds `--help`.
        """
        script = None
        if self.takes_script:
            # What follows -- is a line for the shell and keeps its quotes.
            before, dashes, rest = f"{line} ".partition(" -- ")
            # Dashes inside a comment of ours do not count; a comment in the shell's line is kept.
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
        """Return the option behind a flag; None if it is unknown or takes no value."""
        action = self._option_string_actions.get(flag)
        return action if action is not None and action.nargs != 0 else None

    def flags(self) -> dict[str, str]:
        """Return all long flags with what they do, for completion."""
        return {
            option: action.help or ""
            for action in self._actions
            for option in action.option_strings
            if option.startswith("--")
        }


def _without_comment(line: str) -> str:
    """Return a line up to the `#` that begins a word outside quotes, as in a shell.

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
    """Return the variables that `--env` gives, for example `["A=1", "TOKEN"]`.

    A name without a value takes the kernel's own value, as a secret that no cell shows.

    Raises
    ------
    UsageError
        If a name is not the name of a variable, has no value in this kernel, or has one that no
        process on a machine can be given.
    """
    # Imported here because it takes longer than all the parsers, and few lines name a secret.
    from nbprov.model.secret import Secret

    found: dict[str, str | Secret] = {}
    for item in items:
        name, sign, value = item.partition("=")
        if not re.match(r"[A-Za-z_][A-Za-z0-9_]*\Z", name):
            # The value is not shown because it may be a secret.
            raise UsageError(
                f"{magic}: --env takes NAME=VALUE or NAME, and {name!r} is not a variable name",
                hint=f"{magic} --help",
            )
        if not sign and name not in os.environ:
            hint = f"write --env {name}=VALUE, or set it in the kernel's environment first"
            raise UsageError(
                f"the kernel's environment has no {name}", hint=hint, code="env.missing"
            )
        text = value if sign else os.environ[name]
        why = why_unfit(name, text)
        if why:
            hint = "put it into a file on the machine, and name the file instead"
            raise UsageError(f"{magic}: the value of {name} {why}", hint=hint, code="env.unfit")
        found[name] = value if sign else Secret(text)
    return found


def at_least_one(text: str) -> int:
    """Return the argument as a number of 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)


def dollars(text: str) -> float:
    """Return an amount above 0, written with or without `$`."""
    try:
        amount = float(text.removeprefix("$"))
    except ValueError:
        amount = -1.0
    if not 0 < amount < MOST_DOLLARS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of dollars above 0")
    return amount


def assume_argument(parser: argparse.ArgumentParser) -> None:
    """Add the flag that lets a plan look beyond the clouds that are set up."""
    parser.add_argument(
        "--assume",
        action="append",
        default=[],
        metavar="CLOUDS",
        help="plan as if these clouds were set up: --assume aws,gcp or --assume all;"
        " nothing is launched there",
    )


def split_names(items: Sequence[str]) -> list[str]:
    """Return `["aws,gcp", "azure"]` as one list of names."""
    return [name.strip() for item in items for name in item.split(",") if name.strip()]


def days(text: str) -> float:
    """Return a number of days."""
    try:
        count = float(text)
    except ValueError:
        count = -1.0
    if not 0 <= count < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days")
    return count
