"""Write docs/errors.md from the source: the causes of refusals, and every code with its words.

`--check` only compares.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nbprov.model.clock import short_duration
from nbprov.model.failures import RULES, Retry, Scope

WIDTH = 100
PAGE = Path(__file__).with_name("errors.md")
PACKAGE = Path(__file__).parents[1] / "nbprov"
CODE = re.compile(r"[a-z0-9]+\.[a-z0-9-]+")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
MOST_WORDS = 3
"""So many ways to say one error are listed; most have one."""

INTRODUCTION = """# Errors and what to do

An error of nbprov is two lines: what happened, with a code that stays the same, and what to do
next. `%tb` shows the inside. This page is generated from the source; `…` stands for a name, a
number or what a cloud said.

```text
no cluster called 'dve'  [cluster.not-found]
  next: did you mean 'dev'?
```

## Why a cloud refuses

A refused create has one of these causes, whatever the cloud calls it. The panel shows the cause,
and behind it the cloud's own message. What is blocked is not tried again for so long, unless you
clear it (`%nbprov blocks --clear`).

| cause | blocked | for | what comes next | what you can do |
|---|---|---|---|---|
"""
WHERE = {
    Retry.ELSEWHERE: "the next place",
    Retry.OTHER_CLOUDS: "other clouds",
    Retry.OTHER_MARKET: "the other market",
    Retry.SAME: "the same place again",
    Retry.RESOLVE: "the cloud's listing decides",
    Retry.STOP: "nothing: the launch ends",
}


@dataclass(frozen=True, slots=True)
class Said:
    """One way to say an error: what happened, and what to do."""

    words: str
    hint: str


def page() -> str:
    """Return the text of the page."""
    parts = [INTRODUCTION]
    for rule in RULES.values():
        scope = "" if rule.scope is Scope.NOTHING else str(rule.scope.value)
        length = short_duration(rule.seconds) if rule.seconds and scope else ""
        cells = (rule.words, scope, length, WHERE[rule.retry], rule.advice)
        parts.append(f"| {' | '.join(cells)} |\n")
    parts.append("\n## All codes\n")
    family = ""
    for code, said in sorted(_codes().items()):
        if code.partition(".")[0] != family:
            family = code.partition(".")[0]
            parts.append(f"\n### {family}\n\n")
        parts.append(_item(code, said))
    return "".join(parts)


def _item(code: str, said: list[Said]) -> str:
    first, *more = (
        one.words + (f" *Next:* {one.hint}" if one.hint else "") for one in said[:MOST_WORDS]
    )
    lines = [textwrap.fill(f"- **`{code}`**: {first}", WIDTH, subsequent_indent="  ")]
    lines += [textwrap.fill(f"  - {line}", WIDTH, subsequent_indent="    ") for line in more]
    return "\n".join(lines) + "\n"


def _codes() -> dict[str, list[Said]]:
    """Return every code with the ways to say it, in the order of the source."""
    found: dict[str, list[Said]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for scope in [tree, *(n for n in ast.walk(tree) if isinstance(n, FUNCTIONS))]:
            for code, said in _in(scope):
                known = found.setdefault(code, [])
                if said not in known:
                    known.append(said)
    return {code: _without_empty(said) for code, said in found.items()}


def _without_empty(said: list[Said]) -> list[Said]:
    told = [one for one in said if any(letter.isalpha() for letter in one.words)]
    return told or [Said("its message says what happened", "")]


def _in(scope: ast.AST) -> Iterator[tuple[str, Said]]:
    """Yield the codes that stand in this function, or in the classes of this module."""
    texts = {
        target.id: node.value
        for node in ast.walk(scope)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(scope):
        if isinstance(node, ast.ClassDef) and isinstance(scope, ast.Module):
            code = _class_code(node)
            summary = (ast.get_docstring(node) or "").partition("\n\n")[0]
            if code:
                yield code, Said(" ".join(summary.split()), "")
        elif isinstance(node, ast.Call) and not isinstance(scope, ast.Module):
            named = {one.arg: one.value for one in node.keywords}
            words = _template(node.args[0], texts) if node.args else ""
            for code in _codes_in(named.get("code")):
                yield code, Said(words, _template(named.get("hint"), texts))
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).endswith(".code"):
            for code in _codes_in(node.value):
                yield code, Said("", "")


def _class_code(node: ast.ClassDef) -> str:
    for line in node.body:
        if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "code":
            code = _constant(line.value)
            return code if CODE.fullmatch(code) else ""
    return ""


def _codes_in(node: ast.AST | None) -> Iterator[str]:
    for one in ast.walk(node) if node is not None else ():
        if CODE.fullmatch(code := _constant(one)):
            yield code


def _constant(node: ast.AST | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _template(node: ast.AST | None, texts: dict[str, ast.expr]) -> str:
    """Return a text of the source with `…` for what is put into it."""
    if isinstance(node, ast.Name) and node.id in texts and texts[node.id] is not node:
        node = texts[node.id]
    if isinstance(node, ast.JoinedStr):
        parts = [_constant(part) or "…" for part in node.values]
        return _safe(re.sub("…+", "…", "".join(parts)))
    return _safe(_constant(node))


def _safe(text: str) -> str:
    """Return a text in one line that Markdown shows as it is."""
    line = " ".join(text.split())
    return re.sub(r"([<>*_`\[\]|])", r"\\\1", line)


def main() -> int:
    """Write the page, or compare it; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only")
    wanted = page()
    if not parser.parse_args().check:
        PAGE.write_text(wanted, encoding="utf-8")
        return 0
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != wanted:
        print("docs/errors.md is out of date: python docs/errors_reference.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
