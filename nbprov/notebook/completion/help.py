"""What Shift-Tab says of a magic, of a command of `%nbprov`, and of a key of a spec."""

from __future__ import annotations

import re

from .magics import magic_parser

_FIRST = re.compile(r"\s*(?:\w+\s*=\s*)?%{1,2}(provision|prices|clusters|on|nbprov)\b(.*)")


def magic_help(code: str, cursor: int) -> str:
    """Return the help for what stands at the cursor of a cell; empty where it is not ours."""
    first, _, body = code.partition("\n")
    found = _FIRST.match(first)
    if found is None:
        return ""
    magic, words = found[1], found[2].split()
    if cursor <= len(first):
        return _line_help(magic, words)
    if magic == "provision" or (magic == "nbprov" and words[:1] == ["plan"]):
        return _key_help(body, cursor - len(first) - 1)
    return ""


def _line_help(magic: str, words: list[str]) -> str:
    parser = magic_parser(magic, words[:1])
    if parser is not None:
        return parser.format_help()
    from nbprov.notebook.commands.registry import COMMANDS

    return f"%nbprov COMMAND, where COMMAND is one of {', '.join(sorted(COMMANDS))}"


def _key_help(body: str, at: int) -> str:
    """Return what the key on the cursor's line means."""
    from nbprov.spec import keys_at

    lines = body[:at].split("\n")
    line = body.split("\n")[len(lines) - 1]
    key = re.match(r"(\s*(?:-\s+)?)([\w-]+)\s*:", line)
    if key is None:
        return ""
    start = key.end(1)
    # The key itself is left out: keys that are written already are not offered again.
    rest = body.split("\n")
    rest[len(lines) - 1] = key[1]
    place = keys_at("\n".join(rest), len(lines), start + 1)
    return next((f"{f.name}: {f.doc}" for f in place.keys if f.name == key[2]), "")
