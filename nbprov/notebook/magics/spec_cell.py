"""Read the spec in a cell, and ask the person for values that it needs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nbprov.api import Session
from nbprov.api.spec_inputs import ask_nobody, names_given
from nbprov.model.remarks import Severity
from nbprov.model.spec import Spec
from nbprov.notebook.panels import frontend
from nbprov.notebook.terminal import say

from .prices import print_catalog_problems

BODY_LINE = 2
"""The line number of a cell's first line below its magic, as an editor counts."""


def read_cell(
    here: Session,
    shell: Any,
    text: str,
    *,
    ignore: Sequence[str],
    given: Mapping[str, str] | None = None,
) -> Spec:
    """Return the spec of a cell, with `$name` replaced by the notebook's variables.

    Prints the remarks on the spec and the values that were filled in.
    """
    spec = here.parse(
        text,
        ignore=ignore,
        first_line=BODY_LINE,
        variables=shell.user_ns,
        given=names_given(given or {}),
    )
    _print_remarks(spec)
    print_catalog_problems(here.catalog())
    return spec


def _print_remarks(spec: Spec) -> None:
    for remark in sorted(spec.remarks, key=lambda r: r.level is not Severity.WARNING):
        line = f" (line {remark.origin.line})" if remark.origin.line else ""
        say(f"{remark.level.value}: {remark.message}{line}")
    for variable in spec.variables:
        say(f"${variable.name} = {variable.shown}")


def can_ask(shell: Any) -> bool:
    """Return whether a question reaches a person: in a watched notebook, or in a terminal."""
    if hasattr(shell, "kernel"):
        return frontend.is_interactive()
    return sys.stdin is not None and sys.stdin.isatty()


def value_prompt(shell: Any) -> Callable[[str, bool], str | None]:
    """Return the function that asks the person for a value, given its name and if it is hidden."""
    return _prompt if can_ask(shell) else ask_nobody


def _prompt(name: str, hidden: bool) -> str | None:
    from getpass import getpass

    from IPython.core.error import StdinNotImplementedError

    try:
        return getpass(f"{name}: ") if hidden else input(f"{name}: ")
    except (StdinNotImplementedError, EOFError):
        return None  # some front ends cannot ask
