"""AWS under the contract.

The real adapter and boto3 over the double, with real sshd processes as machines.
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

from aws_double import AwsDouble
from aws_models_once import read_models_once
from clouds_under_test import CloudUnderTest, eventually, own_folder, processes_that_name

from nbprov.clouds.base import Cloud
from nbprov.model.failures import Cause
from nbprov.model.launches import Launch
from nbprov.model.money import usd
from nbprov.model.offers import Candidate, Offer
from nbprov.model.places import Market
from nbprov.model.resources import Request

TYPE, REGION, ZONE = "m6i.large", "us-east-1", "use1-az6"
HOURLY = usd("0.5")
SCRIPT = """#!/bin/sh
umask 077
cat >"$NBPROV_HOST_KEY" <<KEY
@@host_key@@
KEY
printf '%s\\n' '@@login@@' >>"$NBPROV_AUTHORIZED_KEYS"
"""


class AwsUnderTest(CloudUnderTest):
    """EC2 at the double's address."""

    name = "aws"
    tells_poweroff_reason = False

    def __init__(self) -> None:
        read_models_once()
        self.folder = own_folder("a")
        self.double = AwsDouble(machines=self.folder).start()
        self.before = {name: os.environ.get(name) for name in self.double.env}
        os.environ.update(self.double.env)
        self.double.tell("settings", price=0.5)
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
        self.double.add_fault(
            "RunInstances", cause.value, **({"seconds": 3} if cause is Cause.RATE_LIMIT else {})
        )

    def lose_answer(self, call: str = "submit") -> None:
        self.double.add_fault(call, "lose_answer")

    def leave(self, count: int) -> None:
        self.double.tell("stock", type=TYPE, zone=ZONE, left=count)

    def hide_young(self, seconds: float) -> None:
        self.double.tell("settings", hide=seconds)

    def end_slowly(self, seconds: float) -> None:
        self.double.tell("settings", end=seconds)

    def change_price(self, factor: float) -> None:
        self.double.tell("settings", price=0.5 * factor)

    def odd_state(self, instance_id: str) -> bool:
        self.double.tell("state", id=instance_id, state="hibernating")
        return True

    def hang(self, seconds: float) -> bool:
        self.double.tell("settings", answer=seconds)
        return True

    def bodies(self) -> dict[str, str]:
        """Return the real machine behind each instance that was ever listed."""
        self.seen |= {
            one: told["machine"]
            for one, told in self.double.told("instances").items()
            if told["machine"]
        }
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
            self.double.tell("settings", answer=0)
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
