"""Fault injection: which entry of the market file strikes now, each counted."""

from __future__ import annotations

from nbprov.clouds.local.rpc import Refusal

from .market import Fault, MarketError, SimulatedOffer
from .market_file import MarketFile
from .state_store import StateStore


class Faults:
    """The faults of one market file.

    Counts are remembered across daemons and start again when an entry is edited.
    """

    def __init__(self, store: StateStore, market: MarketFile) -> None:
        self.store = store
        self.market = market

    def strike(
        self, call: str, phase: str, row: SimulatedOffer | None, *kinds: str
    ) -> Fault | None:
        """Return the first fault of a call and phase that strikes now, and count it.

        None if none does.

        With `kinds`, only faults of these kinds strike; without a row, only faults without a place
        or type.
        """
        try:
            faults = self.market.read().faults
        except MarketError:
            return None
        for fault in faults:
            if fault.call != call or fault.phase != phase or (kinds and fault.do not in kinds):
                continue
            anywhere = not (fault.region or fault.zone or fault.type or fault.market)
            if not (anywhere if row is None else fault.matches(row)):
                continue
            count = self.store.get("fault", fault.key) or {"id": fault.key, "struck": 0}
            if fault.first is not None and count["struck"] >= fault.first:
                continue
            count["struck"] += 1
            self.store.put(("fault", count))
            return fault
        return None


def refusal(fault: Fault) -> Refusal:
    """Return the refusal of a fault."""
    details = {} if fault.retry_after is None else {"retry_after": fault.retry_after}
    return Refusal(fault.code, fault.message or f"{fault.code} (as the market file says)", details)
