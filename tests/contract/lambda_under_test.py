"""Lambda under the contract.

The real adapter over its double, with real sshd processes as machines.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest
from clouds_under_test import SCRIPTED, CloudUnderTest, end_folder, left_of, own_folder
from lambda_double import LambdaDouble

from nbprov.clouds.base import Cloud
from nbprov.model.failures import Cause
from nbprov.model.launches import Instance, Launch
from nbprov.model.money import usd
from nbprov.model.offers import Offer
from nbprov.model.places import Market

TYPE, REGION, HOURLY = "gpu_8x_a100_80gb_sxm4", "us-west-2", usd("22.32")

NO_TOKEN = "a create has no idempotency key and is never sent twice"


class LambdaUnderTest(CloudUnderTest):
    """Lambda at the double's address.

    The double has no rate limits unless told, so the adapter's pace has none either.
    """

    name = "lambda"
    addresses = ("LAMBDA_API_BASE_URL",)
    credentials = ("LAMBDA_API_KEY",)
    billed_states = ("booting", "active", "unhealthy")
    failed_states = ("unhealthy",)
    causes = frozenset(SCRIPTED) - {Cause.SPOT}
    tells_poweroff_reason = False
    counts_stock = False
    does_not_apply: ClassVar[Mapping[str, str]] = {
        "a_machine_powers_itself_off": "a machine that is off costs the same",
        "the_clouds_own_timer_ends_a_machine": "machines have no time limit",
        "a_repeat_at_the_same_instant_makes_nothing_new": NO_TOKEN,
        "a_token_with_other_parameters_is_refused": NO_TOKEN,
        "a_lost_machine_is_replaced_once_under_its_token": "a create makes one machine",
        "a_listing_goes_through_every_page": "it lists everything at once",
        "offers_have_the_units_of_the_catalogue": "its prices are the catalogue's",
        "a_new_address_is_admitted_in_place_of_the_old_one": "launches change no rules",
        "a_disk_tier_makes_another_create": "it has one kind of disk",
        "a_start_that_stock_refuses_says_so": "it cannot stop a machine",
        "stock_that_is_not_told_is_not_none": "it lists the regions that have stock",
    }

    def __init__(self) -> None:
        self.folder = own_folder("d")
        self.double = LambdaDouble(machines=self.folder).start()
        self.set_environment(self.double.env)
        self.seen: dict[str, str] = {}
        self.leave(20)
        self.double.tell("stock", instance_type=TYPE, region="us-east-1", left=20)
        super().__init__()

    def make(self) -> Cloud:
        from nbprov.clouds.lambda_cloud.provisioner import LambdaCloud
        from nbprov.clouds.lambda_cloud.rate_limit import LaunchPace

        return LambdaCloud(LaunchPace(between_launches=0.0, types_kept=0.0))

    def launch(self, **changes: Any) -> Launch:
        market = changes.pop("market", Market.ON_DEMAND)
        offer = Offer(
            "lambda",
            REGION,
            "",
            TYPE,
            "A100-80GB",
            8,
            240,
            1800,
            market,
            HOURLY,
            source="test",
            as_of="2026-11-22",
        )
        return self.launch_of(offer, **changes)

    def other_launch(self, **changes: Any) -> Launch:
        hourly = usd("0.20")
        kind = ("us-east-1", "", "cpu_4x_general", "", 0, 4, 16)
        return self.launch_of(Offer("lambda", *kind, Market.ON_DEMAND, hourly), **changes)

    def refuse(self, cause: Cause) -> None:
        self.double.add_fault("launch", cause.value, seconds=3 if cause is Cause.RATE_LIMIT else 0)

    def lose_answer(self, call: str = "submit") -> None:
        self.double.add_fault({"submit": "launch"}.get(call, call), "lose_answer")

    def leave(self, count: int) -> None:
        self.double.tell("stock", instance_type=TYPE, region=REGION, left=count)

    @contextmanager
    def shortened(self, share: float) -> Iterator[None]:
        from nbprov.clouds.lambda_cloud import provisioner

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(provisioner, "STEP_SECONDS", provisioner.STEP_SECONDS * share)
            yield

    def hide_young(self, seconds: float) -> None:
        self.double.tell("timing", hidden=seconds)

    def end_slowly(self, seconds: float) -> None:
        self.double.tell("timing", end=seconds)

    def change_price(self, factor: float) -> None:
        self.double.tell("prices", instance_type=TYPE, factor=factor)

    def show_state(self, instance_id: str, state: str) -> bool:
        self.double.tell("status", ids=[instance_id], status=state)
        return True

    def running(self, launch: Launch) -> list[Instance]:
        made = super().running(launch)
        self.bodies()
        return made

    def bodies(self) -> dict[str, str]:
        """Return the real machine behind each of Lambda's that was ever listed."""
        self.seen |= self.double.told("machines")
        return self.seen

    def traces(self, ids: Sequence[str]) -> list[str]:
        return left_of(self.folder, [body for one, body in self.bodies().items() if one in ids])

    def written(self) -> dict[str, bytes]:
        return {"calls": json.dumps(self.double.told("calls")).encode()}

    def close(self) -> None:
        # A state that Lambda does not have breaks its schema on purpose.
        problems = [p for p in self.double.told("problems") if "/status: enum" not in p]
        self.double.close(check=False)
        super().close()
        end_folder(self.folder)
        assert problems == []
