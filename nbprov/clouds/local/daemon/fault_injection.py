"""Faults on purpose: which entry of the market file strikes now, each counted."""

from __future__ import annotations

from nbprov.clouds.local.rpc import Refusal

from .market import Fault, MarketError, MarketFile, Row
from .state_store import Store


class Faults:
    """The faults of one market file; what has struck is remembered across daemons and starts anew when its entry is edited."""

    def __init__(self, store: Store, market: MarketFile) -> None:
        self.store = store
        self.market = market

    def strike(self, call: str, phase: str, row: Row | None, *kinds: str) -> Fault | None:
        """The first fault of a call and phase (and of these kinds) that strikes now, counted as having struck; None where none does.

        Without a row only faults without a place or type can strike.
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
    """The refusal that a fault wants."""
    details = {} if fault.retry_after is None else {"retry_after": fault.retry_after}
    return Refusal(
        fault.code, fault.message or f"{fault.code} (the market file wants it so)", details
    )
