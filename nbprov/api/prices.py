"""The answer to a price question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbprov.model.errors import UsageError
from nbprov.model.offers import Offer

if TYPE_CHECKING:
    from nbprov.catalog import Catalog, Query


class Prices:
    """A sequence of offers, cheapest first, built when looked at.

    Examples
    --------
    >>> nbprov.prices("A100:8").to_frame()  # doctest: +SKIP
    """

    def __init__(self, catalog: Catalog, query: Query) -> None:
        self.catalog = catalog
        self.query = query
        self.rows = catalog.select(query)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Offer:
        return self.catalog.offer(int(self.rows[index]))

    def offers(self, limit: int | None = None) -> list[Offer]:
        """The offers, cheapest first; at most `limit` of them."""
        return self.catalog.offers(self.query, limit)

    def to_frame(self) -> Any:
        """A pandas DataFrame, one row an offer. Prices are in US dollars an hour a node."""
        return self.catalog.to_frame(self.rows)

    def __repr__(self) -> str:
        cheapest = f", the cheapest: {self[0]}" if len(self) else ""
        return f"<{len(self):,} offers{cheapest}>"


def split_accelerator(written: str) -> tuple[str, float | None]:
    """`A100:8` as the kind and the count; no count means any.

    Raises
    ------
    UsageError
        If there is no kind, or the count is not a positive number.

    Examples
    --------
    >>> split_accelerator("A100:8"), split_accelerator("h100")
    (('A100', 8.0), ('h100', None))
    """
    kind, colon, text = written.strip().partition(":")
    hint = "write A100:8, or A100 for any count"
    if not kind:
        raise UsageError(f"{written!r} names no accelerator", hint=hint)
    if not colon:
        return kind, None
    try:
        count = float(text)
    except ValueError:
        count = 0.0
    if not 0 < count < float("inf"):
        raise UsageError(f"{written!r}: the count after the colon is a positive number", hint=hint)
    return kind, count
