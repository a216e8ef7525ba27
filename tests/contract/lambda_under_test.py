"""Lambda under the contract.

The real adapter over its double, with real sshd processes as machines.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from clouds_under_test import SCRIPTED, CloudUnderTest, eventually, own_folder, processes_that_name
from lambda_double import LambdaDouble

from nbprov.clouds.base import Cloud
from nbprov.model.failures import Cause
from nbprov.model.launches import Instance, Launch
from nbprov.model.money import usd
from nbprov.model.offers import Candidate, Offer
from nbprov.model.places import Market
from nbprov.model.resources import Request

TYPE, REGION, HOURLY = "gpu_8x_a100_80gb_sxm4", "us-west-2", usd("22.32")
SCRIPT = """#!/bin/sh
umask 077
cat >"$NBPROV_HOST_KEY" <<KEY
@@host_key@@
KEY
printf '%s\\n' '@@login@@' >>"$NBPROV_AUTHORIZED_KEYS"
"""


class LambdaUnderTest(CloudUnderTest):
    """Lambda at the double's address.

    The double has no rate limits unless told, so the adapter's pace has none either.
    """

    name = "lambda"
    causes = frozenset(SCRIPTED) - {Cause.SPOT}
    tells_poweroff_reason = False

    def __init__(self) -> None:
        self.folder = own_folder("d")
        self.double = LambdaDouble(machines=self.folder).start()
        self.before = {name: os.environ.get(name) for name in self.double.env}
        os.environ.update(self.double.env)
        self.seen: dict[str, str] = {}
        self.leave(20)
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
        count = changes.get("count", 1)
        made = Launch(
            token=uuid.uuid4().hex,
            owner="owner-1",
            run_id="run-1",
            name="dev",
            candidate=Candidate(offer, Request(), rank=0, count=count),
            count=count,
            disk_gb=10,
            user_data_template=SCRIPT,
            template_values={
                "host_key": (self.keys / "host").read_text().strip(),
                "login": (self.keys / "client.pub").read_text().strip(),
            },
            public_key=(self.keys / "client.pub").read_text(),
        )
        return replace(made, **changes)

    def refuse(self, cause: Cause) -> None:
        self.double.add_fault("launch", cause.value, seconds=3 if cause is Cause.RATE_LIMIT else 0)

    def lose_answer(self, call: str = "submit") -> None:
        self.double.add_fault({"submit": "launch"}.get(call, call), "lose_answer")

    def leave(self, count: int) -> None:
        self.double.tell("stock", instance_type=TYPE, region=REGION, left=count)

    def hide_young(self, seconds: float) -> None:
        self.double.tell("timing", hidden=seconds)

    def end_slowly(self, seconds: float) -> None:
        self.double.tell("timing", end=seconds)

    def change_price(self, factor: float) -> None:
        self.double.tell("prices", instance_type=TYPE, factor=factor)

    def odd_state(self, instance_id: str) -> bool:
        self.double.tell("status", ids=[instance_id], status="unhealthy")
        return True

    def hang(self, seconds: float) -> bool:
        self.double.tell("timing", answer=seconds)
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
        from nbprov.clouds.local.daemon import processes

        real = [body for one, body in self.bodies().items() if one in ids]
        found = [str(p) for body in real for p in processes.of_machine(body)]
        return found + [
            str(self.folder / "i" / body) for body in real if (self.folder / "i" / body).exists()
        ]

    def written(self) -> dict[str, bytes]:
        home = Path(os.environ["NBPROV_HOME"])
        files = (
            {str(p): p.read_bytes() for p in home.rglob("*") if p.is_file()}
            if home.exists()
            else {}
        )
        return {**files, "calls": json.dumps(self.double.told("calls")).encode()}

    def close(self) -> None:
        try:
            self.double.tell("timing", answer=0)
            self.double.close()
        finally:
            for name, value in self.before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
        eventually(
            lambda: not processes_that_name(self.folder), f"nothing that names {self.folder}"
        )
        left = [*(self.folder / "i").glob("*")]
        shutil.rmtree(self.folder)
        shutil.rmtree(self.keys)
        assert left == []
