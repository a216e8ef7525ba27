"""Variables in paths: `$NAME` and `${NAME}` of the spec's own envs, never of its secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping as Map

from nbprov.spec.yaml.diagnostics import Findings
from nbprov.spec.yaml.nodes import Scalar

VARIABLE = re.compile(r"\$(?:(?P<dollar>\$)|(?P<bare>[A-Za-z_]\w*)|\{(?P<braced>[A-Za-z_]\w*)\})")


def filled(text: str, envs: Map[str, str]) -> str:
    """The text with the values of variables; `$$` is a dollar sign, and unknown names stay."""

    def value(match: re.Match[str]) -> str:
        return "$" if match["dollar"] else envs.get(match["bare"] or match["braced"], match[0])

    return VARIABLE.sub(value, text)


def uses_secret(scalar: Scalar, path: str, secrets: frozenset[str], findings: Findings) -> bool:
    named = {match["bare"] or match["braced"] for match in VARIABLE.finditer(scalar.text)} & secrets
    if named:
        message = f"a secret must not become part of a path: ${min(named)}"
        findings.error(scalar.start, path, "mount", message, f"move {min(named)} to envs")
    return bool(named)
