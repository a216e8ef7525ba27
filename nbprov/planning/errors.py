"""What planning refuses: names that mean nothing, or more than one thing, and demands that contradict each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nbprov.model.errors import NbprovError
from nbprov.model.spec import Origin


@dataclass(frozen=True, slots=True)
class PlanProblem:
    """One thing in a spec that no catalogue can make sense of.

    Attributes
    ----------
    code
        A stable name such as `plan.unknown-region`.
    origin
        Where in the cell the request was written.
    message, hint
        What is wrong, and what to write instead.
    closest
        Known names near the one that was written, best first.
    """

    code: str
    origin: Origin
    message: str
    hint: str = ""
    closest: tuple[str, ...] = ()

    def render(self) -> list[str]:
        """The lines a person sees."""
        where = f"line {self.origin.line}: " if self.origin.line else ""
        lines = [f"{where}{self.message}  [{self.code}]"]
        if self.hint:
            lines.append(f"  next: {self.hint}")
        return lines


class PlanError(NbprovError):
    """A spec names something that does not exist, is ambiguous, or contradicts itself.

    Parameters
    ----------
    problems
        All of them, in the order of the spec; at least one.

    Notes
    -----
    A spec that is valid but cannot be placed is no error: its plan has no candidates and its notes say why.
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
        """Line of the first problem in the cell, 1-based; 0 where it was not written."""
        return self.origin.line

    def render(self) -> list[str]:
        """The lines a person sees: every problem with its line and what to do next."""
        return [line for problem in self.problems for line in problem.render()]
