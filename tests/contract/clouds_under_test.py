"""What the contract needs of a cloud: how to make its adapter, what to launch, how to cause
faults.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from nbprov.clouds.base import Cloud
from nbprov.model.failures import Cause
from nbprov.model.launches import (
    Accepted,
    CreateOperation,
    Instance,
    InstanceState,
    Launch,
    Pending,
    PollResult,
)
from nbprov.model.offers import Candidate, Offer
from nbprov.model.places import Market
from nbprov.model.resources import Request

DEADLINE = 120.0
"""Seconds after which an expected event counts as missing; everything here takes well under one."""
PAUSE = 0.01
LIVE = (
    InstanceState.PENDING,
    InstanceState.RUNNING,
    InstanceState.STOPPING,
    InstanceState.STOPPED,
    InstanceState.ENDING,
)


def eventually(look: Callable[[], Any], what: str) -> Any:
    """Return the first true answer of `look`; fail if none comes in time."""
    deadline = time.monotonic() + DEADLINE
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, f"{what}: not within {DEADLINE:g} s"
        time.sleep(PAUSE)


def own_folder(prefix: str) -> Path:
    """Make a new folder in the suite's own, whose leftovers are reported at its end."""
    base = Path(os.environ["NBPROV_HOME"]).parent if "NBPROV_HOME" in os.environ else None
    return Path(tempfile.mkdtemp(prefix=prefix, dir=base))


SCRIPTED = (
    Cause.CAPACITY,
    Cause.QUOTA,
    Cause.NOT_OFFERED,
    Cause.CREDENTIALS,
    Cause.BALANCE,
    Cause.PERMISSION,
    Cause.BAD_REQUEST,
    Cause.RATE_LIMIT,
    Cause.TRANSIENT,
    Cause.SPOT,
)
"""The causes that a cloud itself reports; the others are the engine's."""


