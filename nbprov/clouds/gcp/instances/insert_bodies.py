"""The body of a create in the API's JSON.

One machine (`instances.insert`) or several (`instances.bulkInsert`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nbprov.clouds.base import SSH_PORT_LABEL
from nbprov.clouds.gcp import labels
from nbprov.clouds.gcp.catalog.disk_types import disk_type
from nbprov.clouds.gcp.catalog.machine_types import DEVICES, machines
from nbprov.clouds.gcp.images import ComputeImage
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import Launch, OnShutdown
from nbprov.model.offers import Offer
from nbprov.model.places import Market

NETWORK_VARIABLE = "NBPROV_GCP_NETWORK"
SUBNETWORK_VARIABLE = "NBPROV_GCP_SUBNETWORK"
LEAST_RUN, MOST_RUN = 30, 120 * 24 * 3600
"""The limits of `maxRunDuration`, in seconds (page "Limit the runtime of a VM")."""
FAST_NETWORK = {
    "n2": 32,
    "n2d": 48,
    "c2": 30,
    "c2d": 56,
    "c3": 44,
    "c3d": 60,
    "c4": 48,
    "a2": 48,
    "g2": 48,
    "m3": 64,
}
"""Families with per-VM Tier_1 networking, and their smallest size in vCPUs (page "Configure per VM
Tier_1 networking performance")."""
_ATTACHED = re.compile(r"(?P<host>[a-z0-9-]+)\+(?P<count>\d+)x(?P<device>[A-Za-z0-9-]+)")
_API_NAMES = {device.name: device.api_name for device in DEVICES}
_OWN_DEVICES = ("a2-", "a3-", "a4-", "a4x-", "g2-", "g4-")
"""Machine families with accelerators of their own."""


@dataclass(frozen=True, slots=True)
class MachineShape:
    """A machine type with the accelerators that are attached to it."""

    machine_type: str
    device: str = ""
    count: int = 0

    @property
    def family(self) -> str:
        """The machine family: `n1`, `g2`."""
        return self.machine_type.partition("-")[0]

    @property
    def has_gpu(self) -> bool:
        """Whether the machine has accelerators, its own or attached."""
        return bool(self.device) or self.machine_type.startswith(_OWN_DEVICES)


def shape_of(instance_type: str) -> MachineShape:
    """Translate the type of a catalogue row into Google's terms.

    Raises
    ------
    CloudError
        `not_offered` for an accelerator that Compute Engine does not know under any name.

    Examples
    --------
    >>> shape_of("n1-standard-4+1xT4")
    MachineShape(machine_type='n1-standard-4', device='nvidia-tesla-t4', count=1)
    """
    found = _ATTACHED.fullmatch(instance_type)
    if found is None:
        if not re.fullmatch(r"[a-z][a-z0-9]*-[a-z0-9-]+", instance_type):
            raise CloudError(
                Failure(
                    Cause.NOT_OFFERED,
                    f"{instance_type!r} is not a machine type of Compute Engine",
                    "machine-type",
                )
            )
        return MachineShape(instance_type)
    device = _API_NAMES.get(found["device"])
    if device is None:
        raise CloudError(
            Failure(
                Cause.NOT_OFFERED,
                f"{found['device']} cannot be attached to a machine of Compute Engine",
                "accelerator",
            )
        )
    return MachineShape(found["host"], device, int(found["count"]))


def network() -> str:
    """Return the network of machines and rules, as a part of an address."""
    said = os.environ.get(NETWORK_VARIABLE, "").strip() or "default"
    return said if "/" in said else f"global/networks/{said}"


def ssh_port(launch: Launch) -> int:
    """Return the port of sshd: 22, or what the spec says about its own image."""
    said = launch.tags.get(SSH_PORT_LABEL, "")
    return int(said) if said.isdecimal() and 0 < int(said) < 65536 else 22


def wishes(launch: Launch, disk: str) -> dict[str, object]:
    """Return what distinguishes one create from another with the same token."""
    offer = launch.candidate.offer
    return {
        "zone": offer.zone,
        "type": offer.instance_type,
        "market": offer.market.value,
        "count": launch.count,
        "disk": f"{disk} {launch.disk_gb}",
        "image": launch.image,
        "poweroff": launch.on_shutdown.value,
    }


def properties(launch: Launch, image: ComputeImage) -> tuple[dict[str, Any], str]:
    """Build what all machines of a launch have in common (`instanceProperties`), and its
    fingerprint.
    """
    offer = launch.candidate.offer
    shape = shape_of(offer.instance_type)
    disk = disk_type(shape.machine_type, launch.disk_tier, offer.vcpus)
    fingerprint = labels.fingerprint(wishes(launch, disk))
    own_labels = labels.labels(launch, fingerprint)
    ends = launch.on_shutdown is OnShutdown.TERMINATE
    own_labels[labels.POWEROFF] = labels.DELETE if ends else "stop"
    body: dict[str, Any] = {
        "machineType": shape.machine_type,
        "labels": own_labels,
        "tags": {"items": [labels.owner_tag(launch.owner), labels.launch_tag(launch.token)]},
        "disks": [_disk(launch, image, disk, own_labels)],
        "networkInterfaces": [_interface(launch, offer)],
        "metadata": {"items": _metadata(launch, image, shape)},
        "scheduling": _scheduling(launch, shape),
        # No service account: the machine must not be able to change anything in the project.
        "serviceAccounts": [],
    }
    if shape.device:
        body["guestAccelerators"] = [
            {"acceleratorType": shape.device, "acceleratorCount": shape.count}
        ]
    if launch.network_best and (offer.vcpus or 0) >= FAST_NETWORK.get(shape.family, 10_000):
        body["networkPerformanceConfig"] = {"totalEgressBandwidthTier": "TIER_1"}
    return body, fingerprint


def one(launch: Launch, image: ComputeImage, project: str) -> tuple[dict[str, Any], str]:
    """Build the body of `instances.insert`, which takes addresses and not names."""
    body, fingerprint = properties(launch, image)
    zone = launch.candidate.offer.zone
    body["name"] = labels.names(launch)[0]
    body["machineType"] = f"zones/{zone}/machineTypes/{body['machineType']}"
    for disk in body["disks"]:
        disk["initializeParams"]["diskType"] = (
            f"zones/{zone}/diskTypes/{disk['initializeParams']['diskType']}"
        )
    for device in body.get("guestAccelerators", ()):
        device["acceleratorType"] = (
            f"projects/{project}/zones/{zone}/acceleratorTypes/{device['acceleratorType']}"
        )
    return body, fingerprint


def many(launch: Launch, image: ComputeImage) -> tuple[dict[str, Any], str]:
    """Build the body of `instances.bulkInsert`: all machines or none, with our names."""
    body, fingerprint = properties(launch, image)
    return {
        "count": str(launch.count),
        "minCount": str(launch.count),
        "perInstanceProperties": {name: {} for name in labels.names(launch)},
        "instanceProperties": body,
    }, fingerprint


def _disk(
    launch: Launch, image: ComputeImage, disk: str, own_labels: Mapping[str, str]
) -> dict[str, Any]:
    size = max(launch.disk_gb, image.disk_gb, 10)
    ours = {key: value for key, value in own_labels.items() if key in (labels.OWNER, labels.TOKEN)}
    parameters = {
        "sourceImage": image.link,
        "diskSizeGb": str(size),
        "diskType": disk,
        "labels": ours,
    }
    return {"boot": True, "autoDelete": True, "initializeParams": parameters}


def _interface(launch: Launch, offer: Offer) -> dict[str, Any]:
    found: dict[str, Any] = {"network": network()}
    if not launch.image or launch.network_best:
        # All of Google's own images have its network driver; a user's image may not.
        found["nicType"] = "GVNIC"
    found["accessConfigs"] = [{"name": "External NAT", "type": "ONE_TO_ONE_NAT"}]
    if subnetwork := os.environ.get(SUBNETWORK_VARIABLE, "").strip():
        found["subnetwork"] = (
            subnetwork if "/" in subnetwork else f"regions/{offer.region}/subnetworks/{subnetwork}"
        )
    return found


def _metadata(launch: Launch, image: ComputeImage, shape: MachineShape) -> list[dict[str, str]]:
    """Build the metadata.

    The start script, which Google runs at every boot, and no access for anyone else.
    """
    found = {
        "startup-script": launch.user_data(),
        "enable-oslogin": "FALSE",
        "block-project-ssh-keys": "TRUE",
        "serial-port-enable": "FALSE",
    }
    if shape.has_gpu and image.installs_driver:
        found["install-nvidia-driver"] = "True"
    return [{"key": key, "value": value} for key, value in found.items()]


def _scheduling(launch: Launch, shape: MachineShape) -> dict[str, Any]:
    spot = launch.candidate.offer.market is Market.SPOT
    action = "DELETE" if launch.on_shutdown is OnShutdown.TERMINATE else "STOP"
    found: dict[str, Any] = {
        "provisioningModel": "SPOT" if spot else "STANDARD",
        "automaticRestart": not spot,
    }
    if spot or shape.has_gpu:
        # Machines with GPUs and spot machines cannot be migrated while they run.
        found["onHostMaintenance"] = "TERMINATE"
    if launch.terminate_after is not None:
        seconds = min(MOST_RUN, max(LEAST_RUN, round(launch.terminate_after)))
        found["maxRunDuration"] = {"seconds": str(seconds)}
    if spot or launch.terminate_after is not None:
        found["instanceTerminationAction"] = action
    if launch.terminate_after is not None and action == "STOP" and _has_local_disk(shape):
        # Required for machines with local SSDs, and refused for all others.
        found["onInstanceStopAction"] = {"discardLocalSsd": True}
    return found


def _has_local_disk(shape: MachineShape) -> bool:
    return any(m.ssd_gib for m in machines() if m.name == shape.machine_type)


def device_need(offer: Offer) -> tuple[str, float]:
    """Return the accelerator of this offer by Google's name, and how many one machine takes.

    The result is empty and 0 for machines without one.
    """
    shape = shape_of(offer.instance_type)
    if shape.device:
        return shape.device, float(shape.count)
    known = next((m for m in machines() if m.name == shape.machine_type and m.device), None)
    if known is not None and known.device is not None:
        return known.device.api_name, known.count
    return _API_NAMES.get(offer.accelerator, ""), offer.accelerator_count
