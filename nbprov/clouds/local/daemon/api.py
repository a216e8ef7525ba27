"""The API of the simulated cloud: creates with idempotency, stock and quota, listings, and
faults.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nbprov.clouds.local.rpc import MachineState as State
from nbprov.clouds.local.rpc import Refusal

from . import platform_calls
from .create import CreateService
from .fault_injection import Faults, refusal
from .machine import LocalMachine
from .machine_lifecycle import MachineLifecycle
from .market import MarketError, SimulatedOffer
from .market_file import MarketFile
from .state_store import Record, StateStore

SHOWN = (
    "id",
    "token",
    "owner",
    "name",
    "node",
    "region",
    "zone",
    "type",
    "market",
    "hourly",
    "state",
    "host",
    "port",
    "launched_at",
    "changed_at",
    "reason",
    "by_itself",
)
"""The fields of a machine that a listing shows."""


class AnswerWithheld(Exception):
    """The request was carried out and the market file says that its answer is lost."""


class Service:
    """Answers the calls of one state directory.

    `handle` is the entry and runs on the daemon's loop.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = StateStore(root / "state.db")
        self.market = MarketFile(root)
        self.machines = MachineLifecycle(root, self.store, self.market)
        self.faults = Faults(self.store, self.market)
        self.creates = CreateService(root, self.store, self.market, self.machines, self.faults)

    def adopt(self) -> None:
        """Continue where an earlier daemon stopped."""
        self.machines.adopt()
        self.creates.adopt()

    @property
    def is_idle(self) -> bool:
        """Whether no machine lives and no create waits for its decision."""
        return not self.creates.waiting and not self.machines.active

    async def handle(self, call: str, arguments: Mapping[str, Any]) -> Any:
        """Answer one call.

        Raises
        ------
        Refusal
            If the call is refused.
        AnswerWithheld
            If the market file says that the answer is lost.
        """
        method = getattr(self, f"call_{call}", None)
        if method is None:
            raise Refusal("UnknownCall", f"there is no call {call!r}")
        row = self._row(arguments) if call == "submit" else None
        slow = self.faults.strike(call, "submit", row, "slow_start")
        if slow is not None:
            await asyncio.sleep(slow.seconds)
        refused = self.faults.strike(call, "submit", row, "refuse") if call != "submit" else None
        if refused is not None:
            raise refusal(refused)
        try:
            result = await method(arguments)
        except MarketError as error:
            raise Refusal("InvalidMarket", f"{self.market.path}: {error}") from None
        late = self.faults.strike(call, "answer", row)
        if late is not None:
            await asyncio.sleep(late.seconds)
            if late.do == "lose_answer":
                raise AnswerWithheld
        return result

    async def call_describe(self, _: Mapping[str, Any]) -> dict[str, Any]:
        """Describe this cloud and its user."""
        problem, account = "", "local"
        try:
            account = self.market.read().account
        except MarketError as error:
            problem = f"{self.market.path}: {error}"
        level, server = await self.machines.equipment()
        states = [m["state"] for m in self.store.all("machine")]
        return {
            "account": account,
            "problem": problem,
            "isolation": f"{level.value} ({level.words})",
            "level": level.value,
            "server": server.words if server is not None else "",
            "login": platform_calls.login_name(),
            "market": str(self.market.path),
            "machines": {state: states.count(state) for state in sorted(set(states))},
            "pid": os.getpid(),
        }

    async def call_offers(self, _: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return all offers."""
        return self.market.read().table()

    async def call_quote(self, arguments: Mapping[str, Any]) -> int | None:
        """Return the current hourly price of a row in micro-dollars; None if it is not sold."""
        row = self.market.row_of(arguments)
        return None if row is None else row.hourly

    async def call_submit(self, arguments: Mapping[str, Any]) -> dict[str, str]:
        """Record a create; a repeated token returns the first one's operation."""
        return await self.creates.submit(arguments)

    async def call_poll(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outcome of a create."""
        return self.creates.poll(str(arguments["token"]))

    async def call_list(self, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return an owner's machines, except those too young for listings."""
        hidden = self.machines.timing().hidden
        now = time.time()
        mine = (
            m
            for m in self.store.all("machine")
            if m["owner"] == arguments["owner"] and now - m["launched_at"] >= hidden
        )
        return [{name: m[name] for name in SHOWN} for m in mine]

    async def call_terminate(self, arguments: Mapping[str, Any]) -> None:
        """End machines; unknown ones are skipped."""
        for record in self._records(arguments["ids"]):
            self.machines.terminate(record, "terminated")

    async def call_stop(self, arguments: Mapping[str, Any]) -> None:
        """Stop machines; unknown ones are skipped."""
        for record in self._records(arguments["ids"]):
            self.machines.stop(record, "stopped")

    async def call_start(self, arguments: Mapping[str, Any]) -> None:
        """Start stopped machines, all or none."""
        records = self._records(arguments["ids"])
        lost = set(arguments["ids"]) - {
            r["id"] for r in records if r["state"] not in (State.ENDING, State.GONE)
        }
        if lost:
            raise Refusal(
                "NoSuchInstance", f"{', '.join(sorted(lost))} cannot be started: it is gone"
            )
        if any(r["state"] == State.STOPPING for r in records):
            raise Refusal(
                "StillStopping",
                "a machine that is stopping cannot be started yet",
                {"retry_after": 1},
            )
        stopped = [r for r in records if r["state"] == State.STOPPED]
        market = self.market.read()
        for record in stopped:
            row = market.row(record["region"], record["zone"], record["type"], record["market"])
            same = sum(
                1
                for r in stopped
                if (r["zone"], r["type"], r["market"])
                == (record["zone"], record["type"], record["market"])
            )
            if row is not None:
                self.creates.capacity.require(row, same)
                record["hourly"] = row.hourly  # a start is billed at the price of its time
        for record in stopped:
            self.machines.start(record)

    async def call_console(self, arguments: Mapping[str, Any]) -> str:
        """Return the console of a machine."""
        return await asyncio.to_thread(
            LocalMachine(self.root, Path(str(arguments["id"])).name).console
        )

    async def call_end_all(self, _: Mapping[str, Any]) -> int:
        """End every machine of every owner, wait until nothing runs, and return how many there
        were.
        """
        await self.creates.refuse_all(Refusal("Unavailable", "the cloud is being shut down"))
        records = [m for m in self.store.all("machine") if m["state"] != State.GONE]
        for record in records:
            self.machines.terminate(record, "the cloud is being shut down")
        await self.machines.settle()
        return len(records)

    def tick(self) -> None:
        """Look after machines and forget old records."""
        self.machines.tick()
        self.creates.forget()

    def _records(self, ids: list[str]) -> list[Record]:
        return [r for r in (self.store.get("machine", i) for i in ids) if r is not None]

    def _row(self, arguments: Mapping[str, Any]) -> SimulatedOffer | None:
        try:
            return self.market.row_of(arguments)
        except MarketError:
            return None
