"""What the contract needs of a cloud: its adapter, what to launch, and how to cause faults."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest

from nbprov.clouds.base import Cloud
from nbprov.clouds.pricing import fetcher as price_fetchers
from nbprov.clouds.web.client import HttpClient
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
from nbprov.model.price_list import PriceList
from nbprov.model.resources import Request

from .relay import Relay

DEADLINE = 120.0
"""Seconds after which an expected event counts as missing; everything here takes well under one."""
PAUSE = 0.01
LIVE = (
    InstanceState.PENDING,
    InstanceState.RUNNING,
    InstanceState.STOPPING,
    InstanceState.STOPPED,
    InstanceState.ENDING,
    InstanceState.UNKNOWN,
)
PRICE_ENDPOINTS = ("api", "rest", "graphql")
"""The names under which fetchers look up the address of their cloud's API."""
START_SCRIPT = """#!/bin/sh
umask 077
cat >"$NBPROV_HOST_KEY" <<KEY
@@host_key@@
KEY
printf '%s\\n' '@@login@@' >>"$NBPROV_AUTHORIZED_KEYS"
"""
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


def eventually(look: Callable[[], Any], what: str, *, within: float = DEADLINE) -> Any:
    """Return the first true answer of `look`; fail if none comes in time."""
    deadline = time.monotonic() + within
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, f"{what}: not within {within:g} s"
        time.sleep(PAUSE)


def own_folder(prefix: str) -> Path:
    """Make a new folder beside the test's home, where the suite reports leftovers."""
    base = Path(os.environ["NBPROV_HOME"]).parent if "NBPROV_HOME" in os.environ else None
    return Path(tempfile.mkdtemp(prefix=prefix, dir=base))


