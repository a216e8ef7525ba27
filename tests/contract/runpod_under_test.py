"""RunPod under the contract: the real adapter over its double, with real machines as pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from clouds_under_test import SCRIPTED, CloudUnderTest, end_folder, left_of, own_folder
from runpod_double import Double

from nbprov.clouds.base import Cloud
from nbprov.model.failures import Cause
from nbprov.model.launches import Launch
from nbprov.model.money import usd
from nbprov.model.offers import Offer
from nbprov.model.places import Market

CENTRE, GPU = "EU-CZ-1", "NVIDIA L40S"
NO_TOKEN = "a create has no idempotency key and is never sent twice"
CODES = {
    Cause.CAPACITY: "capacity",
    Cause.QUOTA: "quota",
    Cause.NOT_OFFERED: "not_offered",
    Cause.CREDENTIALS: "credentials",
    Cause.BALANCE: "balance",
    Cause.PERMISSION: "permission",
    Cause.BAD_REQUEST: "bad_request",
    Cause.RATE_LIMIT: "rate_limit",
    Cause.TRANSIENT: "transient",
}


class RunPodUnderTest(CloudUnderTest):
    """RunPod's double with machines of the `local` cloud."""

    name = "runpod"
    addresses = ("RUNPOD_API_BASE_URL",)
    credentials = ("RUNPOD_API_KEY",)
    billed_states = ("PROVISIONING", "STARTING", "RUNNING")
    failed_states = ("ERROR",)
    causes = frozenset(SCRIPTED) - {Cause.SPOT}
    tells_poweroff_reason = False
    counts_stock = False
    does_not_apply: ClassVar[Mapping[str, str]] = {
        "the_clouds_own_timer_ends_a_machine": "pods have no time limit",
        "a_repeat_at_the_same_instant_makes_nothing_new": NO_TOKEN,
        "a_token_with_other_parameters_is_refused": NO_TOKEN,
        "a_lost_machine_is_replaced_once_under_its_token": "a create makes one pod",
        "offers_have_the_units_of_the_catalogue": "its prices are the catalogue's",
        "side_objects_that_name_no_owner_are_not_listed": "secrets bear a hash of the owner",
        "a_new_address_is_admitted_in_place_of_the_old_one": "launches change no rules",
        "a_disk_tier_makes_another_create": "it has one kind of disk",
    }

    def __init__(self) -> None:
        self.folder = own_folder("r")
        self.double = Double(self.folder)
        self.set_environment(self.double.env)
        super().__init__()

    def make(self) -> Cloud:
        from nbprov.clouds.runpod import make

        return make()

    def launch(self, **changes: Any) -> Launch:
        market = changes.pop("market", Market.ON_DEMAND)
        offer = Offer(
            "runpod", "CZ", CENTRE, "1x_L40S_SECURE", "L40S", 1, 12, 62, market, usd("0.99")
        )
        return self.launch_of(offer, **{"ports": ((8888, 8890),), **changes})

    def other_launch(self, **changes: Any) -> Launch:
        kind = ("US", "US-TX-3", "1x_A100-80GB_SECURE", "A100-80GB", 1, 8, 117)
        offer = Offer("runpod", *kind, Market.ON_DEMAND, usd("1.39"))
        return self.launch_of(offer, **changes)

    def refuse(self, cause: Cause) -> None:
        # A 5xx to a create leaves its outcome open, so temporary faults strike the request before
        # it.
        self.double.add_fault(
            CODES[cause], call="listPods" if cause is Cause.TRANSIENT else "createPod", seconds=3
        )

    def lose_answer(self, call: str = "submit") -> None:
        self.double.add_fault(
            "lose_answer",
            call={"submit": "createPod", "terminate": "deletePod", "list": "listPods"}.get(
                call, call
            ),
        )

    def leave(self, count: int) -> None:
        self.double.set_stock(count, kind=GPU, centre=CENTRE)

    def hide_young(self, seconds: float) -> None:
        self.double.set(hidden=seconds)

    def end_slowly(self, seconds: float) -> None:
        self.double.set(ending=seconds)

    def change_price(self, factor: float) -> None:
        self.double.set(price_factor=factor)

    def show_state(self, instance_id: str, state: str) -> bool:
        self.double.control("pods", {"id": instance_id, "status": state})
        return True

    def page(self, size: int, empty: int) -> bool:
        self.double.set(page=size, empty_pages=empty)
        return True

    def traces(self, ids: Sequence[str]) -> list[str]:
        pods = self.double.control("pods")
        return left_of(self.folder, [one["machine"] for one in pods if one["id"] in ids])

    def written(self) -> dict[str, bytes]:
        own = {path.name: path.read_bytes() for path in self.folder.glob("*") if path.is_file()}
        return own | {"what was asked": repr(self.double.calls()).encode()}

    def close(self) -> None:
        try:
            self.double.close()
        finally:
            super().close()
        end_folder(self.folder)
