"""Write docs/commands.md from the parsers of the magics' lines, so that the page matches them.

`--check` only compares.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from nbprov.notebook.arguments import MagicParser
from nbprov.notebook.commands.registry import COMMANDS, parser_of
from nbprov.notebook.magics import parsers
from nbprov.notebook.magics.magics import Nbprov

WIDTH = 100
"""The width of the page in columns."""

PAGE = Path(__file__).with_name("commands.md")

INTRODUCTION = """# All commands

This page lists the arguments of every command. `--help` after a command prints the same in the
notebook, `%nbprov` alone lists the commands, and Tab completes commands, options, clusters, clouds,
regions and the fields of a spec. A line is split as a shell splits it: put a value with spaces or
an apostrophe into double quotes; ` #` begins a comment. `x = %prices …`, `x = %nbprov jobs …` and
`x = %nbprov history` are pandas DataFrames. This page is generated from the parsers of the lines
(`nbprov/notebook`).

`(…)` is an argument that is given by its position. An option that may be repeated says so.
"""

MAGICS = {
    "%%provision": parsers.provision_parser,
    "%%on": parsers.on_parser,
    "%prices": parsers.prices_parser,
    "%clusters": parsers.clusters_parser,
}
PAGES = {
    "%%provision": "[Getting a machine](getting-a-machine.md)",
    "%%on": "[Cells](using.md#cells)",
    "%prices": "[Prices](getting-a-machine.md#prices)",
    "%clusters": "[The life of a cluster](using.md#the-life-of-a-cluster)",
}

GROUPS = {
    "Before a launch": ("check", "plan", "watch", "catalog"),
    "Launches and their cost": (
        "attempts",
        "blocks",
        "log",
        "costs",
        "history",
        "dashboard",
        "sweep",
    ),
    "On a machine": ("jobs", "logs", "cells", "setup", "sync", "outputs", "tunnel", "ssh"),
    "The life of a cluster": ("autostop", "stop", "start", "rename", "down"),
}
OTHERS = "Other commands"
"""The heading of the commands that belong to no group."""


def page() -> str:
    """Return the text of the page."""
    summaries = {name: make().description or "" for name, make in MAGICS.items()}
    for names in _groups().values():
        summaries |= {f"%nbprov {name}": COMMANDS[name].summary for name in names}
    parts = [INTRODUCTION, "\n"]
    parts += [
        _item(f"[`{name}`](#{_anchor(name)}): {_sentence(text)}")
        for name, text in summaries.items()
    ]
    for name, make in MAGICS.items():
        parts.append(_section("##", name, make()) + f"\nMore: {PAGES[name]}.\n")
    for heading, names in _groups().items():
        parts.append(f"\n## {heading}\n")
        parts += [_section("###", f"%nbprov {name}", parser_of(name)) for name in names]
    return "".join(parts) + _options()


def _groups() -> dict[str, tuple[str, ...]]:
    grouped = [name for names in GROUPS.values() for name in names]
    return {**GROUPS, OTHERS: tuple(name for name in COMMANDS if name not in grouped)}


def _anchor(heading: str) -> str:
    return "".join(c for c in heading.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def _section(level: str, name: str, parser: MagicParser) -> str:
    rows = "".join(_rows(parser))
    items = f"\n{rows}" if rows else "\nIt takes no arguments.\n"
    examples = parser.epilog or ""
    block = f"\n```\n{_examples(examples)}\n```\n" if examples else ""
    return f"\n{level} `{name}`\n\n{_wrap(_sentence(parser.description or ''))}\n{block}{items}"


def _examples(epilog: str) -> str:
    return "\n".join(line.removeprefix("  ") for line in epilog.splitlines()[1:])


def _rows(parser: MagicParser) -> Iterator[str]:
    for action in parser._actions:
        if "--help" not in action.option_strings:
            # argparse reads %% as one percent sign in the help of an argument, and only there.
            yield _item(f"{_words(action)}: {(action.help or '').replace('%%', '%')}")


def _words(action: argparse.Action) -> str:
    """Return how an argument is written: `--race N`, `(name)`."""
    named = action.metavar if isinstance(action.metavar, str) else action.dest
    value = (
        "" if action.nargs == 0 else "|".join(map(str, action.choices)) if action.choices else named
    )
    if not action.option_strings:
        return f"`({value}{' …' if action.nargs in ('*', '+') else ''})`"
    flags = [f"{flag} {value}".strip() for flag in action.option_strings]
    return ", ".join(f"`{flag}`" for flag in flags)


def _item(text: str) -> str:
    return f"{_wrap(text, first='- ', rest='  ')}\n"


def _wrap(text: str, *, first: str = "", rest: str = "") -> str:
    """Wrap a text at the width of the page, without breaking what stands between backticks."""
    kept = re.sub(r"`[^`]*`", lambda found: found[0].replace(" ", "\0"), text)
    wrapped = textwrap.fill(
        kept,
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return wrapped.replace("\0", " ")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."


def _options() -> str:
    """Return the section on the options that `%config Nbprov.NAME = VALUE` sets."""
    rows = [
        _item(f"`{name}`: {trait.help} Default: `{trait.default_value_repr()}`.")
        for name, trait in sorted(Nbprov.class_traits(config=True).items())
    ]
    head = (
        "\n## `%config Nbprov`\n\n"
        "`%config Nbprov.hedge = 10` sets an option for this notebook, `%nbprov config` shows all\n"
        "options with their values, and `c.Nbprov.badge = False` in IPython's `ipython_config.py`\n"
        "sets one permanently. Environment variables have [their own page](settings.md).\n\n"
    )
    return head + "".join(rows)


if __name__ == "__main__":
    if "--check" in sys.argv:
        same = PAGE.read_text(encoding="utf-8") == page()
        sys.exit(
            0 if same else "docs/commands.md is out of date: python docs/commands_reference.py"
        )
    PAGE.write_text(page(), encoding="utf-8")