class CloudUnderTest(ABC):
    """One cloud, empty at first, with everything that the checks ask of it.

    A subclass starts the double in its `__init__`, puts what reaches it into the environment with
    `set_environment`, and then calls this one, which makes the adapter.

    Attributes
    ----------
    addresses
        The environment variables with the addresses of the API. A relay comes between the adapter
        and what they name; without one, no fault of the way is tried.
    credentials
        The environment variables with the credentials.
    causes
        The causes with which the cloud may refuse a create.
    billed_states
        The states in the cloud's own words in which it bills, according to its documentation:
        starting, restarting, stopping and the like included.
    passing_states
        The billed states that lead to stopped or gone by themselves. Only these may be shown as
        `STOPPING` or `ENDING`, because the engine ends no machine that is shown so.
    failed_states
        The states of a machine that did not come up. `poll` refuses its create, or the listing says
        why it does not run.
    balance
        What `check` has to say of the balance of the double's account, such as `$12.50`.
    bounds_answers
        A call ends in time even if its answer comes byte by byte; SDKs bound each wait alone.
    tells_retry_after
        A refusal for too many requests says how long to wait.
    tells_poweroff_reason
        The listing shows why a machine powered itself off; real clouds only say that it did.
    labels
        A label of a spec is on the machine.
    tells_empty_lists
        A page of a listing has its list even if that is empty.
    tells_stock
        The stock of what `launch` requests is told, not that of another market alone.
    counts_stock
        The stock is told for any number of machines at once, not for one alone.
    login_label
        A machine's login name follows the label `nbprov-login`.
    does_not_apply
        The checks that have nothing to look at in this cloud, by name, each with the reason.
        `run_check` fails if one of them runs, or if another one is skipped.
    """

    _before: dict[str, str | None]
    name: ClassVar[str]
    addresses: ClassVar[tuple[str, ...]] = ()
    credentials: ClassVar[tuple[str, ...]] = ()
    causes: ClassVar[frozenset[Cause]] = frozenset(SCRIPTED)
    billed_states: ClassVar[tuple[str, ...]] = ()
    passing_states: ClassVar[tuple[str, ...]] = ()
    failed_states: ClassVar[tuple[str, ...]] = ()
    balance: ClassVar[str] = ""
    bounds_answers: ClassVar[bool] = True
    tells_retry_after: ClassVar[bool] = True
    tells_poweroff_reason: ClassVar[bool] = True
    labels: ClassVar[bool] = True
    tells_empty_lists: ClassVar[bool] = True
    tells_stock: ClassVar[bool] = True
    counts_stock: ClassVar[bool] = True
    login_label: ClassVar[bool] = True
    does_not_apply: ClassVar[Mapping[str, str]] = {}

    def __new__(cls, *_: Any, **__: Any) -> Self:
        # `set_environment` is called before `__init__`.
        made = super().__new__(cls)
        made._before = {}
        return made

    def __init__(self) -> None:
        self.keys = own_folder("k")
        for key in ("client", "host"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", self.keys / key],
                check=True,
            )
        self._relay = Relay()
        for variable in self.addresses:
            self.set_environment({variable: self._relay.address_for(os.environ[variable])})
        self.cloud = self.make()

    @abstractmethod
    def make(self) -> Cloud:
        """Make another adapter of the same cloud, as another kernel would."""

    def launch_of(self, offer: Offer, **changes: Any) -> Launch:
        """Make a launch of this offer, with a start script that sets the host key and the client's.

        A machine of a double gets the paths of both from its environment; `changes` replace fields.
        """
        count = changes.get("count", 1)
        made = Launch(
            token=uuid.uuid4().hex,
            owner="owner-1",
            run_id="run-1",
            name="dev",
            candidate=Candidate(offer, Request(), rank=0, count=count),
            count=count,
            disk_gb=10,
            user_data_template=START_SCRIPT,
            template_values={
                "host_key": (self.keys / "host").read_text().strip(),
                "login": (self.keys / "client.pub").read_text().strip(),
            },
            public_key=(self.keys / "client.pub").read_text(),
        )
        made = replace(made, **changes)
        own = {"nbprov-owner": made.owner, "nbprov-run": made.run_id, "nbprov-name": made.name}
        return replace(made, tags={**own, **made.tags})

    @abstractmethod
    def launch(self, **changes: Any) -> Launch:
        """Make a launch that is accepted unless a fault is scripted.

        `changes` replace fields; `market` selects the market.
        """

    def other_launch(self, **changes: Any) -> Launch | None:
        """Make a launch of another type in another region; None if the cloud has only one."""
        return None

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

    def close(self) -> None:
        """End what was started, and give the environment back. A subclass extends it.

        It ends everything of its own and checks that it ended.
        """
        self._relay.close()
        for name, value in self._before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
        shutil.rmtree(self.keys, ignore_errors=True)

    def set_environment(self, values: Mapping[str, str]) -> None:
        """Set environment variables until `close`."""
        for name, value in values.items():
            self._before.setdefault(name, os.environ.get(name))
            os.environ[name] = value

    @property
    def relay(self) -> Relay:
        """The relay; a check that needs one is skipped if the cloud is not reached over HTTP."""
        if not self.addresses:
            pytest.skip(f"{self.name} names no variable with the address of its API (`addresses`)")
        return self._relay

    def secrets(self) -> list[str]:
        """Return the values of the credentials."""
        return [value for name in self.credentials if (value := os.environ.get(name))]

    def shortened(self, share: float) -> AbstractContextManager[None]:
        """Shorten the limits that the adapter has beside those of `base.py`, to save time."""
        return nullcontext()

    def page(self, size: int, empty: int) -> bool:
        """Answer listings of machines in pages of `size`, after `empty` pages with nothing in them.

        Clouds that filter send such pages. Return False if the API has no pages.
        """
        return False

    def show_state(self, instance_id: str, state: str) -> bool:
        """Show a machine in this state of the cloud's; False if the double cannot do that."""
        return False

    def rules(self) -> list[tuple[str, int, int]] | None:
        """Return the inbound rules of launches: (network, first port, last port).

        None if the cloud has no firewall that launches change.
        """
        return None

    def fetcher(self) -> price_fetchers.Fetcher | None:
        """Return what fetches the price list; None if it is read from another service."""
        return price_fetchers.find(self.name) or self._own_fetcher()

    def fetch_context(self, http: HttpClient | None = None) -> price_fetchers.FetchContext:
        """Return what a fetcher needs to read the price list of the double."""
        address = os.environ[self.addresses[0]] if self.addresses else ""
        places = dict.fromkeys(PRICE_ENDPOINTS, address) if address else {}
        return price_fetchers.FetchContext(http or HttpClient(), "2026-11-25", endpoints=places)

    def price_list(self) -> PriceList | None:
        """Fetch the price list from the double; None if it is read from another service."""
        found = self.fetcher()
        return None if found is None else found.fetch(self.fetch_context())

    def _own_fetcher(self) -> price_fetchers.Fetcher | None:
        """Return the fetcher beside an adapter that is not installed."""
        name = f"{type(self.cloud).__module__.rpartition('.')[0]}.prices"
        if find_spec(name) is None:
            return None
        made: price_fetchers.Fetcher = import_module(name).fetcher()
        return made

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
            "IdentitiesOnly=yes",
            "LogLevel=ERROR",
        ]
        place = ["-i", str(self.keys / "client"), "-p", str(instance.port)]
        place += [f"{instance.user or self.login()}@{instance.host}"]
        return subprocess.run(
            ["ssh", "-F", "none", *(word for o in options for word in ("-o", o)), *place, command],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def accepted(self, operation: CreateOperation) -> tuple[str, ...]:
        """Return the ids of a create once it is decided."""
        result = self.decided(operation)
        assert isinstance(result, Accepted), f"the create was not accepted: {result}"
        return result.ids

    def decided(self, operation: CreateOperation) -> PollResult:
        """Return the outcome of a create."""

        def look() -> PollResult | None:
            result = self.cloud.poll(operation)
            return None if isinstance(result, Pending) else result

        result: PollResult = eventually(look, "a decision about the create")
        return result

    def running(self, launch: Launch) -> list[Instance]:
        """Submit a launch and wait until all its machines run."""
        ids = self.accepted(self.cloud.submit(launch))
        assert len(ids) == launch.count, f"{launch.count} machines wanted, got {ids}"
        return [self.in_state(launch.owner, i, InstanceState.RUNNING) for i in ids]

    def in_state(self, owner: str, instance_id: str, *states: InstanceState) -> Instance:
        """Return a machine once the listing shows it in one of these states."""

        def look() -> Instance | None:
            return next(
                (i for i in self.cloud.list(owner) if i.id == instance_id and i.state in states),
                None,
            )

        found: Instance = eventually(look, f"{instance_id} in {', '.join(states)}")
        return found

    def gone(self, owner: str, ids: Sequence[str]) -> None:
        """Wait until the listing shows these machines as gone or leaves them out."""
        eventually(
            lambda: not [i for i in self.alive(owner) if i.id in ids],
            f"{', '.join(ids)} gone",
        )

    def alive(self, owner: str) -> list[Instance]:
        """Return the owner's machines that are not gone."""
        return [i for i in self.cloud.list(owner) if i.state in LIVE]
