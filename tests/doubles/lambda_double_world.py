"""The state of Lambda's double: machines, keys, stock, prices, scripted faults, and its answers."""

from __future__ import annotations

import re
import threading
import time
import uuid
from dataclasses import dataclass
from typing import Any, cast

from double_faults import Faults
from lambda_types import instance_types
from machines import Machines

from nbprov.clouds.pricing import gpu_names

REFUSALS: dict[str, tuple[int, str, str]] = {
    "capacity": (
        400,
        "instance-operations/launch/insufficient-capacity",
        "Not enough capacity to fulfill launch request.",
    ),
    "quota": (400, "global/quota-exceeded", "Quota exceeded."),
    "credentials": (401, "global/invalid-api-key", "API key was invalid, expired, or deleted."),
    "balance": (403, "global/account-inactive", "Your account is inactive."),
    "permission": (403, "global/forbidden", "You do not have permission to perform this action."),
    "bad_request": (400, "global/invalid-parameters", "Invalid request data."),
    "not_offered": (404, "global/object-does-not-exist", "The instance type does not exist."),
    "rate_limit": (429, "global/rate-limited", "Your API requests are being rate limited."),
    "transient": (
        409,
        "global/conflict",
        "The request conflicts with the current state of the resource.",
    ),
    "server_error": (500, "global/internal-error", "An internal error occurred."),
}
"""Scripted refusals: status, code, message, as the published error schemas have them."""
SUGGESTION = "Contact Support if problems continue."
SSH_RULE = {
    "protocol": "tcp",
    "port_range": [22, 22],
    "source_network": "0.0.0.0/0",
    "description": "Allow SSH from anywhere",
}
FREE = {"available": True}


class Refusal(Exception):
    """An answer that is no success."""

    def __init__(
        self, status: int, code: str, message: str, retry_after: float | None = None
    ) -> None:
        super().__init__(code)
        self.status, self.code, self.message, self.retry_after = status, code, message, retry_after


@dataclass
class Made:
    """One machine of the double."""

    id: str
    request: dict[str, Any]
    created: float
    active_at: float
    body: str = ""
    status: str = ""
    ends_at: float | None = None
    hidden_until: float = 0.0

    @property
    def type(self) -> str:
        return str(self.request["instance_type_name"])

    @property
    def region(self) -> str:
        return str(self.request["region_name"])


