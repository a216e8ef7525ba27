"""Google Cloud under the contract: the double made from its Discovery document, with real
machines.
"""

from __future__ import annotations

import os
import shutil
import sys
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "doubles"))

from clouds_under_test import CloudUnderTest, own_folder
from gcp_double import GcpDouble

from nbprov.clouds.base import Cloud
from nbprov.model.failures import Cause
from nbprov.model.launches import Launch
from nbprov.model.money import usd
from nbprov.model.offers import Candidate, Offer
from nbprov.model.places import Market
from nbprov.model.resources import Request

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
START = r"""#!/bin/sh
umask 077
cat > "$NBPROV_HOST_KEY" <<KEY
@@host_key@@
KEY
printf '%s\n' '@@authorized_key@@' >> "$NBPROV_AUTHORIZED_KEYS"
"""


class GcpUnderTest(CloudUnderTest):
    """`gcp`, empty at first."""

    name = "gcp"
    tells_poweroff_reason = False

    def __init__(self) -> None:
        self.folder = own_folder("g")
        self.double = GcpDouble(self.folder / "m", speed=SPEED).start()
        self._before = {name: os.environ.get(name) for name in self.double.env}
        os.environ.update(self.double.env)
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
        count = changes.get("count", 1)
        made = Launch(
            token=uuid.uuid4().hex,
            owner="owner-1",
            run_id="run-1",
            name="dev",
            candidate=Candidate(offer, Request(), rank=0, count=count),
            count=count,
            disk_gb=10,
            tags={"nbprov-owner": "owner-1", "nbprov-run": "run-1", "nbprov-name": "dev"},
            user_data_template=START,
            template_values={
                "host_key": (self.keys / "host").read_text().strip(),
                "authorized_key": (self.keys / "client.pub").read_text().strip(),
            },
            public_key=(self.keys / "client.pub").read_text(),
        )
        return replace(made, **changes)

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
        """Do nothing: Google has no call that quotes a price."""

    def odd_state(self, instance_id: str) -> bool:
        # A value that the model does not have, so the double's own answer violates it on purpose.
        self.double.tell("set", id=instance_id, status="LEVITATING")
        return True

    def hang(self, seconds: float) -> bool:
        self.double.tell("set", hang=seconds)
        return True

    def traces(self, ids: Sequence[str]) -> list[str]:
        from nbprov.clouds.local.daemon import processes

        found = []
        for one in ids:
            machine = self.double.tell("machine", id=one)["machine"]
            folder = self.folder / "m" / "i" / machine
            found += [str(p) for p in processes.of_machine(machine)] if machine else []
            found += [str(folder)] if machine and folder.exists() else []
        return found

    def written(self) -> dict[str, bytes]:
        home = Path(os.environ["NBPROV_HOME"])
        kept = (
            {str(p): p.read_bytes() for p in home.rglob("*") if p.is_file()}
            if home.exists()
            else {}
        )
        return kept | {"calls": repr(self.double.calls()).encode()}

    def close(self) -> None:
        problems = [p for p in self.double.problems if "LEVITATING" not in p]
        self.double.tell("set", hang=0)
        self.double.close()
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self.keys)
        assert problems == []
