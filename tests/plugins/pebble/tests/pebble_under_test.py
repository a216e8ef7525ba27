"""What the contract needs to know of Pebble (step 8).

`nbprov.clouds.contract.subject` explains each part; `JsonDoubleUnderTest` has those that every
double answers in the same way. Override them for a double of another kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pebble_double import KEY, PebbleDouble, error

from nbprov.clouds.base import Cloud
from nbprov.clouds.contract import SCRIPTED
from nbprov.clouds.contract.json_double import JsonDoubleUnderTest
from nbprov.model.failures import Cause
from nbprov.model.launches import Launch
from nbprov.model.money import usd
from nbprov.model.offers import Offer
from nbprov.model.places import Market


class PebbleUnderTest(JsonDoubleUnderTest):
    """Pebble at its double's address."""

    name = "pebble"
    double_type = PebbleDouble
    addresses = ("PEBBLE_API_URL",)
    credentials = ("PEBBLE_API_KEY",)
    environment: ClassVar[Mapping[str, str]] = {"PEBBLE_API_KEY": KEY}
    causes = frozenset(SCRIPTED) - {Cause.SPOT}
    # How the cloud refuses a create for each of these causes: (status, document).
    refusals: ClassVar[Mapping[Cause, tuple[int, Any]]] = {
        Cause.CAPACITY: (409, error("sold_out")),
        Cause.QUOTA: (403, error("limit")),
        Cause.NOT_OFFERED: (404, error("no_such_type")),
        Cause.CREDENTIALS: (401, error("bad_key")),
        Cause.BALANCE: (402, error("no_funds")),
        Cause.PERMISSION: (403, error("forbidden")),
        Cause.BAD_REQUEST: (400, error("invalid")),
        Cause.RATE_LIMIT: (429, error("slow_down")),
        Cause.TRANSIENT: (503, error("maintenance")),
    }
    # The states in which the cloud's documentation says that it bills, in its own words.
    billed_states = ("booting", "up", "rebooting", "halting")
    # Those through which a machine goes that stops or ends.
    passing_states = ("halting",)

    def make(self) -> Cloud:
        from pebble.provisioner import Pebble

        return Pebble()

    def launch(self, **changes: Any) -> Launch:
        market = changes.pop("market", Market.ON_DEMAND)
        offer = Offer("pebble", "north", "", "p-l40s", "L40S", 1, 8, 64, market, usd("0.9"))
        return self.launch_of(offer, **changes)

    def other_launch(self, **changes: Any) -> Launch | None:
        kind = ("south", "", "p-cpu", "", 0, 2, 8)
        offer = Offer("pebble", *kind, Market.ON_DEMAND, usd("0.05"))
        return self.launch_of(offer, **changes)
