"""Problems and remarks of a cell, collected so that all are shown at once, secrets masked."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NoReturn

from nbprov.model.errors import NbprovError
from nbprov.model.remarks import Origin, Remark, Severity
from nbprov.spec.yaml.nodes import Mark, Scalar

MASK = "***"
MOST_PROBLEMS = 200
"""After so many problems reading stops: nobody fixes more at a time, and each costs a search for
similar names.
"""

MOST_SHOWN = 6
"""Problems that are shown in full; a reader fixes a few and runs the cell again."""

EXCERPT_WIDTH = 100
"""Characters shown of a source line: if it wrapped in the output, the caret would be misplaced."""

SCRUB_LENGTH = 4
"""Shorter secret values are masked where they stand, but not searched for in other text: `1` would
match everywhere.
"""

_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class SpecProblem:
    """One error in a cell.

    Attributes
    ----------
    code
        A stable, greppable name such as `spec.unknown-field`.
    path
        Path in the structure, `resources.any_of[1].cpus`; empty for the whole cell.
    line, column
        Place in the text, both from 1.
    hint
        The next step; may be empty.
    closest
        The nearest known name, if a name was mistyped or misplaced.
    excerpt, caret
        The source line as it may be shown (clipped, secrets masked), and the offset of the problem
        in it.
    """

    code: str
    path: str
    line: int
    column: int
    message: str
    hint: str = ""
    closest: str = ""
    excerpt: str = ""
    caret: int = 0

    def render(self) -> list[str]:
        """The lines a person sees."""
        lines = [f"line {self.line}, column {self.column}: {self.message}  [{self.code}]"]
        if self.excerpt.strip():
            lines += [f"  | {self.excerpt}", f"  | {' ' * self.caret}^"]
        if self.hint:
            lines.append(f"  next: {self.hint}")
        return lines


class SpecError(NbprovError):
    """A cell that cannot be provisioned, with all of its problems in the order of the text.

    Attributes
    ----------
    problems
        Each with its `code`, `message` and `hint`, and where in the text it is.
    """

    code = "spec.invalid"

    def __init__(self, problems: Iterable[SpecProblem]) -> None:
        self.problems: tuple[SpecProblem, ...] = tuple(problems)
        first = self.problems[0]
        count = len(self.problems)
        message = first.message if count == 1 else f"{count} problems in this cell"
        super().__init__(message, hint=first.hint, code=first.code if count == 1 else None)

    def render(self) -> list[str]:
        """The first few problems, each with its line, a caret and a hint."""
        if len(self.problems) == 1:
            return self.problems[0].render()
        lines = [f"{self.message}  [{self.code}]"]
        for problem in self.problems[:MOST_SHOWN]:
            lines += problem.render()
        hidden = len(self.problems) - MOST_SHOWN
        if hidden > 0:
            lines.append(f"+{hidden} more")
        return lines


class InvalidValue(ValueError):
    """A scalar does not hold what its field needs."""

    def __init__(self, message: str, hint: str, code: str = "value") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code


class Findings:
    """Collects the problems and remarks of one cell.

    Parameters
    ----------
    text
        The cell's body.
    ignore
        Names or paths of fields that the person chose to ignore: an error because nbprov cannot
        honour them becomes a warning.
    first_line
        The number of the body's first line as the reader counts; 2 below a magic line.
    """

    def __init__(
        self, text: str, ignore: frozenset[str] = frozenset(), first_line: int = 1
    ) -> None:
        self.text = text
        self.lines = _LINE_BREAK.split(text)
        self.ignore = ignore
        self.first_line = first_line
        self.lines_are_hidden = False
        self.remarks: list[Remark] = []
        self.ignored: set[str] = set()
        self._problems: list[SpecProblem] = []
        self._masked: dict[int, list[tuple[int, int]]] = {}
        self._secrets: set[str] = set()
        self._secrets_are_known = False
        self._variables: dict[Mark, bool] = {}

    def error(
        self, at: Mark, path: str, code: str, message: str, hint: str = "", closest: str = ""
    ) -> None:
        """Record a problem. The cell fails once everything is read, or at once if there are very
        many.

        If a variable could not be filled in, later problems at its place are left out.
        """
        if self._variables.get(at) is False:
            return
        if code == "variable":
            self._variables[at] = False
        if len(self._problems) < MOST_PROBLEMS:
            self._problems.append(
                SpecProblem(f"spec.{code}", path, at.line, at.column, message, hint, closest)
            )
        elif self._secrets_are_known:
            self.raise_if_any()

    def fail(self, at: Mark, path: str, code: str, message: str, hint: str = "") -> NoReturn:
        """Record a problem after which nothing more can be read, and raise it."""
        self.error(at, path, code, message, hint)
        raise self._exception() from None

    def from_variable(self, at: Mark) -> None:
        """Note that the value at this place came from a notebook variable."""
        self._variables.setdefault(at, True)

    def is_from_variable(self, at: Mark) -> bool:
        """Whether the value at this place came from a notebook variable."""
        return self._variables.get(at, False)

    def note(self, at: Mark, path: str, code: str, message: str) -> None:
        """Record a remark that changes nothing."""
        self._remark(Severity.NOTE, at, path, code, message)

    def warn(self, at: Mark, path: str, code: str, message: str) -> None:
        """Record a remark on something that may cost money or data, or be a surprise."""
        self._remark(Severity.WARNING, at, path, code, message)

    def not_acted_on(self, at: Mark, path: str, name: str, message: str) -> None:
        """Record that nothing is done yet with a field.

        It is a warning, or a note if the person chose to ignore the field.
        """
        self._remark(
            Severity.NOTE if self.is_ignored(name, path) else Severity.WARNING,
            at,
            path,
            "not-used",
            message,
        )

    def cannot_honour(
        self, at: Mark, path: str, name: str, message: str, hint: str = "", code: str = "not-yet"
    ) -> None:
        """Record that nbprov cannot do what a field asks for.

        It is an error, or a warning if the person chose to ignore the field.
        """
        if self.is_ignored(name, path):
            self.warn(at, path, "ignored", f"{message}; ignored, as you asked")
            return
        way_out = f"remove it, or add `--ignore {name}` to go on without"
        self.error(at, path, code, message, f"{hint}; or {way_out}" if hint else way_out)

    def is_ignored(self, name: str, path: str) -> bool:
        """Whether `--ignore` names this field; notes that the name was of use."""
        hits = {name, path} & self.ignore
        self.ignored |= hits
        return bool(hits)

    def hide(self, scalars: Iterable[Scalar]) -> None:
        """Never show these values, neither in an excerpt nor in a message."""
        self._secrets_are_known = True
        for scalar in scalars:
            self._mask(scalar.start, scalar.end)
            self._secrets.update(
                part for part in (scalar.text, scalar.text.strip()) if len(part) >= SCRUB_LENGTH
            )

    def hide_text(self, text: str) -> None:
        """Never show this text anywhere."""
        if len(text) >= SCRUB_LENGTH:
            self._secrets.add(text)

    def hide_line(self, number: int, start: int) -> None:
        """Never show a line (0-based in the text) from offset `start` on."""
        self._masked.setdefault(number, []).append((start, len(self.lines[number])))

    @property
    def problem_count(self) -> int:
        """Number of problems recorded so far."""
        return len(self._problems)

    def raise_if_any(self) -> None:
        """Raise `SpecError` if any problem was recorded."""
        if self._problems:
            raise self._exception()

    def finished_remarks(self) -> tuple[Remark, ...]:
        """The remarks in the order of the text, each once, with secrets masked."""
        clean = {
            replace(remark, message=self._scrub(remark.message)): None for remark in self.remarks
        }
        return tuple(sorted(clean, key=lambda remark: remark.origin.line))

    def secret_values(self) -> frozenset[str]:
        """The secret values that are searched for in other text."""
        return frozenset(self._secrets)

    def _remark(self, level: Severity, at: Mark, path: str, code: str, message: str) -> None:
        self.remarks.append(Remark(level, f"spec.{code}", message, Origin(path, at.line)))

    def _mask(self, start: Mark, end: Mark) -> None:
        first, last = start.line - self.first_line, end.line - self.first_line
        for number in range(first, min(last, len(self.lines) - 1) + 1):
            left = start.column - 1 if number == first else 0
            right = end.column - 1 if number == last else len(self.lines[number])
            if right > left:
                self._masked.setdefault(number, []).append((left, right))

    def _exception(self) -> SpecError:
        ordered = sorted(self._problems, key=lambda p: (p.line, p.column))
        return SpecError(self._presentable(p) for p in dict.fromkeys(ordered))

    def _presentable(self, problem: SpecProblem) -> SpecProblem:
        excerpt, caret = self._excerpt(problem.line - self.first_line, problem.column - 1)
        return replace(
            problem,
            path=self._scrub(problem.path),
            message=self._scrub(problem.message),
            hint=self._scrub(problem.hint),
            excerpt=excerpt,
            caret=caret,
        )

    def _scrub(self, text: str) -> str:
        for value in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(value, MASK)
        return text

    def _excerpt(self, number: int, column: int) -> tuple[str, int]:
        if not 0 <= number < len(self.lines):
            return "", 0
        line = self.lines[number]
        spans = sorted(self._masked.get(number, []) + list(self._occurrences(line)))
        shown, caret, done = "", min(column, len(line)), 0
        moved = caret
        for left, right in spans:
            if right <= done:
                continue
            left = max(left, done)
            if left <= column < right:
                moved = len(shown) + left - done
            elif right <= column:
                moved = len(shown) + (left - done) + len(MASK) + (caret - right)
            shown += line[done:left] + MASK
            done = right
        shown += line[done:]
        return _clip(shown.replace("\t", " "), moved)

    def _occurrences(self, line: str) -> Iterable[tuple[int, int]]:
        for value in self._secrets:
            at = line.find(value)
            while at >= 0:
                yield at, at + len(value)
                at = line.find(value, at + 1)


def _clip(line: str, caret: int) -> tuple[str, int]:
    line = "".join(c if c.isprintable() else "?" for c in line).rstrip()
    caret = min(caret, len(line))
    if len(line) <= EXCERPT_WIDTH:
        return line, caret
    start = max(0, min(caret - EXCERPT_WIDTH // 3, len(line) - EXCERPT_WIDTH))
    cut = line[start : start + EXCERPT_WIDTH]
    head = "…" if start else ""
    tail = "…" if start + EXCERPT_WIDTH < len(line) else ""
    return head + cut + tail, caret - start + len(head)
