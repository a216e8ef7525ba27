"""The candidates of a plan: a sequence that builds a candidate when it is first asked for.

A plan may have tens of thousands of rows, of which a launch looks at a few.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, overload

from nbprov.catalog.vocabulary.instance_families import is_us
from nbprov.market import SuccessModel
from nbprov.model.clock import short_duration
from nbprov.model.money import format_difference
from nbprov.model.offers import Candidate, Offer
from nbprov.model.resources import Request
from nbprov.model.run_policies import OrderPolicy

if TYPE_CHECKING:
    from .lookup.catalog_columns import Ints

MOST_KEPT = 5000
"""So many candidates are kept once built: as many as a table in a notebook shows."""

ORDINALS = ("1st", "2nd", "3rd")
FIRST = {
    OrderPolicy.CHEAPEST: "cheapest",
    OrderPolicy.SOONEST: "soonest",
    OrderPolicy.BALANCED: "best price for its chance",
}
"""What the first candidate is, by what the spec prefers."""


class CandidateBuilder:
    """Builds the candidates of one plan by rank, and keeps the first `MOST_KEPT` that it built.

    Parameters
    ----------
    rows, request_of
        Row number in the catalogue and index into `requests`, in the plan's order.
    requests
        The requests of the spec; their tiers are what `standing` counts, also without a candidate.
    offer
        Builds the offer of a row.
    accounts
        Account by cloud.
    cloud_codes
        Gives a number for the cloud of each row.
    prefer, success_model
        What the order inside a tier was made by.
    preferred
        How many of the first rows a person put there.
    """

    def __init__(
        self,
        rows: Ints,
        request_of: Ints,
        *,
        requests: Sequence[Request],
        offer: Callable[[int], Offer],
        accounts: Mapping[str, str],
        count: int,
        cloud_codes: Callable[[Ints], Ints],
        prefer: OrderPolicy = OrderPolicy.CHEAPEST,
        success_model: SuccessModel,
        preferred: int = 0,
    ) -> None:
        self.rows = rows
        self.cloud_codes = cloud_codes
        self._request_of = request_of
        self._requests = requests
        self._offer = offer
        self._accounts = accounts
        self._count = count
        self._tiers = sorted({request.tier for request in requests})
        self._prefer = prefer
        self._success_model = success_model
        self._preferred = preferred
        self._built: dict[int, Candidate] = {}

    def candidate(self, rank: int) -> Candidate:
        """The candidate of a rank; 0 is the first of the plan."""
        built = self._built.get(rank)
        if built is None:
            built = self._build(rank)
            if len(self._built) < MOST_KEPT:
                self._built[rank] = built
        return built

    def put_first(self, ranks: Sequence[int]) -> CandidateBuilder:
        """A builder of the same candidates with some of them first, in the order given."""
        import numpy as np

        rest = np.delete(np.arange(len(self.rows)), ranks)
        order = np.concatenate([np.array(ranks, dtype=rest.dtype), rest])
        return CandidateBuilder(
            self.rows[order],
            self._request_of[order],
            requests=self._requests,
            offer=self._offer,
            accounts=self._accounts,
            count=self._count,
            cloud_codes=self.cloud_codes,
            prefer=self._prefer,
            success_model=self._success_model,
            preferred=len(ranks),
        )

    def _build(self, rank: int) -> Candidate:
        offer = self._offer(int(self.rows[rank]))
        request = self._requests[int(self._request_of[rank])]
        pool, model = offer.pool, self._success_model
        success = model.success(pool) if model.knows(pool) else None
        return Candidate(
            offer=offer,
            request=request,
            rank=rank,
            count=self._count,
            account=self._accounts.get(offer.cloud, ""),
            success=success,
            standing=self._standing(rank, offer, request, success),
            stock=model.stock.fresh(pool),
        )

    def _standing(self, rank: int, offer: Offer, request: Request, success: float | None) -> str:
        """Why a candidate has its rank, in a few words.

        Which choice it belongs to, how soon it would be ready, and what it costs compared with the
        first candidate.
        """
        choice = soon = ""
        moved = f"{offer.moved_words}, to be confirmed" if offer.moved_from else ""
        if len(self._tiers) > 1:
            choice = f"{ordinal(self._tiers.index(request.tier))} choice"
        if self._prefer is OrderPolicy.SOONEST:
            seconds = self._success_model.expected_seconds(offer.pool)
            soon = f"ready in about {short_duration(seconds)}"
        if rank < self._preferred:
            words = (moved, choice, "your choice", soon)
        elif rank == 0:
            words = (moved, choice, FIRST[self._prefer], soon)
        else:
            words = (moved, choice, soon, self._beside_the_first(offer, request, success))
        return ", ".join(word for word in words if word)

    def _beside_the_first(self, offer: Offer, request: Request, success: float | None) -> str:
        first = self.candidate(0)
        ours, theirs = offer.hourly * self._count, first.hourly
        if ours > theirs:
            return f"+{format_difference(ours, theirs)}/h over the first"
        if ours < theirs:
            return f"{format_difference(theirs, ours)}/h less than the first"
        reason = ""
        if self._prefer is OrderPolicy.CHEAPEST and not self._preferred:
            reason = self._tie_break(first, offer, request, success)
        return f"same price as the first{reason}"

    def _tie_break(
        self, first: Candidate, offer: Offer, request: Request, success: float | None
    ) -> str:
        """What decided between two offers of one price."""
        if request.tier != first.request.tier:
            return ""
        if success is not None and success < self._success_model.success(first.offer.pool):
            return ""  # `why` names its chance already
        if request.index != first.request.index:
            return ", written later"
        if is_us(first.offer.cloud, first.offer.region) and not is_us(offer.cloud, offer.region):
            return ", US regions come first"
        return ", later by name"


class CandidateList(Sequence[Candidate]):
    """An immutable sequence of candidates; `len` costs nothing, a member is built on access.

    A slice is such a sequence too; its members keep the ranks they have in the plan.

    Parameters
    ----------
    at
        Ranks of the members; all ranks of the plan by default.
    """

    __slots__ = ("_at", "_builder")

    def __init__(self, builder: CandidateBuilder, at: range | None = None) -> None:
        self._builder = builder
        self._at = range(len(builder.rows)) if at is None else at

    def __len__(self) -> int:
        return len(self._at)

    @overload
    def __getitem__(self, index: int) -> Candidate: ...
    @overload
    def __getitem__(self, index: slice) -> CandidateList: ...
    def __getitem__(self, index: int | slice) -> Candidate | CandidateList:
        if isinstance(index, slice):
            return CandidateList(self._builder, self._at[index])
        return self._builder.candidate(self._at[index])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CandidateList):
            return NotImplemented
        return self is other or (
            len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]  # compared by its members, as a list is

    def __repr__(self) -> str:
        shown = ", ".join(f"{c.offer.instance_type}@{c.offer.place}" for c in self[:3])
        return f"<{len(self)} candidates: {shown}{', …' if len(self) > 3 else ''}>"

    def put_first(self, ranks: Sequence[int]) -> CandidateList:
        """The same candidates with those of some ranks first, in the order given."""
        return CandidateList(self._builder.put_first([self._at[rank] for rank in ranks]))

    @property
    def rows(self) -> Ints:
        """Row numbers in the catalogue, in the plan's order."""
        rows = self._builder.rows
        if len(self._at) == len(rows) and self._at.step == 1:
            return rows
        return rows.take(self._at)

    def first_of_clouds(
        self, most: int = 1, *, clouds: Collection[str] | None = None
    ) -> list[Candidate]:
        """The first candidates of each cloud in the plan's order.

        Parameters
        ----------
        most
            So many of each cloud at most.
        clouds
            Only of these clouds; of all by default.
        """
        import numpy as np

        codes = self._builder.cloud_codes(self.rows)
        if not len(codes):
            return []
        places = [
            np.flatnonzero(codes == code)[:most]
            for code in np.flatnonzero(np.bincount(codes)).tolist()
        ]
        if clouds is not None:
            places = [some for some in places if self[int(some[0])].offer.cloud in clouds]
        return [self[place] for place in sorted(np.concatenate(places).tolist())] if places else []


def ordinal(position: int) -> str:
    """`1st` for 0, and so on."""
    return ORDINALS[position] if position < len(ORDINALS) else f"{position + 1}th"
