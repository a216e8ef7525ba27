"""What is wrong in a cell with a spec while it is typed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .magics import magic_parser

LONGEST_CELL = 20_000
"""Characters of a cell that is looked at; a spec that somebody types has a few hundred."""

_WITH_SPEC = re.compile(r"\s*%%(provision|nbprov\s+plan)(?=\s)")
_VARIABLE = re.compile(r"\$\{?\s*(\w+)")
_PLAIN = (str, int, float, bool)
_WORD = re.compile(r"[^\s,:{}\[\]'\"]+")


@dataclass(frozen=True, slots=True)
class CellProblem:
    """A problem at a word of a cell.

    Attributes
    ----------
    line, column
        Where the word begins, both from 1; the cell's first line is 1.
    length
        Characters of the word; 0 where something is missing.
    message
        What is wrong, and what to write instead.
    """

    line: int
    column: int
    length: int
    message: str


def problems_in(source: str, variables: Mapping[str, object]) -> list[dict[str, Any]]:
    """Return the problems in a cell, as fields of `CellProblem`; none if it is no `%%provision`.

    No cloud is asked and nothing is written, so it can be called at each change of the cell.

    Parameters
    ----------
    variables
        The notebook's variables, for `$name`.

    Examples
    --------
    >>> problems_in("%%provision\\nresources: {acelerators: A100}", {})[0]["message"]
    'unknown field `acelerators` under `resources`; did you mean `accelerators`?'
    """
    magic = _WITH_SPEC.match(source)
    if magic is None or len(source) > LONGEST_CELL:
        return []
    arguments, _, body = source[magic.end() :].partition("\n")
    first_line = source.count("\n") - body.count("\n") + 1
    if not body.strip():
        return []  # `%%provision` shows a form
    ignored, on_line = _read_line(magic, arguments, first_line - 1)
    named = {name: variables[name] for name in _VARIABLE.findall(body) if name in variables}
    if not all(isinstance(value, _PLAIN) for value in named.values()):
        # To ask another object for its text is to run code of the notebook.
        return [asdict(problem) for problem in on_line]
    in_spec = _spec_problems(body, ignored, first_line, variables)
    return [asdict(problem) for problem in (*on_line, *in_spec)]


def _read_line(
    magic: re.Match[str], arguments: str, line: int
) -> tuple[Sequence[str], list[CellProblem]]:
    """Return the fields that the person ignores, and what is wrong in the magic's line."""
    from nbprov.model.errors import UsageError
    from nbprov.notebook.arguments import HelpWanted

    name, *command = magic[1].split()
    parser = magic_parser(name, command)
    assert parser is not None, f"{name} has a parser"
    try:
        return parser.parse_line(arguments).ignore, []
    except HelpWanted:
        return (), []
    except UsageError as error:
        begin = len(arguments) - len(arguments.lstrip())
        column = len(magic[0].rpartition("\n")[2]) + begin + 1
        return (), [CellProblem(line, column, len(arguments.strip()), error.message)]


def _spec_problems(
    body: str, ignored: Sequence[str], first_line: int, variables: Mapping[str, object]
) -> Iterator[CellProblem]:
    from nbprov.catalog import default_catalog
    from nbprov.clouds import registry
    from nbprov.planning.excerpts import find_word
    from nbprov.planning.name_problems import name_problems
    from nbprov.spec import SpecError, parse

    try:
        spec = parse(body, frozenset(ignored), first_line=first_line, variables=variables)
    except SpecError as error:
        lines = body.split("\n")
        for one in error.problems:
            # YAML also ends lines at signs where no editor does.
            at = min(one.line - first_line, len(lines) - 1)
            found = _WORD.match(lines[at], one.column - 1)
            length = len(found[0]) if found else 0
            message = _sentence(one.message, one.hint)
            yield CellProblem(at + first_line, one.column, length, message)
        return
    for problem in name_problems(spec, default_catalog(), registry.names()):
        start = problem.origin.line - first_line + 1
        message = _sentence(problem.message, problem.hint)
        if place := find_word(body, problem.word, start):
            line, column = place
            yield CellProblem(line + first_line - 1, column, len(problem.word), message)
        else:  # a variable holds it: the line where the request begins
            text = body.split("\n")[start - 1]
            column = len(text) - len(text.lstrip()) + 1
            yield CellProblem(problem.origin.line, column, len(text.strip()), message)


def _sentence(message: str, hint: str) -> str:
    return f"{message}; {hint}" if hint else message
