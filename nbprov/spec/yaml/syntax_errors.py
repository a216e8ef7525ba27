"""Report PyYAML's syntax errors in our own words, which repeat nothing of the text."""

from __future__ import annotations

from yaml.error import MarkedYAMLError

from .diagnostics import Findings
from .nodes import Mark
from .secret_lines import hide_secret_lines

_SYNTAX = (
    ("'\\t'", "tab", "a tab character; YAML is indented with spaces", "replace tabs by spaces"),
    (
        "mapping values are not allowed",
        "syntax",
        "a `:` that YAML does not expect here",
        "indent keys of one map alike; quote text that holds `: `",
    ),
    ("could not find expected ':'", "syntax", "a key without its `:`", "write `key: value`"),
    (
        "while parsing a block mapping",
        "syntax",
        "this line does not fit the map it stands in",
        "indent keys of one map alike",
    ),
    (
        "while parsing a block collection",
        "syntax",
        "this line does not fit the list it stands in",
        "indent the `-` of one list alike",
    ),
    (
        "while parsing a flow",
        "syntax",
        "a `,` or a closing bracket is missing",
        "close every `{` and `[`",
    ),
    (
        "while scanning a quoted scalar",
        "syntax",
        "a quoted text does not end",
        "close the quotation mark",
    ),
    (
        "while scanning a double-quoted scalar",
        "syntax",
        "an unknown escape in double quotes",
        "use single quotes, or double the `\\`",
    ),
    (
        "while scanning a block scalar",
        "syntax",
        "text after `|` or `>` that YAML does not expect",
        "start the block on the next line, indented",
    ),
    (
        "cannot start any token",
        "syntax",
        "a character that cannot start a value",
        "quote the value",
    ),
    (
        "while scanning an a",
        "syntax",
        "a `&` or `*` without a name",
        "quote text that starts with `&` or `*`",
    ),
    ("document start", "syntax", "text after the end of the map", "indent keys of one map alike"),
)


def fail_on_syntax(findings: Findings, error: MarkedYAMLError) -> None:
    """Report where the text stops being YAML.

    PyYAML's own words quote the text, which may be a secret.
    """
    hide_secret_lines(findings)
    said = f"{error.context or ''} {error.problem or ''}"
    found = next((row for row in _SYNTAX if row[0] in said), None)
    mark = error.problem_mark or error.context_mark
    line, column, index = (mark.line, mark.column, mark.index) if mark else (0, 0, 0)
    at = Mark(findings.first_line + line, column + 1, index)
    _, code, message, hint = found or (
        "",
        "syntax",
        "this is not valid YAML",
        "write `key: value` lines; quote unusual text",
    )
    opened = error.context_mark
    if (
        found
        and found[1] == "syntax"
        and opened is not None
        and mark is not None
        and opened.line < mark.line
    ):
        message += f" (it began in line {opened.line + findings.first_line})"
    findings.fail(at, "", code, message, hint)
