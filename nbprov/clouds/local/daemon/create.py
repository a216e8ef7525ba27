"""Creates.

Idempotent by their token, decided after a delay by stock and quota, all machines or none.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets
import time
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nbprov.clouds.local import rpc
from nbprov.clouds.local.rpc import MachineState as State
from nbprov.clouds.local.rpc import Refusal
from nbprov.model.clock import Seconds

from .capacity import Capacity
from .fault_injection import Faults, refusal
from .machine import LocalMachine, MachineSettings
from .machine_lifecycle import MachineLifecycle
from .market import MarketError, SimulatedMarket, SimulatedOffer
from .market_file import MarketFile
from .state_store import Record, StateStore

log = logging.getLogger("nbprov.local")

FORGET_SECONDS: Seconds = 3600.0
"""How long a create's token is remembered after its machines are gone."""
PASSING = frozenset({"RateExceeded", "InternalError", "Unavailable"})
"""Codes after which the same request may succeed."""


class CreateService:
    """Records creates and decides them. All methods belong to the daemon's loop."""

    def __init__(
        self,
        root: Path,
        store: StateStore,
        market: MarketFile,
        machines: MachineLifecycle,
        faults: Faults,
    ) -> None:
        self.root = root
        self.store = store
        self.market = market
        self.machines = machines
        self.faults = faults
        self.capacity = Capacity(store, market)
        self._deciding = asyncio.Lock()
        self._recent: deque[float] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> list[Record]:
        """Return creates that are not decided yet."""
        return [o for o in self.store.all("operation") if o["state"] == "pending"]

    def adopt(self) -> None:
        """Decide the creates that an earlier daemon recorded."""
        for operation in self.waiting:
            self._decide_later(operation)

    def forget(self) -> None:
        """Forget creates that ended long ago."""
        now = time.time()
        alive = {_key_of(m) for m in self.store.all("machine")}
        for operation in self.store.all("operation"):
            if (
                operation["state"] != "pending"
                and operation["id"] not in alive
                and now - operation["submitted_at"] > FORGET_SECONDS
            ):
                self.store.drop("operation", operation["id"])

    async def refuse_all(self, why: Refusal) -> None:
        """Refuse every create that is not decided yet."""
        async with self._deciding:
            for operation in self.waiting:
                self._refuse(operation, why)

    async def submit(self, arguments: Mapping[str, Any]) -> dict[str, str]:
        """Record a create; a repeated token returns the first one's operation."""
        _, server = await self.machines.equipment()
        # Nothing is awaited from here until the record is stored, so that two requests with one
        # token are not both new.
        token, mark = str(arguments.get("key") or arguments["token"]), _fingerprint(arguments)
        earlier = self.store.get("operation", token)
        if earlier is not None and not (
            earlier["state"] == "refused" and earlier["code"] in PASSING
        ):
            if earlier["fingerprint"] != mark:
                raise Refusal(
                    "IdempotentParameterMismatch", "the token was used with other parameters"
                )
            if earlier["state"] == "accepted" and not _is_late(arguments):
                await self._fill(earlier, str(arguments["user_data"]))
            return {"id": earlier["operation"]}
        if _is_late(arguments):
            raise Refusal("TooLate", "the request was read after its time limit")
        market = self.market.read()
        self._limit_rate(market)
        row = self.market.row_of(arguments)
        refused = self.faults.strike("submit", "submit", row, "refuse")
        if refused is not None:
            raise refusal(refused)
        if row is None:
            raise self._not_offered(arguments, market)
        if arguments["count"] < 1 or arguments["disk_gb"] < 0:
            raise Refusal(
                "InvalidParameter",
                "a create needs at least one machine and a disk of at least 0 GB",
            )
        if server is None:
            raise Refusal(
                "NoMachines", "there is no ssh server on this computer: install openssh-server"
            )
        operation = self._note(arguments, token, mark, market.timing.accept)
        if market.timing.accept:
            self._decide_later(operation)
        else:
            await self._decide(operation)
        return {"id": operation["operation"]}

    def poll(self, token: str) -> dict[str, Any]:
        """Return the outcome of a create; a forgotten one is answered from its machines."""
        operation = self.store.get("operation", token)
        if operation is None:
            ids = [m["id"] for m in self.store.all("machine") if _key_of(m) == token]
            if ids:
                return {"state": "accepted", "ids": ids}
            return {
                "state": "refused",
                "code": "OperationForgotten",
                "message": "no such create and no machine of it",
                "details": {},
            }
        return {name: operation[name] for name in ("state", "ids", "code", "message", "details")}

    def _limit_rate(self, market: SimulatedMarket) -> None:
        most, now = market.timing.creates_per_second, time.monotonic()
        while self._recent and now - self._recent[0] >= 1.0:
            self._recent.popleft()
        if most and len(self._recent) >= most:
            raise Refusal(
                "RateExceeded",
                f"more than {most} creates in a second",
                {"retry_after": 1.0 - (now - self._recent[0])},
            )
        self._recent.append(now)

    def _not_offered(self, arguments: Mapping[str, Any], market: SimulatedMarket) -> Refusal:
        region = next((r for r in market.regions if r.name == arguments["region"]), None)
        place = arguments["zone"] or arguments["region"]
        details = (
            {} if region is not None and arguments["zone"] in region.zones else {"scope": "region"}
        )
        return Refusal(
            "NotOffered",
            f"{arguments['type']} is not sold {arguments['market']} in {place}",
            details,
        )

    def _note(self, arguments: Mapping[str, Any], token: str, mark: str, accept: Seconds) -> Record:
        kept = (
            "owner",
            "name",
            "count",
            "region",
            "zone",
            "type",
            "market",
            "on_shutdown",
            "terminate_after",
            "public_key",
            "tags",
        )
        now = time.time()
        operation: Record = {
            "id": token,
            "token": str(arguments["token"]),
            "nodes": list(arguments.get("nodes") or range(arguments["count"])),
            "operation": f"op-{secrets.token_hex(6)}",
            "fingerprint": mark,
            "request": {name: arguments[name] for name in kept},
            "submitted_at": now,
            "decide_at": now + accept,
            "state": "pending",
            "ids": [],
            "code": "",
            "message": "",
            "details": {},
        }
        rpc.private_dir(self.root / "pending")
        rpc.write_private(self._script(operation), str(arguments["user_data"]).encode())
        self.store.put(("operation", operation))
        log.info(
            "create %s: %s x %s in %s",
            operation["operation"],
            arguments["count"],
            arguments["type"],
            arguments["zone"],
        )
        return operation

    def _script(self, operation: Record) -> Path:
        """Return the file of a start script that waits for its machines.

        It may hold keys, so it is a file of its own that is removed with the decision.
        """
        return self.root / "pending" / hashlib.sha256(operation["id"].encode()).hexdigest()[:32]

    def _decide_later(self, operation: Record) -> None:
        async def decide() -> None:
            await asyncio.sleep(operation["decide_at"] - time.time())
            await self._decide(operation)

        task = asyncio.get_running_loop().create_task(decide())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _decide(self, operation: Record) -> None:
        async with self._deciding:
            if operation["state"] != "pending":
                return
            try:
                await self._accept(operation)
            except Refusal as why:
                self._refuse(operation, why)
            except MarketError as error:
                self._refuse(operation, Refusal("InvalidMarket", str(error)))
            except OSError as error:
                self._refuse(
                    operation,
                    Refusal(
                        "InternalError", (f"the files of a machine could not be created: {error}")
                    ),
                )

    def _refuse(self, operation: Record, why: Refusal) -> None:
        operation.update(state="refused", code=why.code, message=why.message, details=why.details)
        self.store.put(("operation", operation))
        self._script(operation).unlink(missing_ok=True)
        log.info("create %s is refused: %s", operation["operation"], why.code)

    async def _accept(self, operation: Record) -> None:
        request = operation["request"]
        row = self.market.row_of(request)
        if row is None:
            raise self._not_offered(request, self.market.read())
        later = self.faults.strike("submit", "decision", row)
        if later is not None:
            raise refusal(later)
        count = request["count"]
        if (
            self.capacity.most(row, count) in range(1, count)
            and self.faults.strike("submit", "partial", row) is not None
        ):
            count = self.capacity.most(row, count)
        self.capacity.require(row, count)
        await self._make(
            operation, row, _nodes_of(operation)[:count], self._script(operation).read_text()
        )
        self._script(operation).unlink(missing_ok=True)

    async def _make(
        self, operation: Record, row: SimulatedOffer, nodes: Iterable[int], script: str
    ) -> None:
        records = [self._record(operation, row, node) for node in nodes]
        for record in records:
            shape = MachineSettings(
                record["id"],
                record["name"],
                record["node"],
                record["gpus"],
                record["gpu_memory_mib"],
            )
            await asyncio.to_thread(
                LocalMachine(self.root, record["id"]).create,
                shape,
                script,
                operation["request"]["public_key"],
            )
        operation.update(state="accepted", ids=[*operation["ids"], *(r["id"] for r in records)])
        self.store.put(*(("machine", r) for r in records), ("operation", operation))
        log.info("create %s is accepted: %s", operation["operation"], ", ".join(operation["ids"]))
        for record in records:
            self.machines.boot(record)

    async def _fill(self, operation: Record, script: str) -> None:
        """Create the machines that a create was short of, as far as there is stock now.

        Nothing is created once any machine of it is ending.
        """
        async with self._deciding:
            made = [m for m in self.store.all("machine") if _key_of(m) == operation["id"]]
            missing = [n for n in _nodes_of(operation) if n not in {m["node"] for m in made}]
            row = self.market.row_of(operation["request"])
            if (
                row is None
                or len(operation["ids"]) >= operation["request"]["count"]
                or any(m["state"] not in (State.PENDING, State.RUNNING) for m in made)
                or not made
            ):
                return
            if more := self.capacity.most(row, len(missing)):
                await self._make(operation, row, missing[:more], script)

    def _record(self, operation: Record, row: SimulatedOffer, node: int) -> Record:
        request, kind, now = operation["request"], row.type, time.time()
        fault = self.faults.strike("submit", "boot", row) or (
            self.faults.strike("submit", "life", row) if row.side.value == "spot" else None
        )
        answering = kind.count - (1 if fault is not None and fault.do == "broken_gpus" else 0)
        return {
            "id": f"i-{secrets.token_hex(6)}",
            **{name: request[name] for name in ("owner", "on_shutdown")},
            "token": operation.get("token", operation["id"]),
            "key": operation["id"],
            "name": f"{request['name']}-{node}",
            "node": node,
            "region": row.region,
            "zone": row.zone,
            "type": kind.name,
            "market": row.side.value,
            "hourly": row.hourly,
            "family": kind.family,
            "units": kind.units,
            "gpus": f"{kind.accelerator}:{max(0, answering):g}" if kind.accelerator else "",
            "gpu_memory_mib": int((kind.device_memory_gib or 0) * 1024),
            "state": State.PENDING.value,
            "host": "",
            "port": 0,
            "reason": "",
            "by_itself": False,
            "handle": None,
            "launched_at": now,
            "changed_at": now,
            "preempt_at": None,
            "end_at": now + request["terminate_after"]
            if request["terminate_after"] is not None
            else None,
            "fault": {"do": fault.do, "seconds": fault.seconds} if fault is not None else {},
        }


def _key_of(machine: Record) -> str:
    """Return the idempotency key of a machine's create: its own key, or else its token."""
    return str(machine.get("key", machine["token"]))


def _nodes_of(operation: Record) -> list[int]:
    return list(operation.get("nodes") or range(operation["request"]["count"]))


def _is_late(arguments: Mapping[str, Any]) -> bool:
    return bool(arguments["answer_by"]) and time.time() > arguments["answer_by"]


def _fingerprint(arguments: Mapping[str, Any]) -> str:
    """Return a hash of a create's parameters.

    The time limit is left out, as it may differ in a repeat.
    """
    told = {name: value for name, value in arguments.items() if name != "answer_by"}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
