"""Write docs/commands.md from the parsers of the magics' lines, so that the page cannot drift from what is read. `--check` only compares."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from nbprov.notebook.arguments import MagicParser
from nbprov.notebook.commands.registry import COMMANDS, parser_of
from nbprov.notebook.magics import parsers
from nbprov.notebook.magics.magics import Nbprov

PAGE = Path(__file__).with_name("commands.md")

INTRODUCTION = """# All commands

What each line takes. `--help` behind any of them prints the same in the notebook, `%nbprov` alone lists the verbs, and Tab completes commands, options, clusters, clouds, regions and the
fields of a spec. A line is split as a shell splits it: a value with spaces or an apostrophe stands in double quotes, and ` #` begins a comment. `x = %prices …`, `x = %nbprov jobs …` and `x = %nbprov history` are pandas DataFrames.
This page is made from the parsers that read the lines (`nbprov/notebook`).

In the tables `(…)` is what stands on the line by its place; what may be repeated says so.
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
    "What was launched, and what it cost": (
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
OTHERS = "The rest"
"""The heading of commands that stand in no group."""


def page() -> str:
    """The page's text."""
    parts = [INTRODUCTION, "\n| command | does |\n|---|---|\n"]
    parts += [
        f"| [`{name}`](#{_anchor(name)}) | {_cell(make().description or '')} |\n"
        for name, make in MAGICS.items()
    ]
    for names in _groups().values():
        parts += [
            f"| [`%nbprov {name}`](#{_anchor(f'%nbprov {name}')}) | {_cell(COMMANDS[name].summary)} |\n"
            for name in names
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
    table = f"\n| | |\n|---|---|\n{rows}" if rows else "\nIt takes nothing more.\n"
    examples = parser.epilog or ""
    block = f"\n```\n{_examples(examples)}\n```\n" if examples else ""
    return f"\n{level} `{name}`\n\n{_sentence(parser.description or '')}\n{block}{table}"


def _examples(epilog: str) -> str:
    return "\n".join(line.removeprefix("  ") for line in epilog.splitlines()[1:])


def _rows(parser: MagicParser) -> Iterator[str]:
    for action in parser._actions:
        if "--help" not in action.option_strings:
            # In the help of an argument, and only there, argparse reads %% as one.
            yield f"| {_words(action)} | {_cell((action.help or '').replace('%%', '%'))} |\n"


def _words(action: argparse.Action) -> str:
    """How an argument is written: `--race N`, `(name)`."""
    named = action.metavar if isinstance(action.metavar, str) else action.dest
    value = (
        ""
        if action.nargs == 0
        else "\\|".join(map(str, action.choices))
        if action.choices
        else named.replace("|", "\\|")
    )
    if not action.option_strings:
        return f"`({value}{' …' if action.nargs in ('*', '+') else ''})`"
    flags = [f"{flag} {value}".strip() for flag in action.option_strings]
    return ", ".join(f"`{flag}`" for flag in flags)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."


def _options() -> str:
    """What `%config Nbprov.NAME = VALUE` sets."""
    rows = [
        f"| `{name}` | {_cell(str(trait.help))} | `{trait.default_value_repr()}` |\n"
        for name, trait in sorted(Nbprov.class_traits(config=True).items())
    ]
    head = (
        "\n## `%config Nbprov`\n\nOptions of this notebook; `%config Nbprov.hedge = 10` sets one, `%nbprov config` shows them with their values, and"
        " `c.Nbprov.badge = False` in\nIPython's `ipython_config.py` sets one for good. Environment variables stand on [their own page](settings.md).\n"
    )
    return head + "\n| option | does | default |\n|---|---|---|\n" + "".join(rows)


if __name__ == "__main__":
    if "--check" in sys.argv:
        same = PAGE.read_text(encoding="utf-8") == page()
        sys.exit(
            0 if same else "docs/commands.md is out of date: python docs/commands_reference.py"
        )
    PAGE.write_text(page(), encoding="utf-8")
