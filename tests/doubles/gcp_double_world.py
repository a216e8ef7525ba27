"""The state of the double's Google Cloud: machines, operations, rules, disks and quotas over
time.
"""

from __future__ import annotations

import re
import sys
import threading
import time
import uuid
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from double_faults import Fault, Faults
from gcp_double_faults import ALIASES, Refusal, operation_error
from gcp_double_goods import DEVICE_NAMES, ROOT, TYPES, ZONE


@dataclass
class Row:
    """One machine: its resource as Google shows it, and what runs behind it."""

    data: dict[str, Any]
    user_data: str
    made: float
    machine: str = ""
    ready_at: float = 0.0
    ends_at: float | None = None
    stops_at: float | None = None
    asked: bool = False
    limit_at: float | None = None
    operation: dict[str, Any] | None = None


@dataclass
class Underway:
    """An unfinished operation: when it will be done, and what happens then."""

    data: dict[str, Any]
    done_at: float
    then: Callable[[], list[dict[str, Any]] | None] = field(default=lambda: None)


def now_text() -> str:
    """The time as Google writes it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class World:
    """The whole state; it changes under one lock, when a request comes."""

    def __init__(
        self,
        project: str,
        machines: Any = None,
        *,
        accept: float = 0.02,
        boot: float = 0.05,
        speed: float = 1.0,
    ) -> None:
        self.project, self.machines, self.accept, self.boot, self.speed = (
            project,
            machines,
            accept,
            boot,
            speed,
        )
        self.lock = threading.RLock()
        self.rows: dict[tuple[str, str], Row] = {}
        self.operations: dict[str, dict[str, Any]] = {}
        self.underway: dict[str, Underway] = {}
        self.requests: dict[str, tuple[str, Any]] = {}
        self.firewalls: dict[str, dict[str, Any]] = {}
        self.disks: dict[tuple[str, str], dict[str, Any]] = {}
        self.faults = Faults("create", ALIASES)
        self.problems: list[str] = []
        self.left: dict[tuple[str, str], int] = {}
        self.obtainability: dict[str, float] = {}
        self.quotas: dict[str, float] = {
            "NVIDIA_T4_GPUS": 64,
            "NVIDIA_L4_GPUS": 64,
            "PREEMPTIBLE_NVIDIA_T4_GPUS": 64,
            "CPUS": 1000,
            "N2_CPUS": 1000,
        }
        self.project_quotas: dict[str, float] = {"GPUS_ALL_REGIONS": 64, "CPUS_ALL_REGIONS": 2000}
        self.hidden = self.end = 0.0
        self.page, self.empty_pages = 500, 0
        self.bodies: dict[str, str] = {}
        self._number = 4_000_000_000_000_000_000

    # --- operations

    def number(self) -> str:
        """A new numeric id."""
        self._number += 7919
        return str(self._number)

    def operation(
        self,
        kind: str,
        target: str,
        target_id: str,
        zone: str = "",
        request: str = "",
        then: Any = None,
        after: float | None = None,
    ) -> dict[str, Any]:
        """Make an operation; `then` is called when it is done, and may return errors."""
        name = f"operation-{round(time.time() * 1000)}-{uuid.uuid4().hex[:12]}"
        place = f"zones/{zone}" if zone else "global"
        data: dict[str, Any] = {
            "kind": "compute#operation",
            "id": self.number(),
            "name": name,
            "operationType": kind,
            "targetLink": f"{ROOT}/projects/{self.project}/{target}",
            "targetId": target_id,
            "status": "RUNNING",
            "user": "somebody@example.org",
            "progress": 0,
            "insertTime": now_text(),
            "startTime": now_text(),
            "selfLink": f"{ROOT}/projects/{self.project}/{place}/operations/{name}",
        }
        if zone:
            data["zone"] = f"{ROOT}/projects/{self.project}/zones/{zone}"
        if request:
            data["clientOperationId"] = request
        self.operations[name] = data
        if then is not None:
            self.underway[name] = Underway(
                data, time.monotonic() + (self.accept if after is None else after), then
            )
        return data

    def finish(self, data: dict[str, Any], errors: list[dict[str, Any]] | None = None) -> None:
        """Mark an operation as done."""
        data |= {"status": "DONE", "progress": 100, "endTime": now_text()}
        if errors:
            status = {
                "QUOTA_EXCEEDED": 403,
                "RESOURCE_ALREADY_EXISTS": 409,
                "INTERNAL_ERROR": 500,
            }.get(errors[0]["code"], 503)
            data |= {
                "error": {"errors": errors},
                "httpErrorStatusCode": status,
                "httpErrorMessage": "SERVICE UNAVAILABLE",
            }

    # --- time

    def tick(self) -> None:
        """Carry out what is due."""
        now = time.monotonic()
        for name, work in [*self.underway.items()]:
            if now >= work.done_at:
                del self.underway[name]
                self.finish(work.data, work.then())
        for key, row in [*self.rows.items()]:
            self._move(key, row, now)

    def _move(self, key: tuple[str, str], row: Row, now: float) -> None:
        if row.ends_at is not None:
            self._end(key, row, now)
        elif row.stops_at is not None:
            self._stop(row, now)
        elif row.data["status"] in ("PROVISIONING", "STAGING"):
            self._boot(row, now)
        elif row.data["status"] == "RUNNING":
            if row.limit_at is not None and now >= row.limit_at:
                self.take_back(key, row, "maxRunDuration")
            elif self.machines and self.machines.state(row.machine) in (
                "stopped",
                "stopping",
                "gone",
            ):
                self.guest_off(key, row)

    def _boot(self, row: Row, now: float) -> None:
        if row.ready_at == 0.0:
            return  # its operation is not done
        if not self.machines:
            if now >= row.ready_at:
                self._runs(row, f"203.0.113.{len(self.rows) % 250 + 1}", 22, now)
            return
        row.data["status"] = "STAGING"
        host, port = self.machines.address(row.machine)
        if host:
            self._runs(row, host, port, now)
        elif (
            self.machines.state(row.machine) == "stopped"
        ):  # it powered itself off before its sshd was reached
            self.guest_off((row.data["zone"].rpartition("/")[2], row.data["name"]), row)

    def _runs(self, row: Row, host: str, port: int, now: float) -> None:
        row.data["status"] = "RUNNING"
        link = row.data["networkInterfaces"][0]
        for access in link.get("accessConfigs", ()):
            access["natIP"] = host
        if self.machines:
            link["networkIP"] = host
            row.data["labels"]["nbprov-ssh-port"] = str(port)
            row.data["labels"].setdefault("nbprov-login", self.machines.login())
        run = row.data.get("scheduling", {}).get("maxRunDuration")
        if run:
            row.limit_at = now + int(run["seconds"]) / self.speed

    def _end(self, key: tuple[str, str], row: Row, now: float) -> None:
        if row.ends_at is None or now < row.ends_at:
            return
        if self.machines and row.machine:
            if not row.asked:
                self.machines.terminate(row.machine)
                row.asked = True
            if self.machines.state(row.machine) != "gone":
                return
        del self.rows[key]
        for disk in row.data["disks"]:
            if disk["autoDelete"]:
                self.disks.pop((key[0], disk["source"].rpartition("/")[2]), None)
        if row.operation:
            self.finish(row.operation)

    def _stop(self, row: Row, now: float) -> None:
        if row.stops_at is None or now < row.stops_at:
            return
        if self.machines:
            if not row.asked:
                self.machines.stop(row.machine)
                row.asked = True
            if self.machines.state(row.machine) != "stopped":
                return
        row.stops_at, row.asked = None, False
        self._is_stopped(row)
        if row.operation:
            self.finish(row.operation)

    def _is_stopped(self, row: Row) -> None:
        row.data |= {"status": "TERMINATED", "lastStopTimestamp": now_text()}
        row.limit_at = None
        for access in row.data["networkInterfaces"][0].get("accessConfigs", ()):
            access.pop("natIP", None)

    def power_off(self, key: str) -> None:
        """Let a real machine power itself off from inside; the next tick notices it."""
        self.machines.stop(self.bodies[key])

    def guest_off(self, key: tuple[str, str], row: Row) -> None:
        """Record that a machine powered itself off.

        It is stopped, with an operation that nobody requested.
        """
        self._is_stopped(row)
        zone, name = key
        told = self.operation(
            "compute.instances.guestTerminate",
            f"zones/{zone}/instances/{name}",
            row.data["id"],
            zone,
        )
        told["statusMessage"] = "Instance terminated by guest OS shutdown."
        self.finish(told)

    def take_back(self, key: tuple[str, str], row: Row, why: str, seconds: float = 0.0) -> None:
        """Preempt a machine, or end it at its time limit, as its own settings say."""
        zone, name = key
        kind = (
            "compute.instances.preempted"
            if why == "preempted"
            else "compute.instances.stopForMaxRunDuration"
        )
        told = self.operation(kind, f"zones/{zone}/instances/{name}", row.data["id"], zone)
        self.finish(told)
        row.operation = None
        row.data["status"] = "STOPPING"
        if row.data.get("scheduling", {}).get("instanceTerminationAction") == "DELETE":
            row.ends_at = time.monotonic() + seconds
        else:
            row.stops_at = time.monotonic() + seconds

    # --- machines

    def check_wishes(self, wanted: dict[str, Any], zone: str) -> None:
        """Refuse machine properties that Google would refuse."""
        kind = wanted.get("machineType", "").rpartition("/")[2]
        where = f"projects/{self.project}/zones/{zone}"
        if not ZONE.fullmatch(zone):
            raise Refusal(404, "notFound", f"The resource '{where}' was not found")
        if kind not in TYPES:
            raise Refusal(
                404, "notFound", f"The resource '{where}/machineTypes/{kind}' was not found"
            )
        devices = wanted.get("guestAccelerators", [])
        for device in devices:
            if device["acceleratorType"].rpartition("/")[2] not in DEVICE_NAMES:
                raise Refusal(
                    404,
                    "notFound",
                    (
                        f"The resource '{where}/acceleratorTypes/"
                        f"{device['acceleratorType'].rpartition('/')[2]}' was not found"
                    ),
                )
        has_gpu = bool(devices) or TYPES[kind].device is not None
        plan = wanted.get("scheduling", {})
        spot, limit = plan.get("provisioningModel") == "SPOT", plan.get("maxRunDuration")
        rules = [
            (
                has_gpu and plan.get("onHostMaintenance") != "TERMINATE",
                "Instances with guest accelerators do not support live migration.",
            ),
            (
                spot and plan.get("automaticRestart", True),
                "Scheduling must have automaticRestart be false when preemptible is true.",
            ),
            (
                spot and plan.get("onHostMaintenance") == "MIGRATE",
                "Scheduling must have onHostMaintenance be TERMINATE when preemptible is true.",
            ),
            (
                plan.get("instanceTerminationAction") and not (spot or limit),
                "Instance termination action is only for Spot VMs and time limits.",
            ),
            (
                limit and not 30 <= int(limit["seconds"]) <= 10_368_000,
                "The max run duration is out of range.",
            ),
        ]
        for broken, words in rules:
            if broken:
                raise Refusal(
                    400, "invalid", f"Invalid value for field 'resource.scheduling': ''. {words}"
                )

    def room(self, zone: str, kind: str, count: int) -> str:
        """Say what is missing for `count` more machines; empty if there is room."""
        left = next(
            (
                self.left[k]
                for k in ((zone, kind), (zone, ""), ("", kind), ("", ""))
                if k in self.left
            ),
            10**6,
        )
        live = sum(
            1
            for (z, _), row in self.rows.items()
            if z == zone
            and row.data["machineType"].endswith(f"/{kind}")
            and row.data["status"] != "TERMINATED"
        )
        return "capacity" if left - live < count else ""

    def make(self, name: str, zone: str, wanted: dict[str, Any]) -> Row:
        """Begin a machine: PROVISIONING at once, booted when its operation is done."""
        number = self.number()
        wanted = deepcopy(wanted)
        data = {k: v for k, v in wanted.items() if k not in ("disks", "metadata")}
        place = f"{ROOT}/projects/{self.project}/zones/{zone}"
        boot = wanted["disks"][0]
        items = {item["key"]: item["value"] for item in wanted.get("metadata", {}).get("items", ())}
        data |= {
            "kind": "compute#instance",
            "id": number,
            "name": name,
            "zone": place,
            "machineType": f"{place}/machineTypes/{wanted['machineType'].rpartition('/')[2]}",
            "status": "PROVISIONING",
            "creationTimestamp": now_text(),
            "lastStartTimestamp": now_text(),
            "labelFingerprint": "42WmSpB8rSM=",
            "selfLink": f"{place}/instances/{name}",
            "labels": dict(wanted.get("labels", {})),
            "metadata": {
                "kind": "compute#metadata",
                "fingerprint": "x",
                "items": [{"key": k, "value": v} for k, v in items.items()],
            },
            "disks": [
                {
                    "boot": True,
                    "autoDelete": boot.get("autoDelete", False),
                    "source": f"{place}/disks/{name}",
                    "kind": "compute#attachedDisk",
                }
            ],
            "networkInterfaces": [
                {**link, "name": "nic0", "networkIP": "10.128.0.9"}
                for link in wanted["networkInterfaces"]
            ],
        }
        for link in data["networkInterfaces"]:
            link["accessConfigs"] = [dict(a) for a in link.get("accessConfigs", ())]
        for device in data.get("guestAccelerators", ()):
            device["acceleratorType"] = (
                f"{place}/acceleratorTypes/{device['acceleratorType'].rpartition('/')[2]}"
            )
        params = boot.get("initializeParams", {})
        self.disks[zone, name] = {
            "kind": "compute#disk",
            "id": self.number(),
            "name": name,
            "zone": place,
            "status": "READY",
            "sizeGb": params.get("diskSizeGb", "10"),
            "labels": params.get("labels", {}),
            "users": [f"{place}/instances/{name}"],
            "selfLink": f"{place}/disks/{name}",
        }
        row = Row(data, items.get("startup-script", ""), time.monotonic())
        self.rows[zone, name] = row
        return row

    def power_on(self, row: Row) -> None:
        """Give a machine its body, and let it boot."""
        row.ready_at = time.monotonic() + self.boot
        if not self.machines:
            return
        device = next(iter(row.data.get("guestAccelerators", ())), None)
        kind = TYPES[row.data["machineType"].rpartition("/")[2]]
        gpus = (
            f"{DEVICE_NAMES[device['acceleratorType'].rpartition('/')[2]]}:{device['acceleratorCount']}"
            if device
            else ""
        )
        if kind.device and not gpus:
            gpus = f"{kind.device.name}:{max(1, round(kind.count))}"
        node = re.search(r"-(\d+)$", row.data["name"])
        zone = row.data["zone"].rpartition("/")[2]
        self.bodies[f"{zone}/{row.data['name']}"] = row.machine = self.machines.create(
            user_data=row.user_data, on_poweroff="stop", gpus=gpus, node=int(node[1]) if node else 0
        )

    def discard(self, zone: str, name: str, *, keep_disk: bool = False) -> None:
        """Remove a machine whose create failed.

        With `keep_disk` its disk is left, as a half-made one does.
        """
        row = self.rows.pop((zone, name), None)
        if row is not None and row.machine:
            self.machines.terminate(row.machine)
        if keep_disk:
            self.disks[zone, name]["users"] = []
        else:
            self.disks.pop((zone, name), None)

    def devices_in_use(self, metric: str, region: str = "") -> float:
        """Return how much of a quota is used by machines that are not stopped."""
        used = 0.0
        for (zone, _), row in self.rows.items():
            if (region and not zone.startswith(f"{region}-")) or row.data["status"] == "TERMINATED":
                continue
            for device in row.data.get("guestAccelerators", ()):
                name = (
                    device["acceleratorType"]
                    .rpartition("/")[2]
                    .removeprefix("nvidia-")
                    .removeprefix("tesla-")
                    .replace("-", "_")
                    .upper()
                )
                spot = row.data.get("scheduling", {}).get("provisioningModel") == "SPOT"
                if metric in (
                    "GPUS_ALL_REGIONS",
                    f"{'PREEMPTIBLE_' if spot else ''}NVIDIA_{name}_GPUS",
                ):
                    used += device["acceleratorCount"]
        return used

    def fault(self, method: str, place: dict[str, str]) -> Fault | None:
        """Return the fault that strikes a request, and count it."""
        return self.faults.take(method, place.get)

    def failing(
        self, fault: Fault | None, place: dict[str, str], count: int
    ) -> list[dict[str, Any]]:
        """Return the errors with which a create ends: scripted, or for lack of stock."""
        if fault is not None and fault.do in (
            "capacity",
            "quota",
            "spot",
            "late_failure",
            "half_made",
        ):
            return operation_error(fault.do, place)
        if self.room(place["zone"], place["type"], count):
            errors = operation_error("capacity", place)
            return (
                errors
                if count == 1
                else [
                    *errors,
                    {
                        "code": "VM_MIN_COUNT_NOT_REACHED",
                        "message": f"Requested minimum count of {count} VMs could not be created.",
                    },
                ]
            )
        return []
