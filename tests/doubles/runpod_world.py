"""The state of RunPod's double: pods over time, stock, secrets, prices, and scripted faults."""

from __future__ import annotations

import random
import shlex
import shutil
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from double_faults import Fault, Faults
from machines import Machines
from runpod_catalogue import GPUS, KEY
from runpod_schema import ACTIONS

from nbprov.clouds.pricing import gpu_names

CPU = {
    "id": "cpu5c",
    "name": "Compute-Optimized",
    "group": "Gen 5",
    "vcpu": {"min": 2, "max": 32},
    "ramGbPerVcpu": 2,
    "each": 0.03,
}
CENTRES = {
    "EU-CZ-1": "EUROPE",
    "EU-NL-1": "EUROPE",
    "EU-SE-1": "EUROPE",
    "EU-SE-2": "EUROPE",
    "EU-RO-1": "EUROPE",
    "EUR-NO-1": "EUROPE",
    "EUR-NO-2": "EUROPE",
    "EUR-IS-1": "EUROPE",
    "EUR-IS-2": "EUROPE",
    "EUR-IS-3": "EUROPE",
    "EUR-IS-4": "EUROPE",
    "EUR-IS-5": "EUROPE",
    "US-TX-3": "NORTH_AMERICA",
    "CA-MTL-1": "NORTH_AMERICA",
}
PLENTY = 16
CAPACITY = (
    "There are no longer any instances available with the requested specifications. "
    "Please refresh and try again."
)
NO_FREE_GPUS = "There are not enough free GPUs on the host machine to start this pod."
ALLOWED = {
    "RUNNING": ["stop", "restart", "terminate"],
    "EXITED": ["start", "terminate"],
    "ERROR": ["start", "terminate"],
    "PROVISIONING": ["stop", "terminate"],
    "STARTING": ["stop", "terminate"],
}