class CloudUnderTest(ABC):
    """One cloud, empty at first. A cloud joins the contract by a subclass in `subjects.CLOUDS`."""

    name: ClassVar[str]
    causes: ClassVar[frozenset[Cause]] = frozenset(SCRIPTED)
    """The causes with which the cloud may refuse a create."""
    tells_retry_after: ClassVar[bool] = True
    tells_poweroff_reason: ClassVar[bool] = True
    """Whether the listing shows why a machine powered itself off; real clouds only say that it did.
    """

    def __init__(self) -> None:
        self.keys = own_folder("k")
        for key in ("client", "host"):
            subprocess.run(
                [
                    "ssh-keygen",
                    "-q",
                    "-t",
                    "ed25519",
                    "-N",
                    "",
                    "-C",
                    "",
                    "-f",
                    str(self.keys / key),
                ],
                check=True,
            )
        self.cloud = self.make()

    @abstractmethod
    def make(self) -> Cloud:
        """Make another adapter of the same cloud, as another kernel would."""

    @abstractmethod
    def launch(self, **changes: Any) -> Launch:
        """Make a launch that is accepted unless a fault is scripted.

        `changes` replace fields; `market` selects the market.
        """

    @abstractmethod
    def refuse(self, cause: Cause) -> None:
        """Refuse the next create with this cause."""

    @abstractmethod
    def lose_answer(self, call: str = "submit") -> None:
        """Carry out the next such call and lose its answer."""

    @abstractmethod
    def leave(self, count: int) -> None:
        """Leave stock for `count` machines of the type that `launch` requests."""

    @abstractmethod
    def hide_young(self, seconds: float) -> None:
        """Hide machines from listings until they are this old."""

    @abstractmethod
    def end_slowly(self, seconds: float) -> None:
        """Let a machine that is ending keep running for this long."""

    @abstractmethod
    def change_price(self, factor: float) -> None:
        """Change the price of what `launch` requests."""

    @abstractmethod
    def traces(self, ids: Sequence[str]) -> list[str]:
        """Return what is left of machines: processes and directories."""

    @abstractmethod
    def written(self) -> dict[str, bytes]:
        """Return everything that the cloud and its adapter wrote, except the machines' own
        disks.
        """

    @abstractmethod
    def close(self) -> None:
        """End everything and check that it ended."""

    def login(self) -> str:
        """Return the user of machines."""
        from nbprov.clouds.local.daemon import platform_calls

        return platform_calls.login_name()

    def run(
        self, instance: Instance, command: str, *, timeout: float = DEADLINE
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on a machine over ssh, with its host key checked."""
        known = self.keys / "known"
        key = " ".join((self.keys / "host.pub").read_text().split()[:2])
        known.write_text(f"[{instance.host}]:{instance.port} {key}\n")
        options = [
            "BatchMode=yes",
            "StrictHostKeyChecking=yes",
            f"UserKnownHostsFile={known}",
            "GlobalKnownHostsFile=/dev/null",
        ]
        options += ["IdentitiesOnly=yes", "LogLevel=ERROR"]
        place = [
            "-i",
            str(self.keys / "client"),
            "-p",
            str(instance.port),
            f"{instance.user or self.login()}@{instance.host}",
        ]
        return subprocess.run(
            ["ssh", "-F", "none", *(word for o in options for word in ("-o", o)), *place, command],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def odd_state(self, instance_id: str) -> bool:
        """Put a machine into a state unknown to the adapter.

        Return False if the cloud cannot do that.
        """
        return False

    def hang(self, seconds: float) -> bool:
        """Delay every answer from now on; return False if the cloud cannot do that."""
        return False

    def accepted(self, operation: CreateOperation) -> tuple[str, ...]:
        """Return the ids of a create once it is decided."""
        result = self.decided(operation)
        assert isinstance(result, Accepted), result
        return result.ids

    def decided(self, operation: CreateOperation) -> PollResult:
        """Return the outcome of a create."""

        def look() -> PollResult | None:
            result = self.cloud.poll(operation)
            return None if isinstance(result, Pending) else result

        result: PollResult = eventually(look, "a decision")
        return result

    def running(self, launch: Launch) -> list[Instance]:
        """Submit a launch and wait until all its machines run."""
        ids = self.accepted(self.cloud.submit(launch))
        assert len(ids) == launch.count
        return [self.in_state(launch.owner, i, InstanceState.RUNNING) for i in ids]

    def in_state(self, owner: str, instance_id: str, *states: InstanceState) -> Instance:
        """Return a machine once the listing shows it in one of these states."""

        def look() -> Instance | None:
            return next(
                (i for i in self.cloud.list(owner) if i.id == instance_id and i.state in states),
                None,
            )

        found: Instance = eventually(look, f"{instance_id} in {states}")
        return found

    def gone(self, owner: str, ids: Sequence[str]) -> None:
        """Wait until the listing shows these machines as gone or leaves them out."""
        eventually(
            lambda: (
                not [
                    i
                    for i in self.cloud.list(owner)
                    if i.id in ids and i.state is not InstanceState.GONE
                ]
            ),
            "gone",
        )

    def alive(self, owner: str) -> list[Instance]:
        """Return the owner's machines that are not gone."""
        return [i for i in self.cloud.list(owner) if i.state in LIVE]


LOCAL_MARKET = """
account = "contract"
[timing]
accept = {accept}
hidden = {hidden}
end = {end}
[[regions]]
name = "here"
zones = ["here-a", "here-b"]
price = {price}
[[types]]
name = "gpu"
accelerator = "A100"
count = 1
vcpus = 4
memory_gib = 16
family = "A100"
hourly = 2.0
spot = 0.5
{extra}
"""

LOCAL_CODES = {
    Cause.CAPACITY: "InsufficientCapacity",
    Cause.QUOTA: "QuotaExceeded",
    Cause.NOT_OFFERED: "NotOffered",
    Cause.CREDENTIALS: "Unauthorized",
    Cause.BALANCE: "InsufficientBalance",
    Cause.PERMISSION: "AccessDenied",
    Cause.BAD_REQUEST: "InvalidParameter",
    Cause.RATE_LIMIT: "RateExceeded",
    Cause.TRANSIENT: "InternalError",
    Cause.SPOT: "SpotCapacity",
}


class LocalUnderTest(CloudUnderTest):
    """The `local` cloud in a state directory of its own."""

    name = "local"

    def __init__(self) -> None:
        self.folder = own_folder("l")
        self.values: dict[str, Any] = {"accept": 0.02, "hidden": 0, "end": 0, "price": 1.0}
        self.extra: list[str] = []
        self.write()
        super().__init__()

    def make(self) -> Cloud:
        from nbprov.clouds.local.provisioner import LocalCloud

        return LocalCloud(self.folder)

    def write(self, **values: Any) -> None:
        """Write the market file again, with changed values."""
        self.values |= values
        text = LOCAL_MARKET.format(**self.values, extra="\n".join(self.extra))
        draft = self.folder / "market.new"
        draft.write_text(text)
        draft.replace(self.folder / "market.toml")

    def add(self, table: str) -> None:
        """Add a table to the market file."""
        self.extra.append(table)
        self.write()

    def offer(self, market: Market = Market.ON_DEMAND) -> Offer:
        """Return the offer that `launch` requests."""
        found = self.cloud.offers() or ()
        return next(o for o in found if o.zone == "here-a" and o.market is market)

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
            user_data_template=(
                '#!/bin/sh\numask 077\ncat > "$NBPROV_HOST_KEY" <<KEY\n@@host_key@@\nKEY\n'
            ),
            template_values={"host_key": (self.keys / "host").read_text().strip()},
            public_key=(self.keys / "client.pub").read_text(),
        )
        return replace(made, **changes)

    def refuse(self, cause: Cause) -> None:
        later = "refuse_later" if cause in (Cause.CAPACITY, Cause.SPOT, Cause.QUOTA) else "refuse"
        self.add(
            f'[[faults]]\ndo = "{later}"\nfirst = 1\nretry_after = 3\ncode = '
            f'"{LOCAL_CODES[cause]}"\nmessage = "scripted {uuid.uuid4()}"'
        )

    def lose_answer(self, call: str = "submit") -> None:
        self.add(
            f'[[faults]]\ndo = "lose_answer"\ncall = "{call}"\nfirst = 1\nmessage = '
            f'"{uuid.uuid4()}"'
        )

    def leave(self, count: int) -> None:
        self.add(f"[[stock]]\nleft = {count}")

    def hide_young(self, seconds: float) -> None:
        self.write(hidden=seconds)

    def end_slowly(self, seconds: float) -> None:
        self.write(end=seconds)

    def change_price(self, factor: float) -> None:
        self.write(price=factor)

    def traces(self, ids: Sequence[str]) -> list[str]:
        from nbprov.clouds.local.daemon import processes

        found = [str(p) for i in ids for p in processes.of_machine(i)]
        return found + [str(self.folder / "i" / i) for i in ids if (self.folder / "i" / i).exists()]

    def written(self) -> dict[str, bytes]:
        return {p.name: p.read_bytes() for p in self.folder.glob("*") if p.is_file()}

    def close(self) -> None:
        from nbprov.clouds.local.__main__ import main

        ids = [p.name for p in (self.folder / "i").glob("*")]
        assert main(["stop", "--dir", str(self.folder)]) == 0
        eventually(
            lambda: not processes_that_name(self.folder), f"nothing that names {self.folder}"
        )
        left = self.traces(ids)
        shutil.rmtree(self.folder)
        shutil.rmtree(self.keys)
        assert left == []


def processes_that_name(folder: Path) -> list[str]:
    """Return command lines of other processes that name this directory in their arguments or
    environment (Linux).
    """
    found = []
    needle = str(folder).encode()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
            if needle in command or needle in (entry / "environ").read_bytes():
                found.append(command.replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found
