"""A request with its names resolved, and the refusal of a name that has no meaning."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from nbprov.catalog.query import Query
from nbprov.catalog.vocabulary.name_matching import is_writable
from nbprov.model.resources import PlaceRule, Request
from nbprov.planning.errors import PlanProblem
from nbprov.planning.filters.place_patterns import named_clouds

NEAR_NAMES = 3
MOST_LISTED = 16
"""More places than these are not listed, because nobody reads them."""


class UnresolvedName(Exception):
    """A name cannot be resolved."""

    def __init__(self, problem: PlanProblem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """A request with its names resolved.

    Attributes
    ----------
    query
        Its hardware and market, without place and price cap: one look-up answers all requests with
        this query.
    plain
        Whether the default rules choose the machine; vCPUs and memory are then not in `query`.
    unknown
        The nearest known names, best first, if no catalogue has the accelerator; else None.
    notes
        What was read differently from how it was written.
    rules
        Patterns of places, all of which must hold.
    """

    request: Request
    query: Query
    cloud: str = ""
    region: str = ""
    zone: str = ""
    plain: bool = False
    unknown: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    rules: tuple[PlaceRule, ...] = ()

    @property
    def is_placed(self) -> bool:
        """Whether it names any place."""
        return bool(self.cloud or self.region or self.zone or self.rules)

    @property
    def named(self) -> frozenset[str]:
        """The clouds it names."""
        return named_clouds(self.rules) | {self.cloud} if self.cloud else named_clouds(self.rules)


def nearest_names(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """The names spelled most like `name`, best first."""
    low = name.casefold()
    folded = {text.casefold(): text for text in sorted(filter(is_writable, known), reverse=True)}
    alike = difflib.get_close_matches(low, folded, 3 * NEAR_NAMES)
    alike.sort(key=lambda text: (-difflib.SequenceMatcher(None, text, low).ratio(), text))
    return tuple(folded[text] for text in alike[:NEAR_NAMES])


def unresolved(
    request: Request, code: str, message: str, near: tuple[str, ...], otherwise: str = ""
) -> UnresolvedName:
    hint = f"did you mean {' or '.join(near)}?" if near else otherwise
    return UnresolvedName(PlanProblem(code, request.origin, message, hint, near))
