"""docs/commands.md matches the parsers, and every line of ours in a page or an example can be
parsed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import nbprov
from nbprov.model.errors import UsageError
from nbprov.notebook.arguments import HelpWanted, MagicParser
from nbprov.notebook.commands.registry import COMMANDS, parser_of
from nbprov.notebook.magics.parsers import (
    clusters_parser,
    on_parser,
    prices_parser,
    provision_parser,
)

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "example_notebooks").glob("*.ipynb")),
]
MAGICS = {
    "provision": provision_parser,
    "on": on_parser,
    "prices": prices_parser,
    "clusters": clusters_parser,
}

LINE = re.compile(r"(?:\w+ = )?%{1,2}(provision|on|prices|clusters|nbprov)(?: (.*))?\Z")


def test_the_page_is_made_from_the_parsers() -> None:
    command = [sys.executable, str(ROOT / "docs" / "commands_reference.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_page_names_every_command_and_option() -> None:
    sections = re.split(
        r"^#{2,3} ", (ROOT / "docs" / "commands.md").read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    told = {
        text.partition("\n")[0].strip("`"): set(re.findall(r"`(--[a-z-]+)[ `]", text))
        for text in sections[1:]
    }
    parsers: dict[str, MagicParser] = {f"%nbprov {name}": parser_of(name) for name in COMMANDS}
    parsers |= {
        f"{'%%' if name in ('provision', 'on') else '%'}{name}": make()
        for name, make in MAGICS.items()
    }
    for name, parser in parsers.items():
        assert told[name] == set(parser.flags()) - {"--help"}, name
    assert {name for name in told if name.startswith("%nbprov ")} == {
        f"%nbprov {name}" for name in COMMANDS
    }


def test_the_python_page_names_every_verb() -> None:
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    verbs = {
        name
        for name in nbprov.__all__
        if not name.startswith("_") and not name.endswith("_ipython_extension")
    }
    assert {name for name in verbs if not re.search(rf"\bnbprov\.{name}\b", page)} == set()


def _texts(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        for cell in json.loads(text)["cells"]:
            source = "".join(cell["source"])
            yield source if cell["cell_type"] == "markdown" else f"```\n{source}\n```"
    else:
        yield text


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the magic and the rest of each line of ours in a code block or between backticks."""
    for text in _texts(path):
        fenced = re.findall(r"^```[a-z]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        inline = re.findall(
            r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
        )
        for line in [*(line for block in fenced for line in block.splitlines()), *inline]:
            found = LINE.match(line.rstrip())
            if found and "…" not in line:
                yield found[1], found[2] or ""


STANDS_FOR = {"TIME": "30m", "PORT": "6006", "LOCAL": "6007", "N": "1", "GPU": "A100"}
"""What a page writes in place of a number or a time."""


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_line_that_a_page_shows_is_read(path: Path) -> None:
    problems = [
        f"{magic} {rest}: {problem}"
        for magic, rest in _lines(path)
        if (problem := _problem(magic, rest))
    ]
    assert not problems


def _problem(magic: str, rest: str) -> str:
    """Return why a line cannot be parsed; empty if it can."""
    words = " ".join(STANDS_FOR.get(word, word) for word in rest.split())
    if magic == "nbprov":
        verb, _, words = words.partition(" ")
        if verb in ("", "--help", "#"):
            return ""
        if verb not in COMMANDS:
            return "no such command"
        parser = parser_of(verb)
    else:
        parser = MAGICS[magic]()
    try:
        parser.parse_line(words)
    except HelpWanted:
        return ""
    except UsageError as error:
        # `%nbprov sync --push` only mentions the command and its option; it is not meant to be
        # pasted.
        options = {word for word in words.split(" -- ")[0].split() if word.startswith("--")}
        spoken_of = "arguments are required" in error.message and options <= set(parser.flags())
        return "" if spoken_of else error.message
    return ""


def test_a_line_that_no_parser_reads_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```python\n%nbprov down dev --nope     # ends it\nx = %prices A100 --spot\n```\n"
        "and `%nbprov dwn dev`, `%%on --bash`\n"
    )
    assert [bool(_problem(*line)) for line in _lines(page)] == [True, False, True, False]


@pytest.mark.parametrize(
    ("line", "name", "env"),
    [
        ("dev # the cloud's own", "dev", []),
        ("dev --env A=1#2 --env 'B= # 3' # 4", "dev", ["A=1#2", "B= # 3"]),
        ("# nothing", "", []),
        (r'dev --env "A=\" # 1"', "dev", ['A=" # 1']),
    ],
)
def test_a_comment_begins_where_a_shell_would_see_one(line: str, name: str, env: list[str]) -> None:
    told = provision_parser().parse_line(line)
    assert (told.name, told.env) == (name, env)


def test_behind_two_dashes_a_jobs_line_is_the_shells_own() -> None:
    told = parser_of("jobs").parse_line("dev submit -- echo 1 # 2")
    assert told.script == "echo 1 # 2"
    told = parser_of("jobs").parse_line("dev submit # a script -- in the machine's queue")
    assert told.script is None
