"""AWS under the contract.

The real adapter and boto3 over the double, with real sshd processes as machines.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from aws_double import AwsDouble
from aws_models_once import read_models_once
from clouds_under_test import CloudUnderTest, end_folder, left_of, own_folder

from nbprov.clouds.base import Cloud
from nbprov.clouds.contract import STOCK_CHECKS
from nbprov.clouds.pricing.fetcher import Fetcher
from nbprov.model.failures import Cause
from nbprov.model.launches import Launch
from nbprov.model.money import usd
from nbprov.model.offers import Offer
from nbprov.model.places import Market

TYPE, REGION, ZONE = "m6i.large", "us-east-1", "use1-az6"
HOURLY = usd("0.5")


class AwsUnderTest(CloudUnderTest):
    """EC2 at the double's address."""

    name = "aws"
    addresses = ("AWS_ENDPOINT_URL",)
    credentials = ("AWS_SECRET_ACCESS_KEY",)
    bounds_answers = False
    tells_stock = False
    billed_states = ("pending", "running")
    tells_poweroff_reason = False
    does_not_apply: ClassVar[Mapping[str, str]] = {
        "a_page_without_its_list_is_an_error": "its answers are XML, which has no empty lists",
        "a_create_that_failed_is_refused_in_words": "the same",
        "the_clouds_own_timer_ends_a_machine": "instances have no time limit",
        "whether_credentials_are_there_is_told_without_a_request": "files may have them, too",
        "a_machine_costs_what_its_offer_does": "a listing has no prices",
        "offers_have_the_units_of_the_catalogue": "its prices are the catalogue's",
        "a_fetched_list_has_the_units_of_the_catalogue": "files on another host: test_prices.py",
        "a_price_list_that_cannot_be_read_is_not_empty": "the same",
        "a_part_of_a_price_list_that_cannot_be_read_is_named": "the same",
        "a_fetcher_obeys_the_stop": "the same",
        "a_fetcher_says_what_it_lacks": "the same",
        "a_quote_is_of_its_type_in_its_place": "the same",
        "an_unknown_price_is_not_free": "its listings and quotes have prices under other names",
        "a_machine_without_labels_breaks_no_listing": "machines are chosen by the cloud, by label",
        "a_machine_that_lacks_a_field_is_listed_or_an_error": "ids are made of several fields",
        **dict.fromkeys(STOCK_CHECKS, "scores tell of spot: tests/unit/clouds/aws/test_stock.py"),
    }

    def __init__(self) -> None:
        read_models_once()
        self.folder = own_folder("a")
        self.double = AwsDouble(machines=self.folder).start()
        self.set_environment(self.double.env)
        self.double.tell("settings", price=0.5, on_demand={TYPE: [0.5]})
        self.seen: dict[str, str] = {}
        super().__init__()

    def make(self) -> Cloud:
        from nbprov.clouds.aws import make

        return make()

    def launch(self, **changes: Any) -> Launch:
        market = changes.pop("market", Market.ON_DEMAND)
        offer = Offer(
            "aws",
            REGION,
            ZONE,
            TYPE,
            "",
            0,
            2,
            8,
            market,
            HOURLY,
            "Standard",
            arch="x86_64",
            source="test",
            as_of="2026-11-22",
        )
        return self.launch_of(offer, **changes)

    def other_launch(self, **changes: Any) -> Launch:
        place = ("eu-west-1", "euw1-az1", "t3.large")
        offer = Offer("aws", *place, "", 0, 2, 8, Market.ON_DEMAND, HOURLY, "Standard")
        return self.launch_of(replace(offer, arch="x86_64"), **changes)

    def refuse(self, cause: Cause) -> None:
        self.double.add_fault(
            "RunInstances", cause.value, **({"seconds": 3} if cause is Cause.RATE_LIMIT else {})
        )

    def lose_answer(self, call: str = "submit") -> None:
        self.double.add_fault(call, "lose_answer")

    def leave(self, count: int) -> None:
        self.double.tell("stock", type=TYPE, zone=ZONE, left=count)

    @contextmanager
    def shortened(self, share: float) -> Iterator[None]:
        from nbprov.clouds.aws.account import clients

        with pytest.MonkeyPatch.context() as patch:
            for kind, (connect, read, attempts) in clients._BOUNDS.items():
                patch.setitem(clients._BOUNDS, kind, (connect, read * share, attempts))
            yield

    def hide_young(self, seconds: float) -> None:
        self.double.tell("settings", hide=seconds)

    def end_slowly(self, seconds: float) -> None:
        self.double.tell("settings", end=seconds)

    def change_price(self, factor: float) -> None:
        dollars = 0.5 * factor
        self.double.tell("settings", price=dollars, on_demand={TYPE: [dollars]})

    def show_state(self, instance_id: str, state: str) -> bool:
        self.double.tell("state", id=instance_id, state=state)
        return True

    def page(self, size: int, empty: int) -> bool:
        self.double.tell("settings", page=size, empty_pages=empty)
        return True

    def rules(self) -> list[tuple[str, int, int]] | None:
        return [(network, low, high) for network, low, high in self.double.told("rules")]

    def fetcher(self) -> Fetcher | None:
        return None

    def bodies(self) -> dict[str, str]:
        """Return the real machine behind each instance that was ever listed."""
        self.seen |= {
            one: told["machine"]
            for one, told in self.double.told("instances").items()
            if told["machine"]
        }
        return self.seen

    def traces(self, ids: Sequence[str]) -> list[str]:
        return left_of(self.folder, [body for one, body in self.bodies().items() if one in ids])

    def written(self) -> dict[str, bytes]:
        return {"calls": json.dumps(self.double.told("calls")).encode()}

    def close(self) -> None:
        try:
            self.double.close()
        finally:
            super().close()
        end_folder(self.folder)
