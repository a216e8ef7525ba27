"""No program reads a sentence: what is meant for people is matched, cut or compared nowhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import nbprov

ROOT = Path(nbprov.__file__).parent
FOLDERS = (
    "api",
    "clouds",
    "machines",
    "market",
    "model",
    "notebook",
    "planning",
    "provisioning",
    "remote",
    "runtime",
)
SENTENCES = frozenset({"hint", "message", "reason", "rule", "text", "why", "words"})
"""Attributes that hold a text for people, on whatever they are."""
NAMES = SENTENCES - {"rule", "text"}
"""Variables that do: a `text` is anything that is parsed, a spec say."""
READS = frozenset(
    {
        "endswith",
        "find",
        "index",
        "partition",
        "removeprefix",
        "removesuffix",
        "rpartition",
        "rsplit",
        "split",
        "startswith",
    }
)
PATTERNS = frozenset({"findall", "finditer", "fullmatch", "match", "search"})

FOREIGN = {
    (
        "notebook/magics/variable_errors.py",
        "why",
    ): "what Python said on a machine when it could not read a value",
    ("notebook/commands/logs.py", "text"): "the log of a job",
    ("clouds/aws/check.py", "message"): "AWS names a missing permission in its message alone",
    ("clouds/aws/instances/run_instances.py", "message"): "as above, and what it is missing on",
    ("clouds/aws/instances/states.py", "words"): "an EC2 state's message, which may hold its code",
    ("clouds/gcp/check.py", "message"): "Google's words for an API that is not enabled",
    ("clouds/web/edge.py", "message"): "the network in front of a provider has one line of text",
    ("clouds/refusal_words.py", "message"): "what any provider says, for the tables of all",
    ("clouds/gcp/network/firewall.py", "message"): "Google's words for a network that is not there",
    ("clouds/contract/lifecycle.py", "reason"): "the words that the test itself gave a machine",
    (
        "clouds/local/daemon/machine.py",
        "reason",
    ): "a machine's own words, of which white space goes",
    ("remote/ssh/port_forward.py", "reason"): "asyncssh has one code for all failed channels",
}
"""Texts of foreign programs, which have nothing else to offer: by file and name."""

ERROR_TABLES = "clouds/*/errors.py"
"""Where the messages of a provider become causes: reading them is what these files are for."""

SHOWN = {
    ("notebook/rendering/runs.py", "message"): "a line that is shown already is not shown twice",
    ("clouds/contract/creates.py", "message"): "a check that the cloud's own words are passed on",
    ("clouds/contract/broken_calls.py", "words"): "which parts of an answer hold those words",
}
"""Texts that are compared with one another alone, and that decide nothing."""


def _is_sentence(node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in SENTENCES
    return isinstance(node, ast.Name) and node.id in NAMES


def _name(node: ast.expr) -> str:
    return (
        node.attr
        if isinstance(node, ast.Attribute)
        else node.id
        if isinstance(node, ast.Name)
        else ""
    )


def _is_words(node: ast.expr) -> bool:
    """Whether an expression is a text that is written in the program; the empty one says that there
    is none.
    """
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value != ""
    )


def _read(node: ast.AST) -> Iterator[ast.expr]:
    """The sentences that an expression reads."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in READS:
            yield from filter(_is_sentence, (node.func.value, *node.args))
        if node.func.attr in PATTERNS:
            yield from filter(_is_sentence, node.args)
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        for left, operator, right in zip(sides, node.ops, sides[1:], strict=False):
            if isinstance(operator, ast.In | ast.NotIn) and _is_sentence(right):
                yield right
            elif isinstance(operator, ast.Eq | ast.NotEq) and (_is_words(left) or _is_words(right)):
                yield from filter(_is_sentence, (left, right))


def reads(source: str, where: str) -> list[str]:
    """Each place in a program that reads a sentence."""
    found = [
        (node.lineno, _name(node)) for tree in ast.walk(ast.parse(source)) for node in _read(tree)
    ]
    return [
        f"{where}:{line} reads {name}"
        for line, name in sorted(found)
        if (where, name) not in FOREIGN | SHOWN
    ]


def test_no_program_reads_a_sentence() -> None:
    files = [
        path
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if not path.relative_to(ROOT).match(ERROR_TABLES)
    ]
    assert len(files) > 100
    found = [
        line
        for path in files
        for line in reads(path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix())
    ]
    assert found == []


def test_each_way_to_read_one_is_found() -> None:
    read = """
row.reason.startswith("to be ended: ")
why.removeprefix("x")
"gone" in event.text
error.message == f"no {name}"
re.search("gone", reason)
drop.rule.partition(":")
line.startswith(message)
"""
    assert len(reads(read, "x.py")) == 7
    shown = (
        'f"{row.reason}: {why}"; reason or "none"; if_none = row.reason == "";'
        ' text.startswith("#"); code == "x"; state in (a, b)'
    )
    assert reads(shown, "x.py") == []
