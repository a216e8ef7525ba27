"""Additions to moto's EC2.

State transitions, hidden young machines, real machines, stock, spot, and security groups in use.

moto has neither transitions nor stock, and counts every security group as unused. Methods of its
backend are wrapped here; moto still renders their answers.
"""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

IMAGES = {
    # id: name, architecture, size of its disk in GB
    "ami-0a0000000000ubu24": (
        "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20261001",
        "x86_64",
        8,
    ),
    "ami-0b0000000000ubu24": (
        "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-arm64-server-20261001",
        "arm64",
        8,
    ),
    "ami-0c0000000000dlami": (
        "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) 20261006",
        "x86_64",
        75,
    ),
    "ami-0e0000000000disks": ("an image of one's own with a disk for data", "x86_64", 8),
    "ami-0d0000000000dlami": (
        "Deep Learning ARM64 Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) 20261006",
        "arm64",
        75,
    ),
}
DATA_DISKS = {"ami-0e0000000000disks": "/dev/sdb"}
"""Images with a second disk, which outlives its machine unless the create says otherwise."""
PARAMETERS = {
    "/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id": (
        "ami-0a0000000000ubu24"
    ),
    "/aws/service/canonical/ubuntu/server/24.04/stable/current/arm64/hvm/ebs-gp3/ami-id": (
        "ami-0b0000000000ubu24"
    ),
    "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id": (
        "ami-0c0000000000dlami"
    ),
    "/aws/service/deeplearning/ami/arm64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id": (
        "ami-0d0000000000dlami"
    ),
}