class Refusal(Exception):
    """An answer that is no success."""

    def __init__(
        self,
        status: int,
        detail: str,
        errors: list[str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.errors, self.headers = (
            status,
            detail,
            errors or [],
            headers or {},
        )


@dataclass
class Settings:
    """Settings of the world: seconds of each phase, and permanent faults."""

    provision: float = 0.03
    starting: float = 0.03
    mapping: float = 0.03
    hidden: float = 0.0
    ending: float = 0.0
    price_factor: float = 1.0
    page: int = 1000
    empty_pages: int = 0
    zero_gpu: bool = False
    balance: float = 25.0
    spend_limit: float = 80.0
    secrets: str = "yes"


@dataclass
class Pod:
    """One pod."""

    id: str
    body: dict[str, Any]
    centre: str
    created: float
    started: float
    key: str
    gpus: int = 0
    exited: bool = False
    status: str = ""
    ending: float | None = None
    hidden: float = 0.0
    host_port: int = 0
    machine: str = ""
    fails_at: float | None = None
    wiped: bool = False
    said: list[str] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return str(self.body["gpu"]["id"] if "gpu" in self.body else self.body["cpu"]["id"])

    @property
    def asked(self) -> int:
        return int(self.body["gpu"].get("count", 1)) if "gpu" in self.body else 0


class World:
    """The whole state. Every method that changes something holds the lock."""

    def __init__(self, seed: int, machines: Machines | None) -> None:
        self.lock = threading.RLock()
        self.random = random.Random(seed)
        self.machines = machines
        self.settings = Settings()
        self.pods: dict[str, Pod] = {}
        self.ended: list[Pod] = []
        self.secrets: dict[str, dict[str, str]] = {}
        self.stock: dict[tuple[str, str], int] = {}
        self.faults = Faults()
        self.calls: list[dict[str, Any]] = []
        self.problems: list[str] = []

    def fault(self, call: str, asked: dict[str, Any]) -> Fault | None:
        """Return the scripted fault of a call, and count it; its fields are dotted paths."""
        with self.lock:
            return self.faults.take(call, lambda path: _at(asked, path))

    def left(self, kind: str, centre: str) -> int:
        """How many GPUs (or CPU machines) of a kind are free in a data centre."""
        return self.stock.get(
            (kind, centre),
            self.stock.get(
                (kind, ""), self.stock.get(("", centre), self.stock.get(("", ""), PLENTY))
            ),
        )

    def _take(self, kind: str, centre: str, count: int) -> None:
        for key in ((kind, centre), (kind, ""), ("", centre), ("", "")):
            if key in self.stock:
                self.stock[key] -= count
                return

    def level(self, kind: str, centre: str, count: int) -> str:
        """Return the catalogue's level."""
        machines = self.left(kind, centre) // max(1, count)
        return (
            "NONE"
            if machines <= 0
            else "LOW"
            if machines == 1
            else "MEDIUM"
            if machines <= 3
            else "HIGH"
        )

    def create(self, body: dict[str, Any], *, hidden: float = 0.0, fails: bool = False) -> Pod:
        """Create a pod or refuse. Names are not unique, and nothing is idempotent."""
        with self.lock:
            if ("gpu" in body) == ("cpu" in body):
                raise Refusal(400, "exactly one of gpu or cpu must be set")
            if "cpu" in body and "persistent" in body.get("mounts", {}):
                raise Refusal(400, "mounts.persistent is invalid when cpu is set")
            kind, count = (
                (body["gpu"]["id"], body["gpu"].get("count", 1))
                if "gpu" in body
                else (body["cpu"]["id"], 1)
            )
            if "gpu" in body and kind not in GPUS:
                raise Refusal(404, f"GPU type {kind!r} not found")
            if "cpu" in body and body.get("disk", 0) > 10 * body["cpu"]["vcpuCount"]:
                raise Refusal(
                    400,
                    (
                        "create pod: Container Disk must be less than or equal to "
                        f"{10 * body['cpu']['vcpuCount']}"
                    ),
                )
            unknown = [one for one in body.get("dataCenterIds", []) if one not in CENTRES]
            if unknown:
                raise Refusal(400, f"data center {unknown[0]} does not exist")
            places = [
                c for c in body.get("dataCenterIds") or CENTRES if self.left(kind, c) >= count
            ]
            if not places:
                raise Refusal(400, CAPACITY)
            if self.settings.balance < self._hourly(body):
                raise Refusal(
                    402, "Insufficient balance: at least one hour of credits is required."
                )
            self._take(kind, places[0], count)
            now = time.time()
            number = f"{self.random.getrandbits(64):016x}"
            pod = Pod(
                f"pod{number[:11]}",
                body,
                places[0],
                now,
                now,
                f"rpa_POD{number}",
                hidden=now + max(hidden, self.settings.hidden),
            )
            pod.gpus, pod.fails_at = pod.asked, now + 0.05 if fails else None
            self.pods[pod.id] = pod
            self._boot(pod)
            return pod

    def _boot(self, pod: Pod) -> None:
        pod.host_port = self.random.randint(20000, 60000)
        pod.said.append("create container " + pod.body["image"])
        if self.machines is None:
            return
        if pod.machine:
            if pod.wiped:
                shutil.rmtree(self.machines.disk(pod.machine) / "home", ignore_errors=True)
                (self.machines.disk(pod.machine) / "home").mkdir()
            self.machines.start(pod.machine)
            return
        name, memory = (
            (gpu_names.read(GPUS[pod.kind][0], GPUS[pod.kind][1]).name, GPUS[pod.kind][1])
            if "gpu" in pod.body
            else ("", 0)
        )
        pod.machine = self.machines.create(
            user_data=self._script(pod),
            on_poweroff="stop",
            gpus=f"{name}:{pod.asked}" if name else "",
            gpu_memory_gib=float(memory or 24),
        )

    def _script(self, pod: Pod) -> str:
        """The container's command with its environment, as the first process of a machine."""
        import json

        known = {
            f"{{{{ RUNPOD_SECRET_{one['name']} }}}}": one["value"] for one in self.secrets.values()
        }
        env = {name: known.get(value, value) for name, value in pod.body.get("env", {}).items()}
        env |= {
            "RUNPOD_POD_ID": pod.id,
            "RUNPOD_API_KEY": pod.key,
            "RUNPOD_DC_ID": pod.centre,
            "RUNPOD_GPU_COUNT": str(pod.gpus),
        }
        try:
            args = json.loads(pod.body.get("args") or "{}")
            argv = [*args.get("entrypoint", []), *args.get("cmd", [])]
        except ValueError:
            argv = shlex.split(pod.body["args"])
        lines = [f"export {name}={shlex.quote(value)}" for name, value in env.items()]
        return "\n".join(
            ["#!/bin/sh", *lines, f"exec {shlex.join(argv)}" if argv else "exit 0", ""]
        )

    def _hourly(self, body: dict[str, Any]) -> float:
        if "cpu" in body:
            return CPU["each"] * body["cpu"]["vcpuCount"] * self.settings.price_factor  # type: ignore[operator]
        community = body.get("cloud") == "COMMUNITY"
        return (
            GPUS[body["gpu"]["id"]][3 if community else 2]
            * body["gpu"].get("count", 1)
            * self.settings.price_factor
        )

    def status(self, pod: Pod) -> str:
        """Return the current status of a pod."""
        now, phases = time.time(), self.settings
        if pod.status:
            return pod.status
        if pod.exited:
            return "EXITED"
        if pod.fails_at is not None and now >= pod.fails_at:
            return "ERROR"
        if now < pod.started + phases.provision:
            return "PROVISIONING"
        return "STARTING" if now < pod.started + phases.provision + phases.starting else "RUNNING"

    def address(self, pod: Pod) -> tuple[str, int]:
        """Return the address of its sshd; none until its port is mapped, which is after RUNNING."""
        if self.status(pod) != "RUNNING":
            return "", 0
        if self.machines is not None:
            return self.machines.address(pod.machine)
        phases = self.settings
        mapped = time.time() >= pod.started + phases.provision + phases.starting + phases.mapping
        return ("127.0.0.1", pod.host_port) if mapped else ("", 0)

    def shown(self, pod: Pod) -> dict[str, Any]:
        """A pod as the API shows it."""
        status, body = self.status(pod), pod.body
        host, port = self.address(pod)
        user = self.machines.login() if self.machines is not None else "root"
        private = body.get("env", {}).get("NBPROV_SSH_PORT", "22")
        direct = (
            {
                "host": host,
                "port": port,
                "username": user,
                "command": f"ssh {user}@{host} -p {port}",
            }
            if host and private == "22"
            else None
        )
        mapped = (
            [{"private": int(private), "public": port, "type": "tcp", "ip": host}] if host else []
        )
        proxy = {
            "host": "ssh.runpod.io",
            "port": 22,
            "username": f"{pod.id}-64411eb2",
            "command": f"ssh {pod.id}-64411eb2@ssh.runpod.io",
        }
        made: dict[str, Any] = {
            "id": pod.id,
            "name": body["name"],
            "image": body["image"],
            "args": body.get("args", ""),
            "disk": body.get("disk", 50),
            "ports": body.get("ports", []),
            "env": body.get("env", {}),
            "registry": None,
            "status": status,
            "actions": ALLOWED.get(status, []),
            "mounts": body.get("mounts", {}),
            "cloud": body.get("cloud", "SECURE"),
            "dataCenterId": pod.centre,
            "cudaVersion": "12.8" if "gpu" in body else None,
            "ssh": {"proxy": proxy, "direct": direct},
            "template": None,
            "cost": self._hourly(body) if status not in ("EXITED", "TERMINATED", "ERROR") else 0.0,
            "locked": False,
            "globalNetworking": {"enabled": False},
            "runtime": {"uptime": int(time.time() - pod.started), "ports": mapped}
            if status == "RUNNING"
            else None,
            "createdAt": _iso(pod.created),
            "startedAt": _iso(pod.started),
        }
        if "gpu" in body:
            made["gpu"] = {"id": pod.kind, "count": pod.gpus}
        else:
            made["cpu"] = {
                "id": pod.kind,
                "vcpuCount": body["cpu"]["vcpuCount"],
                "memory": 2 * body["cpu"]["vcpuCount"],
            }
        return made

    def listed(self) -> list[Pod]:
        """Return the pods of a listing, newest first."""
        with self.lock:
            self._sweep()
            now = time.time()
            return sorted(
                (p for p in self.pods.values() if now >= p.hidden),
                key=lambda p: p.created,
                reverse=True,
            )

    def get(self, pod_id: str) -> Pod:
        """A pod, or 404."""
        with self.lock:
            self._sweep()
            if pod_id not in self.pods:
                raise Refusal(404, "pod not found")
            return self.pods[pod_id]

    def act(self, pod_id: str, action: str) -> Pod | None:
        """Start, stop, restart or end a pod."""
        with self.lock:
            pod = self.get(pod_id)
            if action not in ALLOWED.get(self.status(pod), ACTIONS):
                raise Refusal(
                    409, f"action {action!r} is not valid for a pod that is {self.status(pod)}"
                )
            if action == "terminate":
                self.end(pod_id)
                return None
            if action == "stop":
                pod.exited, pod.wiped, pod.fails_at = (
                    True,
                    "persistent" not in pod.body.get("mounts", {}),
                    None,
                )
                self._take(pod.kind, pod.centre, -pod.gpus)
                pod.said.append("stop container")
                if self.machines is not None:
                    self.machines.stop(pod.machine)
                    self._await(pod, "stopped")
            if action == "start":
                self._start(pod)
            return pod

    def _start(self, pod: Pod) -> None:
        if self.settings.zero_gpu:
            pod.gpus = 0
        elif self.left(pod.kind, pod.centre) < pod.asked:
            raise Refusal(400, NO_FREE_GPUS)
        else:
            pod.gpus = pod.asked
            self._take(pod.kind, pod.centre, pod.asked)
        pod.exited, pod.started = False, time.time()
        self._boot(pod)

    def end(self, pod_id: str) -> None:
        """Delete a pod. It leaves the listing at once, or with its machine if it ends slowly."""
        with self.lock:
            pod = self.get(pod_id)
            pod.ending = time.time() + self.settings.ending
            self._sweep()

    def _sweep(self) -> None:
        for pod in [
            p for p in self.pods.values() if p.ending is not None and time.time() >= p.ending
        ]:
            if not pod.exited:
                self._take(pod.kind, pod.centre, -pod.gpus)
            if self.machines is not None:
                self.machines.terminate(pod.machine)
                self._await(pod, "gone")
            self.ended.append(self.pods.pop(pod.id))

    def _await(self, pod: Pod, state: str) -> None:
        assert self.machines is not None
        deadline = time.monotonic() + 20.0
        while self.machines.state(pod.machine) not in (state, "gone"):
            if time.monotonic() > deadline:
                raise Refusal(500, "the machine did not obey")
            time.sleep(0.01)

    def console(self, pod: Pod) -> list[str]:
        """What the host and the container said."""
        own = self.machines.console(pod.machine).splitlines() if self.machines is not None else []
        return [*pod.said, *own]

    def account_of(self, authorization: str) -> str:
        """Return whose key it is: `account`, a pod's id, or nobody's."""
        key = authorization.removeprefix("Bearer ").strip()
        if key == KEY:
            return "account"
        with self.lock:
            return next((pod.id for pod in self.pods.values() if pod.key == key), "")


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _at(document: Any, path: str) -> str:
    """The value at a dotted path, as text."""
    for part in path.split("."):
        document = (
            document[int(part)]
            if isinstance(document, list) and part.isdigit() and int(part) < len(document)
            else (document.get(part) if isinstance(document, dict) else None)
        )
    return str(document)
