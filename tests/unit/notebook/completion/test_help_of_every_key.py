"""Shift-Tab tells of every key of a spec, every magic and every command."""

from __future__ import annotations

import pytest

from nbprov.notebook.commands.registry import COMMANDS
from nbprov.notebook.completion.help import magic_help
from nbprov.spec.schema.field import Section
from nbprov.spec.schema.registry import fields

SKYPILOTS_OWN = {"volume_mounts", "file_mounts_mapping"}
"""Keys that SkyPilot writes for itself, and nobody by hand."""


def cell_with(section: Section, key: str) -> str:
    """A cell with this key at its end."""
    lines, indent = ["%%provision dev"], 0
    for part in filter(None, section.value.split(".")):
        lines.append(" " * indent + part.removesuffix("[]") + ":")
        indent += 2
        if part.endswith("[]"):
            other = "memory" if key == "cpus" else "cpus"
            lines.append(f"{' ' * indent}- {other}: 2")
            indent += 2
    return "\n".join([*lines, f"{' ' * indent}{key}: x"])


def test_every_key_of_every_section_says_what_it_means() -> None:
    # The settings of nbprov itself stand in a file and not in a cell.
    keys = [
        (section, field.name)
        for section in Section
        if section is not Section.NBPROV
        for field in fields(section)
    ]
    silent = {
        key
        for section, key in keys
        for cell in [cell_with(section, key)]
        if not magic_help(cell, len(cell) - len(key) - 2)
    }
    assert len(keys) > 140
    assert silent == SKYPILOTS_OWN


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_what_it_does(command: str) -> None:
    assert magic_help(f"%nbprov {command} dev", 8)


@pytest.mark.parametrize("line", ["%prices A100", "%clusters", "%%on dev", "%%provision dev"])
def test_every_magic_says_what_it_does(line: str) -> None:
    assert magic_help(line, 2)
