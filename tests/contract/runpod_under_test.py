"""RunPod under the contract: the real adapter over its double, with real machines as pods."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from clouds_under_test import SCRIPTED, CloudUnderTest, eventually, own_folder, processes_that_name
from runpod_double import Double

from nbprov.clouds.base import Cloud
from nbprov.model.failures import Cause
from nbprov.model.launches import Launch
from nbprov.model.money import usd
from nbprov.model.offers import Candidate, Offer
from nbprov.model.places import Market
from nbprov.model.resources import Request

CENTRE, GPU = "EU-CZ-1", "NVIDIA L40S"
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
    causes = frozenset(SCRIPTED) - {Cause.SPOT}
    tells_poweroff_reason = False

    def __init__(self) -> None:
        self.folder = own_folder("r")
        self.double = Double(self.folder)
        self.before = {name: os.environ.get(name) for name in self.double.env}
        os.environ.update(self.double.env)
        super().__init__()

    def make(self) -> Cloud:
        from nbprov.clouds.runpod import make

        return make()

    def launch(self, **changes: Any) -> Launch:
        market = changes.pop("market", Market.ON_DEMAND)
        offer = Offer(
            "runpod", "CZ", CENTRE, "1x_L40S_SECURE", "L40S", 1, 12, 62, market, usd("0.99")
        )
        count = changes.get("count", 1)
        made = Launch(
            token=uuid.uuid4().hex,
            owner="owner-1",
            run_id="run-1",
            name="dev",
            candidate=Candidate(offer, Request(), rank=0, count=count),
            count=count,
            disk_gb=10,
            user_data_template=(
                '#!/bin/sh\numask 077\ncat > "$NBPROV_HOST_KEY" <<KEY\n@@host_key@@\nKEY\n'
            ),
            template_values={"host_key": (self.keys / "host").read_text().strip()},
            public_key=(self.keys / "client.pub").read_text(),
            ports=((8888, 8890),),
        )
        return replace(made, **changes)

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

    def odd_state(self, instance_id: str) -> bool:
        self.double.control("pods", {"id": instance_id, "status": "HIBERNATING"})
        return True

    def hang(self, seconds: float) -> bool:
        self.double.add_fault("slow", call="*", times=1000, seconds=seconds)
        return True

    def traces(self, ids: Sequence[str]) -> list[str]:
        from nbprov.clouds.local.daemon import processes

        machines = [
            one["machine"]
            for one in self.double.control("pods")
            if one["id"] in ids and one["machine"]
        ]
        found = [str(process) for machine in machines for process in processes.of_machine(machine)]
        return found + [
            str(self.folder / "i" / machine)
            for machine in machines
            if (self.folder / "i" / machine).exists()
        ]

    def written(self) -> dict[str, bytes]:
        own = {path.name: path.read_bytes() for path in self.folder.glob("*") if path.is_file()}
        return own | {"what was asked": repr(self.double.calls()).encode()}

    def close(self) -> None:
        problems = self.double.problems()
        self.double.close()
        for name, value in self.before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        eventually(
            lambda: not processes_that_name(self.folder), f"nothing that names {self.folder}"
        )
        shutil.rmtree(self.folder)
        shutil.rmtree(self.keys)
        assert problems == []