class State:
    """The whole state. One lock suffices, because answers take microseconds."""

    def __init__(self, machines: Machines | None, launch_every: float, call_every: float) -> None:
        self.lock = threading.RLock()
        self.machines = machines
        self.launch_every, self.call_every = launch_every, call_every
        self.types = instance_types()["data"]
        self.made: dict[str, Made] = {}
        self.keys: dict[str, dict[str, str]] = {}
        self.left: dict[tuple[str, str], int] = {}
        self.faults = Faults()
        self.calls: list[dict[str, Any]] = []
        self.problems: list[str] = []
        self.timing = {"boot": 0.02, "end": 0.0, "hidden": 0.0, "answer": 0.0}
        self.last: dict[str, float] = {}

    # ------------------------------------------------------------ Lambda's calls

    def types_(self, body: Any, named: str) -> Any:
        listed = {}
        for name, entry in self.types.items():
            places = {place["name"]: place for place in entry["regions_with_capacity_available"]}
            for (sort, region), left in self.left.items():
                if sort == name and left <= 0:
                    places.pop(region, None)
                elif sort == name:
                    places.setdefault(region, {"name": region, "description": region.title()})
            listed[name] = {
                "instance_type": entry["instance_type"],
                "regions_with_capacity_available": [*places.values()],
            }
        return listed

    def list_(self, body: Any, named: str) -> Any:
        now = time.monotonic()
        return [
            self.shown(one)
            for one in [*self.made.values()]
            if self.follow(one) and now >= one.hidden_until
        ]

    def launch_(self, body: Any, named: str) -> Any:
        sort, region = body["instance_type_name"], body["region_name"]
        entry = self.types.get(sort)
        if entry is None:
            raise Refusal(
                404, "global/object-does-not-exist", f"The instance type {sort} does not exist."
            )
        if body["ssh_key_names"][0] not in {key["name"] for key in self.keys.values()}:
            raise Refusal(404, "global/object-does-not-exist", "The SSH key does not exist.")
        in_stock = self.left.get(
            (sort, region),
            int(region in {p["name"] for p in entry["regions_with_capacity_available"]}) * 99,
        )
        if in_stock <= 0:
            raise Refusal(*REFUSALS["capacity"])
        self.left[sort, region] = in_stock - 1
        now = time.monotonic()
        one = Made(
            uuid.uuid4().hex,
            body,
            now,
            now + self.timing["boot"],
            hidden_until=now + self.timing["hidden"],
        )
        if self.machines:
            # A machine that powers itself off is not released: Lambda continues to bill it.
            one.body = self.machines.create(
                user_data=body.get("user_data", ""),
                on_poweroff="stop",
                **simulated(entry["instance_type"]),
            )
        self.made[one.id] = one
        return {"instance_ids": [one.id]}

    def terminate_(self, body: Any, named: str) -> Any:
        found = [self.made.get(i) for i in body["instance_ids"]]
        if not all(found):
            raise Refusal(404, "global/object-does-not-exist", "Specified instance does not exist.")
        ended = cast(list[Made], found)
        for one in ended:
            self.end(one, self.timing["end"])
        return {"terminated_instances": [self.shown(one) for one in ended]}

    def keys_(self, body: Any, named: str) -> Any:
        return [*self.keys.values()]

    def add_key_(self, body: Any, named: str) -> Any:
        key = {"id": uuid.uuid4().hex, "name": body["name"], "public_key": body["public_key"]}
        self.keys[key["id"]] = key
        return key

    def delete_key_(self, body: Any, named: str) -> Any:
        if named not in self.keys:
            raise Refusal(404, "global/object-does-not-exist", "The SSH key does not exist.")
        name = self.keys[named]["name"]
        if any(
            name in one.request["ssh_key_names"] and self.follow(one)
            for one in [*self.made.values()]
        ):
            raise Refusal(400, "ssh-keys/key-in-use", "The SSH key is in use.")
        del self.keys[named]
        return {}

    def firewall_(self, body: Any, named: str) -> Any:
        return [SSH_RULE]

    # ------------------------------------------------------------ machines

    def end(self, one: Made, after: float, status: str = "terminating") -> None:
        if one.ends_at is None:
            one.ends_at, one.status = time.monotonic() + after, status

    def follow(self, one: Made) -> bool:
        """Bring a machine up to date; return whether it still exists."""
        now = time.monotonic()
        if one.ends_at is None or now < one.ends_at:
            return True
        if self.machines:
            state = self.machines.state(one.body)
            if state not in ("ending", "gone"):
                self.machines.terminate(one.body)
            if state != "gone":
                return True
        key = (one.type, one.region)
        if self.made.pop(one.id, None) and key in self.left:
            self.left[key] += 1
        return False

    def status(self, one: Made) -> tuple[str, str, int]:
        """Return Lambda's status, and the address of sshd."""
        if not self.machines:
            is_up = time.monotonic() >= one.active_at
            return (
                one.status or ("active" if is_up else "booting"),
                "127.0.0.1" if is_up else "",
                22,
            )
        host, port = self.machines.address(one.body)
        state = self.machines.state(one.body)
        told = "active" if host else "unhealthy" if state in ("stopping", "stopped") else "booting"
        return one.status or told, host, port

    def shown(self, one: Made) -> dict[str, Any]:
        status, host, port = self.status(one)
        sort = self.types[one.type]["instance_type"]
        tags = [*one.request.get("tags", [])]
        if self.machines:
            usual = {"nbprov-login": self.machines.login(), "nbprov-ssh-port": str(port)}
            named = {tag["key"] for tag in tags}
            tags += [{"key": k, "value": v} for k, v in usual.items() if k not in named]
        told = {
            "id": one.id,
            "name": one.request.get("name", ""),
            "status": status,
            "ssh_key_names": one.request["ssh_key_names"],
            "file_system_names": [],
            "region": {"name": one.region, "description": one.region.title()},
            "instance_type": sort,
            "actions": dict.fromkeys(
                ("migrate", "rebuild", "restart", "cold_reboot", "terminate"), FREE
            ),
            "tags": tags,
        }
        return {**told, "ip": host, "private_ip": host} if host else told

    # ------------------------------------------------------------ control

    def control(self, name: str, body: Any) -> Any:
        if name == "faults":
            self.faults.add(body)
        elif name == "stock":
            self.left[body["instance_type"], body["region"]] = body["left"]
        elif name == "prices":
            sort = self.types[body["instance_type"]]["instance_type"]
            sort["price_cents_per_hour"] = round(sort["price_cents_per_hour"] * body["factor"])
        elif name == "timing":
            self.timing.update(body)
        elif name == "status":
            for one in self.made.values():
                if one.id in body["ids"]:
                    one.status = body["status"]
        elif name == "preempt":
            for one in self.made.values():
                if one.id in body["ids"]:
                    self.end(one, body.get("seconds", 3600.0), "preempted")
        elif name in ("calls", "problems"):
            return getattr(self, name)
        elif name == "machines":
            return {one.id: one.body for one in self.made.values()}
        else:
            raise Refusal(404, "double/unknown", name)
        return {}

    def too_often(self, call: str) -> None:
        kind, least = (
            ("launch", self.launch_every) if call == "launch" else ("call", self.call_every)
        )
        now = time.monotonic()
        missing = least - (now - self.last.get(kind, -1e9))
        if missing > 0:
            raise Refusal(*REFUSALS["rate_limit"], retry_after=missing)
        self.last[kind] = now


def simulated(sort: dict[str, Any]) -> dict[str, Any]:
    """Return the simulated GPUs of a type, in the form that `Machines.create` takes."""
    count = sort["specs"]["gpus"]
    gpu = gpu_names.read(re.sub(r"[()]", " ", sort["gpu_description"]))
    return {"gpus": f"{gpu.name}:{count}", "gpu_memory_gib": gpu.device_gib or 24} if count else {}
