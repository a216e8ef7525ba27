"""The accelerators of a price question: counts, memory, cheapest price, and who sells them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from nbprov.model.money import MICROS_PER_USD, Micros

if TYPE_CHECKING:
    from nbprov.catalog.store.result import Rows


@dataclass(frozen=True, slots=True)
class AcceleratorOnSale:
    """One kind of accelerator in the offers that answer a question.

    Attributes
    ----------
    counts
        How many one machine may have, ascending.
    memory_gib
        Memory of one device, as most offers have it; None if none says it.
    hourly
        The cheapest machine with any number of it, in micro-dollars an hour.
    each
        The cheapest price of one device: a machine's price by its number of devices.
    clouds
        Who sells it, sorted.
    offers
        How many offers there are.
    """

    name: str
    counts: tuple[float, ...]
    memory_gib: float | None
    hourly: Micros
    each: Micros
    clouds: tuple[str, ...]
    offers: int


class AcceleratorList(Sequence[AcceleratorOnSale]):
    """The accelerators of a price question, sorted by name.

    Examples
    --------
    >>> nbprov.prices(region="eu").accelerators().to_frame()  # doctest: +SKIP
    """

    def __init__(self, items: Sequence[AcceleratorOnSale]) -> None:
        self._items = tuple(items)

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> AcceleratorOnSale: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[AcceleratorOnSale, ...]: ...
    def __getitem__(self, index: int | slice) -> AcceleratorOnSale | tuple[AcceleratorOnSale, ...]:
        return self._items[index]

    def __repr__(self) -> str:
        return f"<{len(self)} accelerators: {', '.join(item.name for item in self._items)}>"

    def to_frame(self) -> Any:
        """A pandas DataFrame, one row an accelerator.

        `accelerator`, `counts` (a tuple), `memory_gib` (NaN if not known), `hourly` and `each` (US
        dollars an hour for the cheapest machine and the cheapest device), `clouds` (a tuple) and
        `offers`.
        """
        import pandas as pd

        rows = [
            {
                "accelerator": item.name,
                "counts": item.counts,
                "memory_gib": item.memory_gib,
                "hourly": item.hourly / MICROS_PER_USD,
                "each": item.each / MICROS_PER_USD,
                "clouds": item.clouds,
                "offers": item.offers,
            }
            for item in self._items
        ]
        columns = ["accelerator", "counts", "memory_gib", "hourly", "each", "clouds", "offers"]
        return pd.DataFrame(rows, columns=columns).astype({"memory_gib": "f8"})


def accelerators_of(rows: Rows) -> AcceleratorList:
    """Group the offers of an answer by accelerator; machines without one are left out.

    A price that moved by more than half is no cheapest price, unless there is no other.
    """
    import numpy as np

    codes, names = rows.codes("accelerator"), rows.table("accelerator")
    counts, hourly = rows.column("accelerator_count"), rows.column("hourly")
    memory, clouds = rows.column("accelerator_memory_gib"), rows.column("cloud")
    in_doubt = rows.column("moved_from") > 0
    found = []
    for code in np.unique(codes).tolist():
        here = np.flatnonzero((codes == code) & (counts > 0))
        if not names[code] or not len(here):
            continue
        sure = here[~in_doubt[here]]
        priced = sure if len(sure) else here
        known = memory[here][~np.isnan(memory[here])]
        sizes, often = np.unique(known, return_counts=True)
        found.append(
            AcceleratorOnSale(
                name=str(names[code]),
                counts=tuple(float(f"{c:.4g}") for c in np.unique(counts[here]).tolist()),
                memory_gib=float(f"{sizes[often.argmax()]:.7g}") if len(sizes) else None,
                hourly=int(hourly[priced].min()),
                each=int((hourly[priced] / counts[priced]).min()),
                clouds=tuple(sorted(set(clouds[here].tolist()))),
                offers=len(here),
            )
        )
    return AcceleratorList(sorted(found, key=lambda item: item.name))
