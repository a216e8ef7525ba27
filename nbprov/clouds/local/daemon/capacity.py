"""Stock and quota of the simulated cloud, checked against the machines that run."""

from __future__ import annotations

from contextlib import suppress

from nbprov.clouds.local.rpc import Refusal

from .machine_lifecycle import ACTIVE
from .market import SimulatedOffer
from .market_file import MarketFile
from .state_store import StateStore


class Capacity:
    """What stock and quota still allow."""

    def __init__(self, store: StateStore, market: MarketFile) -> None:
        self._store = store
        self._market = market

    def most(self, row: SimulatedOffer, wanted: int) -> int:
        """Return how many machines stock and quota allow, of the number wanted."""
        for count in range(wanted, 0, -1):
            with suppress(Refusal):
                self.require(row, count)
                return count
        return 0

    def require(self, row: SimulatedOffer, count: int) -> None:
        """Refuse what stock or quota do not allow."""
        market = self._market.read()
        running = [m for m in self._store.all("machine") if m["state"] in ACTIVE]
        same = [
            m
            for m in running
            if (m["zone"], m["type"], m["market"]) == (row.zone, row.type.name, row.side.value)
        ]
        left = market.left(row)
        if left is not None and left - len(same) < count:
            code = "SpotCapacity" if row.side.value == "spot" else "InsufficientCapacity"
            raise Refusal(
                code,
                (
                    f"{row.zone} has {max(0, left - len(same))} {row.type.name} left "
                    f"({row.side.value}), {count} asked"
                ),
            )
        for quota in market.quotas(row):
            used = sum(
                m["units"]
                for m in running
                if m["family"] == quota.family
                and quota.region in ("", m["region"])
                and quota.market in ("", m["market"])
            )
            asked = row.type.units * count
            if used + asked > quota.limit:
                place = quota.region or "all regions"
                words = (
                    f"quota of {quota.family} in {place}: limit {quota.limit:g}, in use "
                    f"{used:g}, asked {asked:g}"
                )
                details = {} if quota.region else {"scope": "account"}
                raise Refusal(
                    "QuotaIsZero" if quota.limit == 0 else "QuotaExceeded", words, details
                )
