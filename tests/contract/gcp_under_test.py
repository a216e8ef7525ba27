"""Google Cloud under the contract: the double made from its Discovery document, with real
machines.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar

sys.path.insert(0, str(Path(__file__).parents[1] / "doubles"))

from clouds_under_test import CloudUnderTest, end_folder, left_of, own_folder
from gcp_billing import KEY, sku
from gcp_billing import GcpDouble as BillingDouble
from gcp_double import GcpDouble
from web_double import WebDouble

from nbprov.clouds.base import Cloud
from nbprov.clouds.contract import STOCK_CHECKS
from nbprov.clouds.contract.listings import ODD_STATE
from nbprov.clouds.gcp.account.price_list_auth import KEY_VARIABLES
from nbprov.clouds.gcp.billing_quote import BILLING_VARIABLE
from nbprov.clouds.pricing.fetcher import Fetcher
from nbprov.model.failures import Cause
from nbprov.model.launches import Launch
from nbprov.model.money import usd
from nbprov.model.offers import Offer
from nbprov.model.places import Market

SPEED = 200.0
"""How much faster the double's clock runs, because Google accepts no time limit below 30 s."""
DO = {
    Cause.CAPACITY: "capacity",
    Cause.QUOTA: "quota",
    Cause.NOT_OFFERED: "not_offered",
    Cause.CREDENTIALS: "credentials",
    Cause.BALANCE: "balance",
    Cause.PERMISSION: "permission",
    Cause.BAD_REQUEST: "bad_request",
    Cause.RATE_LIMIT: "rate_limit",
    Cause.TRANSIENT: "transient",
    Cause.SPOT: "spot",
}
CALLS = {"submit": "create"}


def lines(factor: float) -> list[dict[str, Any]]:
    """Return lines of Google's billing catalogue: `GcpUnderTest.offer` costs $0.54 by them."""
    parts = (("N1 Predefined Instance Core", 0.03), ("N1 Predefined Instance Ram", 0.004))
    gpu = sku("Nvidia Tesla T4 GPU running in Americas", 0.36 * factor, group="GPU")
    return [
        sku(f"{words} running in Americas", dollars * factor, group="N1Standard", unit=unit)
        for (words, dollars), unit in zip(parts, ("h", "GiBy.h"), strict=True)
    ] + [gpu]


class GcpUnderTest(CloudUnderTest):
    """`gcp`, empty at first."""

    name = "gcp"
    addresses = ("NBPROV_GCP_ENDPOINT",)
    billed_states = ("PROVISIONING", "STAGING", "RUNNING", "REPAIRING", "STOPPING", "SUSPENDING")
    passing_states = ("STOPPING", "SUSPENDING")
    tells_empty_lists = False
    bounds_answers = False
    tells_stock = False
    tells_poweroff_reason = False
    does_not_apply: ClassVar[Mapping[str, str]] = {
        "a_page_without_its_list_is_an_error": "Google leaves empty lists out",
        "without_credentials_nothing_is_sent": "files have its logins: test_credentials.py",
        "whether_credentials_are_there_is_told_without_a_request": "the same",
        "a_quote_that_cannot_be_asked_is_not_told": "quotes are asked of another host",
        "a_machine_costs_what_its_offer_does": "a listing has no prices",
        "offers_have_the_units_of_the_catalogue": "its prices are the catalogue's",
        "a_fetched_list_has_the_units_of_the_catalogue": "parts of machines: test_prices.py",
        "a_price_list_that_cannot_be_read_is_not_empty": "the same",
        "a_part_of_a_price_list_that_cannot_be_read_is_named": "the same",
        "a_fetcher_obeys_the_stop": "the same",
        "a_fetcher_says_what_it_lacks": "the same",
        "a_quote_is_of_its_type_in_its_place": "the same",
        "an_unknown_price_is_not_free": "its listings and quotes have prices under other names",
        **dict.fromkeys(STOCK_CHECKS, "chances tell of spot: tests/unit/clouds/gcp/test_stock.py"),
    }

    def __init__(self) -> None:
        self.folder = own_folder("g")
        self.double = GcpDouble(self.folder / "m", speed=SPEED).start()
        self.set_environment(self.double.env)
        self.opened = ExitStack()
        web = self.opened.enter_context(WebDouble())
        self.billing = BillingDouble(web, lines(1.0))
        self.set_environment({BILLING_VARIABLE: web.url(), KEY_VARIABLES[0]: KEY})
        super().__init__()

    def make(self) -> Cloud:
        from nbprov.clouds.gcp.provisioner import GcpCloud

        return GcpCloud()

    def offer(self, market: Market = Market.ON_DEMAND) -> Offer:
        """Return the offer that `launch` requests."""
        zone, kind = "us-central1-a", "n1-standard-4+1xT4"
        return Offer(
            "gcp",
            "us-central1",
            zone,
            kind,
            "T4",
            1,
            4,
            15,
            market,
            usd("0.54"),
            "",
            16,
            "x86_64",
            "double",
            "2026-11-01",
        )

    def launch(self, **changes: Any) -> Launch:
        offer = self.offer(changes.pop("market", Market.ON_DEMAND))
        return self.launch_of(offer, **changes)

    def other_launch(self, **changes: Any) -> Launch:
        kind = ("europe-west4", "europe-west4-a", "n2-standard-4", "", 0, 4, 16)
        offer = Offer("gcp", *kind, Market.ON_DEMAND, usd("0.20"), arch="x86_64")
        return self.launch_of(offer, **changes)

    def refuse(self, cause: Cause) -> None:
        self.double.add_fault(call="create", do=DO[cause], seconds=3)

    def lose_answer(self, call: str = "submit") -> None:
        self.double.add_fault(call=CALLS.get(call, call), do="lose_answer")

    def leave(self, count: int) -> None:
        self.double.tell("stock", left=count)

    def hide_young(self, seconds: float) -> None:
        self.double.add_fault(call="list", do="hide", seconds=seconds)

    def end_slowly(self, seconds: float) -> None:
        self.double.tell("set", end=seconds)

    def change_price(self, factor: float) -> None:
        self.billing.skus = lines(factor)

    def show_state(self, instance_id: str, state: str) -> bool:
        self.double.tell("set", id=instance_id, status=state)
        return True

    def page(self, size: int, empty: int) -> bool:
        self.double.tell("set", page=size, empty_pages=empty)
        return True

    def rules(self) -> list[tuple[str, int, int]] | None:
        found = []
        for rule in self.double.tell("state")["firewalls"].values():
            if rule.get("direction", "INGRESS") != "INGRESS":
                continue
            for network in rule.get("sourceRanges") or ["0.0.0.0/0"]:
                for port in [
                    p for allowed in rule.get("allowed", ()) for p in allowed.get("ports", [])
                ]:
                    low, _, high = str(port).partition("-")
                    found.append((network, int(low), int(high or low)))
        return found

    def fetcher(self) -> Fetcher | None:
        return None

    def traces(self, ids: Sequence[str]) -> list[str]:
        machines = [self.double.tell("machine", id=one)["machine"] for one in ids]
        return left_of(self.folder / "m", machines)

    def written(self) -> dict[str, bytes]:
        return {"calls": repr(self.double.calls()).encode()}

    def close(self) -> None:
        # The double's own answer with an unknown state violates the model on purpose.
        problems = [p for p in self.double.problems if ODD_STATE not in p]
        self.double.close(check=False)
        self.opened.close()
        super().close()
        end_folder(self.folder)
        assert problems == []
