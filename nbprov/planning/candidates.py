"""The candidates of a plan: tens of thousands of rows, of which a launch looks at a few, so each is built when asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, overload

from nbprov.model.money import format_usd
from nbprov.model.offers import Candidate, Offer
from nbprov.model.spec import Request

if TYPE_CHECKING:
    from .table import Ints

ORDINALS = ("1st", "2nd", "3rd")


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
    """

    __slots__ = ("_accounts", "_at", "_count", "_offer", "_request_of", "_requests", "_rows", "_tiers")

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
        at: range | None = None,
    ) -> None:
        self._rows = rows
        self._request_of = request_of
        self._requests = requests
        self._offer = offer
        self._accounts = accounts
        self._count = count
        self._tiers = tuple(tiers)
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
                at=self._at[index],
            )
        return self._build(self._at[index])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CandidateList):
            return NotImplemented
        return self is other or (len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True)))

    __hash__ = None  # type: ignore[assignment]  # as a list: it is compared by what it holds

    def __repr__(self) -> str:
        shown = ", ".join(f"{c.offer.instance_type}@{c.offer.place}" for c in self[:3])
        return f"<{len(self)} candidates: {shown}{', …' if len(self) > 3 else ''}>"

    @property
    def rows(self) -> Ints:
        """Row numbers in the catalogue, in the plan's order."""
        return self._rows if len(self._at) == len(self._rows) and self._at.step == 1 else self._rows.take(self._at)

    def _build(self, rank: int) -> Candidate:
        offer = self._offer(int(self._rows[rank]))
        request = self._requests[int(self._request_of[rank])]
        return Candidate(
            offer=offer,
            request=request,
            rank=rank,
            count=self._count,
            account=self._accounts.get(offer.cloud, ""),
            why=self._why(rank, offer, request),
        )

    def _why(self, rank: int, offer: Offer, request: Request) -> str:
        """Its place in a few words: which choice it belongs to, and what it costs beside the first."""
        choice = ""
        if len(self._tiers) > 1:
            choice = f"{ordinal(self._tiers.index(request.tier))} choice"
        if rank == 0:
            return f"{choice}, cheapest" if choice else "cheapest"
        first = self._offer(int(self._rows[0])).hourly
        more = (offer.hourly - first) * self._count
        if more > 0:
            price = f"+{format_usd(more)}/h over the first"
        elif more < 0:
            price = f"{format_usd(-more)}/h less than the first"
        else:
            price = "same price as the first"
        return f"{choice}, {price}" if choice else price


def ordinal(position: int) -> str:
    """`1st` for 0, and so on."""
    return ORDINALS[position] if position < len(ORDINALS) else f"{position + 1}th"
