"""Texts of paths: what no path can hold, and variables in them.

`$NAME` and `${NAME}` are of the spec's own envs, never of its secrets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping as Map

from nbprov.spec.yaml.diagnostics import Findings
from nbprov.spec.yaml.nodes import Node, Scalar

_UNFIT = re.compile("[\0\ud800-\udfff]")
VARIABLE = re.compile(r"\$(?:(?P<dollar>\$)|(?P<bare>[A-Za-z_]\w*)|\{(?P<braced>[A-Za-z_]\w*)\})")


def filled(text: str, envs: Map[str, str]) -> str:
    """The text with the values of variables; `$$` is a dollar sign, and unknown names stay."""

    def value(match: re.Match[str]) -> str:
        return "$" if match["dollar"] else envs.get(match["bare"] or match["braced"], match[0])

    return VARIABLE.sub(value, text)


def variables_in(text: str) -> frozenset[str]:
    """The names of the variables in a path.

    Examples
    --------
    >>> sorted(variables_in("$BASE/${RUN}/$$HOME"))
    ['BASE', 'RUN']
    """
    named = (match["bare"] or match["braced"] for match in VARIABLE.finditer(text))
    return frozenset(name for name in named if name)


def holds_unfit(node: Node, path: str, findings: Findings, *, of: str = "no path") -> bool:
    """Whether a text has a character that no path, or command, can hold; then that is recorded."""
    match = _UNFIT.search(node.text) if isinstance(node, Scalar) else None
    if match is not None:
        what = "NUL" if match[0] == "\0" else f"half of a surrogate pair (\\u{ord(match[0]):04x})"
        findings.error(
            node.start,
            path,
            "path",
            f"{path}: character {match.start() + 1} is {what}, which {of} can hold",
            "write it without",
        )
    return match is not None


def uses_secret(scalar: Scalar, path: str, secrets: frozenset[str], findings: Findings) -> bool:
    named = variables_in(scalar.text) & secrets
    if named:
        message = f"a secret must not become part of a path: ${min(named)}"
        findings.error(scalar.start, path, "mount", message, f"move {min(named)} to envs")
    return bool(named)
