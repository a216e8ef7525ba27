"""Problems that planning refuses: unknown or ambiguous names, and contradictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nbprov.model.errors import NbprovError
from nbprov.model.remarks import Origin


@dataclass(frozen=True, slots=True)
class PlanProblem:
    """One problem with a spec's names, or a contradiction in it.

    Attributes
    ----------
    code
        A stable name such as `plan.unknown-region`.
    origin
        Where in the cell the request was written.
    message, hint
        What is wrong, and what to write instead.
    closest
        Known names similar to the one that was written, best first.
    excerpt
        The line of the cell with the word that is meant, and a line with a caret below it.
    word
        That word; empty where the problem is about no word of the cell.
    """

    code: str
    origin: Origin
    message: str
    hint: str = ""
    closest: tuple[str, ...] = ()
    excerpt: tuple[str, ...] = ()
    word: str = ""

    def render(self) -> list[str]:
        """The lines a person sees."""
        where = f"line {self.origin.line}: " if self.origin.line else ""
        lines = [f"{where}{self.message}  [{self.code}]", *self.excerpt]
        if self.hint:
            lines.append(f"  next: {self.hint}")
        return lines


class PlanError(NbprovError):
    """A spec names something that does not exist, is ambiguous, or contradicts itself.

    Parameters
    ----------
    problems
        All problems in the order of the spec; at least one.

    Notes
    -----
    A valid spec that cannot be placed is no error: its plan has no candidates, and its notes say
    why.
    """

    code = "plan"

    def __init__(self, problems: Sequence[PlanProblem]) -> None:
        first = problems[0]
        super().__init__(first.message, hint=first.hint, code=first.code)
        self.problems = tuple(problems)

    @property
    def origin(self) -> Origin:
        """Where the first problem was written."""
        return self.problems[0].origin

    @property
    def line(self) -> int:
        """Line of the first problem in the cell, from 1; 0 if it is not written there."""
        return self.origin.line

    def render(self) -> list[str]:
        """The lines a person sees: every problem with its line and the next step."""
        return [line for problem in self.problems for line in problem.render()]
