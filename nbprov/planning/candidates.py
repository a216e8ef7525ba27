"""The candidates of a plan: tens of thousands of rows, of which a launch looks at a few, so each is built when asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, overload

from nbprov.catalog.vocabulary.instance_families import is_us
from nbprov.market import Chances, Pool
from nbprov.model.clock import short_duration
from nbprov.model.money import format_usd
from nbprov.model.offers import Candidate, Offer
from nbprov.model.spec import Policy, Request

if TYPE_CHECKING:
    from .lookup.catalog_columns import Ints

ORDINALS = ("1st", "2nd", "3rd")
FIRST = {
    Policy.CHEAPEST: "cheapest",
    Policy.SOONEST: "soonest",
    Policy.BALANCED: "best price for its chance",
}
"""What the first candidate is, by what the spec prefers."""


class CandidateList(Sequence[Candidate]):
    """An immutable sequence of candidates over row numbers; `len` costs nothing, a member is built on access.

    A slice is such a sequence too; its members keep the ranks they have in the plan.

    Parameters
    ----------
    rows, request_of
        Row number in the catalogue and index into `requests`, in the plan's order.
    offer
        Builds the offer of a row.
    accounts
        Account by cloud.
    tiers
        The tiers of the spec in order, those without a candidate included: what `why` counts.
    cloud_codes
        A number a cloud for each row.
    prefer, chances
        What the order inside a tier was made by.
    """

    __slots__ = (
        "_accounts",
        "_at",
        "_chances",
        "_cloud_codes",
        "_count",
        "_offer",
        "_prefer",
        "_request_of",
        "_requests",
        "_rows",
        "_tiers",
    )

    def __init__(
        self,
        rows: Ints,
        request_of: Ints,
        *,
        requests: Sequence[Request],
        offer: Callable[[int], Offer],
        accounts: Mapping[str, str],
        count: int,
        tiers: Sequence[int],
        cloud_codes: Callable[[Ints], Ints],
        prefer: Policy = Policy.CHEAPEST,
        chances: Chances,
        at: range | None = None,
    ) -> None:
        self._rows = rows
        self._request_of = request_of
        self._requests = requests
        self._offer = offer
        self._accounts = accounts
        self._count = count
        self._tiers = tuple(tiers)
        self._cloud_codes = cloud_codes
        self._prefer = prefer
        self._chances = chances
        self._at = range(len(rows)) if at is None else at

    def __len__(self) -> int:
        return len(self._at)

    @overload
    def __getitem__(self, index: int) -> Candidate: ...
    @overload
    def __getitem__(self, index: slice) -> CandidateList: ...
    def __getitem__(self, index: int | slice) -> Candidate | CandidateList:
        if isinstance(index, slice):
            return CandidateList(
                self._rows,
                self._request_of,
                requests=self._requests,
                offer=self._offer,
                accounts=self._accounts,
                count=self._count,
                tiers=self._tiers,
                cloud_codes=self._cloud_codes,
                prefer=self._prefer,
                chances=self._chances,
                at=self._at[index],
            )
        return self._build(self._at[index])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CandidateList):
            return NotImplemented
        return self is other or (
            len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]  # as a list: it is compared by what it holds

    def __repr__(self) -> str:
        shown = ", ".join(f"{c.offer.instance_type}@{c.offer.place}" for c in self[:3])
        return f"<{len(self)} candidates: {shown}{', …' if len(self) > 3 else ''}>"

    @property
    def rows(self) -> Ints:
        """Row numbers in the catalogue, in the plan's order."""
        return (
            self._rows
            if len(self._at) == len(self._rows) and self._at.step == 1
            else self._rows.take(self._at)
        )

    def first_of_clouds(
        self, most: int = 1, *, clouds: Collection[str] | None = None
    ) -> list[Candidate]:
        """The first candidates of each cloud, at most so many of one, in the plan's order; of these clouds, or of all."""
        import numpy as np

        codes = self._cloud_codes(self.rows)
        if not len(codes):
            return []
        places = [
            np.flatnonzero(codes == code)[:most]
            for code in np.flatnonzero(np.bincount(codes)).tolist()
        ]
        if clouds is not None:
            places = [some for some in places if self[int(some[0])].offer.cloud in clouds]
        return [self[place] for place in sorted(np.concatenate(places).tolist())] if places else []

    def _build(self, rank: int) -> Candidate:
        offer = self._offer(int(self._rows[rank]))
        request = self._requests[int(self._request_of[rank])]
        pool = Pool.of(offer)
        success = self._chances.success(pool) if self._chances.knows(pool) else None
        return Candidate(
            offer=offer,
            request=request,
            rank=rank,
            count=self._count,
            account=self._accounts.get(offer.cloud, ""),
            success=success,
            standing=self._standing(rank, offer, request, success),
            stock=self._chances.said.fresh(pool),
        )

    def _standing(self, rank: int, offer: Offer, request: Request, success: float | None) -> str:
        """Its place in a few words: which choice it belongs to, how soon it would be ready, what it costs beside the first."""
        choice = (
            f"{ordinal(self._tiers.index(request.tier))} choice" if len(self._tiers) > 1 else ""
        )
        beside = (
            FIRST[self._prefer] if rank == 0 else self._beside_the_first(offer, request, success)
        )
        soon = ""
        if self._prefer is Policy.SOONEST:
            soon = (
                f"ready in about {short_duration(self._chances.expected_seconds(Pool.of(offer)))}"
            )
        return ", ".join(
            words for words in (choice, soon if rank else "", beside, "" if rank else soon) if words
        )

    def _beside_the_first(self, offer: Offer, request: Request, success: float | None) -> str:
        first = self._offer(int(self._rows[0]))
        more = (offer.hourly - first.hourly) * self._count
        if more:
            return (
                f"+{format_usd(more)}/h over the first"
                if more > 0
                else f"{format_usd(-more)}/h less than the first"
            )
        reason = (
            self._tie_break(first, offer, request, success)
            if self._prefer is Policy.CHEAPEST
            else ""
        )
        return f"same price as the first{reason}"

    def _tie_break(
        self, first: Offer, offer: Offer, request: Request, success: float | None
    ) -> str:
        """What decided between two offers of one price."""
        ahead = self._requests[int(self._request_of[0])]
        if request.tier != ahead.tier:
            return ""
        if success is not None and success < self._chances.success(Pool.of(first)):
            return ""  # its chance is told beside
        if request.index != ahead.index:
            return ", written later"
        if is_us(first.cloud, first.region) and not is_us(offer.cloud, offer.region):
            return ", US regions come first"
        return ", later by name"


def ordinal(position: int) -> str:
    """`1st` for 0, and so on."""
    return ORDINALS[position] if position < len(ORDINALS) else f"{position + 1}th"