def prepare_moto() -> bool:
    """Set what moto reads when it is imported: few images, and refusal of unknown types and
    images.

    Returns
    -------
    bool
        Whether it was imported for the first time.
    """
    os.environ["MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION"] = "true"
    os.environ["MOTO_ENABLE_AMI_VALIDATION"] = "true"
    if "moto.ec2.models" in sys.modules:
        return False
    rows = [
        {
            "ami_id": one,
            "state": "available",
            "public": True,
            "owner_id": "099720109477",
            "image_location": f"amazon/{name}",
            "sriov": "simple",
            "root_device_type": "ebs",
            "root_device_name": "/dev/sda1",
            "description": name,
            "image_type": "machine",
            "platform": None,
            "architecture": arch,
            "name": name,
            "virtualization_type": "hvm",
            "hypervisor": "xen",
        }
        for one, (name, arch, _) in IMAGES.items()
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
        json.dump(rows, file)
    os.environ["MOTO_AMIS_PATH"] = file.name
    try:
        import moto.ec2.models  # noqa: F401 (read now, while the file is there)
    finally:
        Path(file.name).unlink()
    return True


@dataclass
class Body:
    """The state behind one instance."""

    instance: Any
    machine: str = ""
    born: float = field(default_factory=time.monotonic)
    boot: float = 0.0
    hidden: float = 0.0
    fault: str = ""
    ending: float = 0.0
    ended_by: tuple[str, str] = ("", "")
    released: bool = False
    odd: str = ""


class World:
    """All instances of the double, and its settings.

    Every method is called under the server's lock.
    """

    def __init__(self, machines: Any = None) -> None:
        self.machines = machines
        self.lock = threading.RLock()
        self.bodies: dict[str, Body] = {}
        self.stock: list[dict[str, Any]] = []
        self.settings: dict[str, Any] = {
            "page": 0,
            "empty_pages": 0,
            "hide": 0.0,
            "end": 0.0,
            "boot": 0.0,
            "price": 0.5,
            "on_demand": {},
            "quotas": {},
            "scores": {},
            "answer": 0.0,
        }
        self.busy = False
        self.next_fault = ""
        self.next_seconds = 0.0

    def install(self) -> None:
        """Wrap moto's backend."""
        from moto.ec2.models import EC2Backend
        from moto.ec2.models.amis import Ami

        world, run, reservations, drop = (
            self,
            EC2Backend.run_instances,
            EC2Backend.all_reservations,
            EC2Backend.delete_security_group,
        )
        subnets = EC2Backend.create_subnet
        mappings = Ami.block_device_mappings.fget

        def block_device_mappings(self: Any) -> Any:
            found = mappings(self)
            found[0]["Ebs"]["VolumeSize"] = IMAGES[self.id][2] if self.id in IMAGES else 15
            if self.id in DATA_DISKS:
                more = {
                    "VolumeSize": 5,
                    "DeleteOnTermination": False,
                    "VolumeType": "gp3",
                    "SnapshotId": found[0]["Ebs"]["SnapshotId"],
                }
                found.append({"DeviceName": DATA_DISKS[self.id], "Ebs": more})
            return found

        def run_instances(self: Any, *args: Any, **more: Any) -> Any:
            made = run(self, *args, **more)
            for instance in made.instances:
                world.born(instance, instance.user_data)
            return made

        def create_subnet(self: Any, vpc_id: str, *args: Any, **more: Any) -> Any:
            made = subnets(self, vpc_id, *args, **more)
            if str(self.get_vpc(vpc_id).is_default).lower() != "true":
                made.default_for_az = made.map_public_ip_on_launch = False
            return made

        def all_reservations(self: Any, *args: Any, **more: Any) -> Any:
            world.refresh_all()
            found = reservations(self, *args, **more)
            for one in found:
                one.instances = [i for i in one.instances if not world.is_hidden(i.id)]
            return [one for one in found if one.instances]

        def delete_security_group(self: Any, name: Any = None, group_id: Any = None) -> Any:
            world.refresh_all()
            used = {
                g.id
                for b in world.bodies.values()
                if b.instance.state != "terminated"
                for g in b.instance.security_groups
            }
            if group_id in used:
                raise _error("DependencyViolation", f"resource {group_id} has a dependent object")
            return drop(self, name, group_id)

        Ami.block_device_mappings = property(block_device_mappings)
        EC2Backend.create_subnet = create_subnet
        EC2Backend.run_instances = run_instances
        EC2Backend.all_reservations = all_reservations
        EC2Backend.delete_security_group = delete_security_group
        EC2Backend.start_instances = lambda self, ids: world.start(
            self.get_multi_instances_by_id(ids)
        )
        EC2Backend.stop_instances = lambda self, ids: world.stop(
            self.get_multi_instances_by_id(ids)
        )
        EC2Backend.terminate_instances = lambda self, ids: world.terminate(
            self.get_multi_instances_by_id(ids)
        )

    # ------------------------------------------------------------ lifecycle of an instance

    def born(self, instance: Any, user_data: Any) -> None:
        """Add a new pending instance, with a real machine behind it if there are any."""
        now = time.monotonic()
        body = self.bodies[instance.id] = Body(
            instance, boot=now + self.settings["boot"], fault=self.next_fault
        )
        body.hidden = now + (self.next_seconds if body.fault == "hide" else self.settings["hide"])
        self._set(instance, "pending", 0)
        if instance.lifecycle == "spot":
            instance.spot_instance_request_id = f"sir-{secrets.token_hex(4)}"
        if self.machines is not None and body.fault not in ("half_made", "late_failure"):
            script = base64.b64decode(str(user_data)).decode() if user_data else ""
            behaviour = instance.instance_initiated_shutdown_behavior
            name, memory = _gpus(instance.instance_type)
            body.machine = self.machines.create(
                user_data=script,
                on_poweroff=behaviour,
                node=instance.ami_launch_index,
                gpus=name,
                gpu_memory_gib=memory,
            )

    def is_hidden(self, instance: str) -> bool:
        """Whether listings do not show it yet."""
        body = self.bodies.get(instance)
        return not self.busy and body is not None and time.monotonic() < body.hidden

    def refresh_all(self) -> None:
        """Bring all instances up to date, except while moto reads its own listing to end one."""
        if self.busy:
            return
        self.busy = True
        try:
            for body in self.bodies.values():
                self._refresh(body)
        finally:
            self.busy = False

    def start(self, instances: list[Any]) -> Any:
        """Start stopped instances; like EC2, refuse all if one is in another state."""
        for i in instances:
            if i.state not in ("stopped", "running", "pending"):
                raise _error(
                    "IncorrectInstanceState",
                    f"The instance '{i.id}' is not in a state from which it can be started.",
                )
        changed = []
        for i in instances:
            before = _copy(i)
            if i.state == "stopped":
                body = self.bodies[i.id]
                for nic in i.nics.values():
                    nic.start()
                self._set(i, "pending", 0)
                body.boot = time.monotonic() + self.settings["boot"]
                if body.machine:
                    self.machines.start(body.machine)
            changed.append((i, before))
        return changed

    def stop(self, instances: list[Any]) -> Any:
        """Stop what runs."""
        for i in instances:
            if i.lifecycle == "spot":
                words = (
                    f"You can't stop the Spot Instance '{i.id}' because it is associated "
                    "with a one-time Spot Instance request."
                )
                raise _error("UnsupportedOperation", words)
            if i.state not in ("running", "stopping", "stopped"):
                raise _error(
                    "IncorrectInstanceState",
                    f"This instance '{i.id}' is not in a state from which it can be stopped.",
                )
        changed = []
        for i in instances:
            before = _copy(i)
            if i.state == "running":
                self._set(
                    i,
                    "stopping",
                    64,
                    "Client.UserInitiatedShutdown",
                    "Client.UserInitiatedShutdown: User initiated shutdown",
                )
                if self.bodies[i.id].machine:
                    self.machines.stop(self.bodies[i.id].machine)
            changed.append((i, before))
        return changed

    def terminate(self, instances: list[Any]) -> Any:
        """End instances; ended ones stay so."""
        changed = []
        for i in instances:
            before = _copy(i)
            self.end(
                i,
                "Client.UserInitiatedShutdown",
                "Client.UserInitiatedShutdown: User initiated shutdown",
            )
            changed.append((i, before))
        return changed

    def end(self, instance: Any, code: str, words: str) -> None:
        """Begin to end an instance, with a reason."""
        body = self.bodies[instance.id]
        if instance.state not in ("shutting-down", "terminated"):
            body.ending, body.ended_by = time.monotonic() + self.settings["end"], (code, words)
            self._set(instance, "shutting-down", 32, code, words)

    def _refresh(self, body: Body) -> None:
        now, i = time.monotonic(), body.instance
        if body.odd and i.state not in ("shutting-down", "terminated"):
            self._set(i, body.odd, 16)
        elif i.state == "shutting-down":
            self._ended(body, now)
        elif i.state == "stopping" and (
            not body.machine or self.machines.state(body.machine) == "stopped"
        ):
            i.stop()
            self._set(i, "stopped", 80, i.state_reason.code, i.state_reason.message)
        elif i.state == "pending" and body.fault == "late_failure":
            code = "Server.InsufficientInstanceCapacity"
            self.end(i, code, f"{code}: Insufficient capacity to satisfy instance request")
        elif i.state in ("pending", "running"):
            self._alive(body, now)

    def _alive(self, body: Body, now: float) -> None:
        i, code = body.instance, "Client.InstanceInitiatedShutdown"
        words = f"{code}: Instance initiated shutdown"
        if body.machine:
            state = self.machines.state(body.machine)
            if state in ("ending", "gone"):
                self.end(i, code, words)
            elif state in ("stopping", "stopped"):
                self._set(i, "stopping", 64, code, words)
            if state != "running":
                return
        if i.state == "pending" and now >= body.boot and self._has_address(body):
            self._set(i, "running", 16)

    def _has_address(self, body: Body) -> bool:
        """Put the machine's real address on the instance; return whether there is one."""
        i = body.instance
        if body.fault == "half_made":
            for nic in i.nics.values():
                nic.public_ip = None
            return True
        if not body.machine:
            return True
        host, port = self.machines.address(body.machine)
        if not port:
            return False
        i.nics[0].public_ip = host
        named = {tag["key"] for tag in i.get_tags()}
        login = {} if "nbprov-login" in named else {"nbprov-login": self.machines.login()}
        i.add_tags({"nbprov-ssh-port": str(port), **login})
        return True

    def _ended(self, body: Body, now: float) -> None:
        i = body.instance
        if now < body.ending:
            return
        if body.machine and self.machines.state(body.machine) != "gone":
            if not body.released:
                self.machines.terminate(body.machine)
                body.released = True
            if self.machines.state(body.machine) != "gone":
                return
        i.terminate()
        self._set(i, "terminated", 48, *body.ended_by)

    @staticmethod
    def _set(instance: Any, name: str, number: int, code: str = "", words: str = "") -> None:
        from moto.ec2.models.instances import StateReason

        instance._state.name, instance._state.code = name, number
        instance._reason = (
            f"User initiated ({time.strftime('%Y-%m-%d %H:%M:%S GMT', time.gmtime())})"
            if code.startswith("Client.User")
            else ""
        )
        instance.state_reason = StateReason(words, code) if code else StateReason()

    def open_spot_request(self, account: str, region: str, request: str) -> None:
        """Keep a spot request waiting for a machine, because moto fills all at once."""
        from moto.ec2.models import ec2_backends

        ec2_backends[account][region].spot_instance_requests[request].state = "open"

    # ------------------------------------------------------------ stock

    def short(self, where: dict[str, str], count: int) -> bool:
        """Whether the scripted stock does not suffice for this many machines."""
        self.refresh_all()
        for rule in self.stock:
            if any(
                rule.get(key) not in (None, "", where[key])
                for key in ("region", "zone", "type", "market")
            ):
                continue
            same = [
                b
                for b in self.bodies.values()
                if self._fits(b.instance, rule) and b.instance.state in ("pending", "running")
            ]
            if rule["left"] - len(same) < count:
                return True
        return False

    def place_without_stock(self, ids: Iterable[str]) -> dict[str, str] | None:
        """The first place in which stock does not suffice to start these that are stopped."""
        self.refresh_all()
        stopped = [
            _place(self.bodies[one].instance)
            for one in ids
            if one in self.bodies and self.bodies[one].instance.state == "stopped"
        ]
        return next((one for one in stopped if self.short(one, stopped.count(one))), None)

    def _fits(self, i: Any, rule: dict[str, Any]) -> bool:
        return all(rule.get(key) in (None, "", value) for key, value in _place(i).items())


def _place(i: Any) -> dict[str, str]:
    return {
        "region": i.region_name,
        "zone": zone_id(i.region_name, i.placement.zone),
        "type": i.instance_type,
        "market": "spot" if i.lifecycle == "spot" else "on-demand",
    }


def zone_id(region: str, name: str) -> str:
    """moto's id of a zone."""
    from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend

    return next(
        (z.zone_id for z in RegionsAndZonesBackend.zones.get(region, []) if z.name == name), name
    )


def _gpus(instance_type: str) -> tuple[str, float]:
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    devices = INSTANCE_TYPES.get(instance_type, {}).get("GpuInfo", {}).get("Gpus", [])
    if not devices:
        return "", 0.0
    one = devices[0]
    return f"{re.sub(r'[^A-Za-z0-9]', '', one['Name'])}:{one['Count']}", one["MemoryInfo"][
        "SizeInMiB"
    ] / 1024


def _copy(instance: Any) -> Any:
    import copy

    return copy.copy(instance._state)


def _error(code: str, message: str) -> Exception:
    from moto.ec2.exceptions import EC2ClientError

    return EC2ClientError(code, message)
