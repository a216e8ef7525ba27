"""A small cloud in this process, under the names of real ones.

A test says what is on its shelves, and it counts what it is asked.

It is an adapter like any other: the session, the engine and the ledger above it are the real ones.
"""

from __future__ import annotations

import builtins
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from nbprov.clouds.base import Capabilities, Cloud
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import (
    Accepted,
    CheckResult,
    CreateOperation,
    Instance,
    InstanceState,
    Launch,
    PollResult,
)
from nbprov.model.offers import Offer
from nbprov.model.stock import Pool, Stock, StockLevel

LONG = 20.0


@dataclass
class Shelf(Cloud):
    """A cloud with shelves.

    Attributes
    ----------
    there
        Whether a create for a pool is accepted.
    level
        What it says of a pool's stock; None where it says nothing.
    telling, checking
        Set: it answers at once. Cleared: the answer waits until it is set.
    """

    name: str = "runpod"
    there: Callable[[Pool], bool] = lambda pool: True
    level: Callable[[Pool], StockLevel | None] = lambda pool: StockLevel.HIGH
    usable: Callable[[], Failure | None] = lambda: None
    creates: list[Pool] = field(default_factory=list)
    asked: list[tuple[int, int]] = field(default_factory=list)
    checks: int = 0
    telling: threading.Event = field(default_factory=threading.Event)
    checking: threading.Event = field(default_factory=threading.Event)
    was_asked: threading.Event = field(default_factory=threading.Event)
    accepted: threading.Event = field(default_factory=threading.Event)
    machines: dict[str, Instance] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.capabilities = Capabilities(
            stock_probe=True,
            spot=True,
            replayable=True,
            settle=0.1,
            poweroff_ends_bill=True,
            poll_every=0.01,
        )
        self.telling.set()
        self.checking.set()

    def check(self) -> CheckResult:
        self.checks += 1
        self.checking.wait(LONG)
        problem = self.usable()
        return CheckResult(
            self.name,
            problem is None,
            "someone",
            "a key (…beef)",
            problem,
            ("balance $3.14",) if problem is None else (),
        )

    def stock(self, offers: Sequence[Offer], count: int) -> Sequence[Stock]:
        self.asked.append((len(offers), count))
        self.was_asked.set()
        self.telling.wait(LONG)
        said = [(offer.pool, self.level(offer.pool)) for offer in offers]
        return [Stock(time.time(), pool, level) for pool, level in said if level is not None]

    def submit(self, launch: Launch) -> CreateOperation:
        offer = launch.candidate.offer
        self.creates.append(offer.pool)
        if not self.there(offer.pool):
            raise CloudError(
                Failure(Cause.CAPACITY, f"no {offer.instance_type} left in {offer.zone}")
            )
        made = Instance(
            self.name,
            launch.token[:8],
            launch.token,
            launch.owner,
            offer.place,
            offer.instance_type,
            InstanceState.PENDING,
            name=launch.name,
        )
        self.machines[made.id] = made
        self.accepted.set()
        return CreateOperation(self.name, launch.token, made.id)

    def poll(self, operation: CreateOperation) -> PollResult:
        return Accepted((operation.id,))

    def list(self, owner: str) -> builtins.list[Instance]:
        return [
            machine for machine in builtins.list(self.machines.values()) if machine.owner == owner
        ]

    def terminate(self, ids: Sequence[str]) -> None:
        for name in ids:
            if name in self.machines:
                self.machines[name] = replace(self.machines[name], state=InstanceState.GONE)


@dataclass
class Point:
    """An entry point of these clouds."""

    cloud: Cloud
    module: str = __name__

    def load(self) -> Callable[[], Cloud]:
        """Load the factory."""
        return lambda: self.cloud


def only(*clouds: Cloud) -> dict[str, Point]:
    """The entry points of a registry that has only these clouds."""
    return {cloud.name: Point(cloud) for cloud in clouds}
