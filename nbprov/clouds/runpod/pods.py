"""Translation of a launch into the body of a create, and of a listed pod into an instance."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from nbprov.clouds.api_keys import KeyAccess
from nbprov.clouds.base import LOGIN_LABEL, SSH_PORT_LABEL
from nbprov.clouds.pricing.region_fetch import price
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import Instance, InstanceState, Launch
from nbprov.model.places import Place
from nbprov.model.resources import DEFAULT_DISK_GB

from . import pod_entrypoint
from .images import PREFIX, Container
from .merged_catalog import Centre
from .type_ids import CpuType, GpuType, TypeCatalog

NAME = "runpod"
LOGIN = "root"
SSH_PORT = 22
LEAST_VOLUME_GB = 10
"""RunPod's minimum (openapi.json, PersistentMount)."""
CONTAINER_GB = 50
"""The container's own disk beside a volume: RunPod's default, for the image and what `apt` writes
outside the home. It is wiped at a stop."""
GB_A_VCPU = 10
"""The most GB of disk for each vCPU of CPU pods (the smaller of the flavours' limits, as public
clients of 2026 report them)."""
MOST_PORTS = 60
"""More open ports than this are a mistake, because RunPod maps every port one by one."""
STATES = {
    "PROVISIONING": InstanceState.PENDING,
    "STARTING": InstanceState.PENDING,
    "RUNNING": InstanceState.RUNNING,
    "EXITED": InstanceState.STOPPED,
    "TERMINATED": InstanceState.GONE,
}
NO_GPU = "the pod came back without its GPU: another took it while the pod was stopped"
_TOKEN = re.compile(r"nbprov-.*-([0-9a-f]{32})")


def pod_name(launch: Launch) -> str:
    """Return the unique name of a pod.

    The cluster's name for people, and the token to find it again.

    Examples
    --------
    >>> pod_name(Launch("0" * 32, "me", "run", "Élan 7 run", None, 1, 10))
    'nbprov-lan-7-ru-00000000000000000000000000000000'
    """
    return f"nbprov-{cleaned(launch.name)[:8].strip('-') or 'pod'}-{launch.token}"


def cleaned(text: str) -> str:
    """Return a text that every console can show: lower-case letters, digits and dashes.

    Examples
    --------
    >>> cleaned("My Cluster_1!"), cleaned("…")
    ('my-cluster-1', '')
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def label_variable(name: str) -> str:
    """Return the environment variable that carries a label.

    Examples
    --------
    >>> label_variable("team/cost-centre")
    'NBPROV_LABEL_TEAM_COST_CENTRE'
    """
    return "NBPROV_LABEL_" + re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_")


def secret_name(owner: str, token: str) -> str:
    """Return the name of the secret with a launch's start script, with the owner and the launch in
    it.
    """
    return f"nbprov_{hashlib.sha256(owner.encode()).hexdigest()[:16]}_{token}"


def placeholder(name: str) -> str:
    """Return the reference to a secret in the environment (openapi.json, Secret).

    Examples
    --------
    >>> placeholder("a")
    '{{ RUNPOD_SECRET_a }}'
    """
    return f"{{{{ RUNPOD_SECRET_{name} }}}}"


def asked_image(launch: Launch) -> str:
    """Return the container that a launch asks for, as `docker:IMAGE`; empty for the default one.

    A pod is a container, so the spec's container is the pod's own image.
    """
    request = launch.candidate.request
    inner = request.image.docker if request is not None and request.image is not None else ""
    return launch.image or (f"{PREFIX}{inner}" if inner else "")


def body(
    launch: Launch,
    kind: GpuType | CpuType,
    gpu_id: str,
    centres: list[str],
    container: Container,
    access: KeyAccess,
    start_value: str,
) -> dict[str, Any]:
    """Build the body of a create.

    Parameters
    ----------
    centres
        Data centres to choose from; empty for any.
    start_value
        The start script as the environment carries it: a secret's reference, or the packed script.
    """
    made: dict[str, Any] = {
        "name": pod_name(launch),
        "image": container.image,
        "cloud": kind.cloud if isinstance(kind, GpuType) else "SECURE",
        "args": pod_entrypoint.arguments(access.base),
        "ports": _ports(launch),
        "env": {**environment(launch, kind, access), pod_entrypoint.START_VARIABLE: start_value},
    }
    if centres:
        made["dataCenterIds"] = centres
    if isinstance(kind, GpuType):
        made["gpu"] = {
            "id": gpu_id,
            "count": kind.count,
            **({"minCudaVersion": container.min_cuda} if container.min_cuda else {}),
        }
        made["disk"] = CONTAINER_GB
        made["mounts"] = {
            "persistent": {
                "size": max(LEAST_VOLUME_GB, launch.disk_gb),
                "path": pod_entrypoint.VOLUME,
            }
        }
    else:
        made["cpu"] = {"id": kind.id, "vcpuCount": kind.vcpus}
        # A spec without a disk size does not mean 256 GB on a pod that can have 20.
        most = GB_A_VCPU * kind.vcpus if launch.disk_gb == DEFAULT_DISK_GB else launch.disk_gb
        made["disk"] = max(1, min(launch.disk_gb, most))
    return made


def environment(launch: Launch, kind: GpuType | CpuType, access: KeyAccess) -> dict[str, str]:
    """Return the environment of a pod that describes its launch.

    RunPod's lists show it, so it holds no secret.
    """
    offer = launch.candidate.offer
    told = {
        "NBPROV_OWNER": launch.owner,
        "NBPROV_TOKEN": launch.token,
        "NBPROV_RUN": launch.run_id,
        "NBPROV_NAME": launch.name,
        "NBPROV_TYPE": offer.instance_type,
        "NBPROV_REGION": offer.region,
        "NBPROV_ZONE": offer.zone,
        "NBPROV_GPUS": str(kind.count if isinstance(kind, GpuType) else 0),
        "NBPROV_NODE": "0",
        "NBPROV_LOGIN": launch.tags.get(LOGIN_LABEL, ""),
        "NBPROV_SSH_PORT": str(ssh_port(launch.tags.get(SSH_PORT_LABEL, ""))),
        "NBPROV_API": "" if access.is_usual else access.base,
        "PUBLIC_KEY": launch.public_key.strip(),
    }
    labels = {
        label_variable(name): value
        for name, value in launch.tags.items()
        if not name.startswith("nbprov-")
    }
    return {name: _plain(value) for name, value in {**labels, **told}.items() if value}


def ssh_port(said: str) -> int:
    """Return the port of sshd in the container, from the label; 22 if the label is not a port.

    Examples
    --------
    >>> ssh_port("2222"), ssh_port(""), ssh_port("99999")
    (2222, 22, 22)
    """
    return int(said) if said.isascii() and said.isdigit() and 0 < int(said) < 65536 else SSH_PORT


def _plain(value: str) -> str:
    # `{{ … }}` is a RunPod template: a label must not read a secret of the account.
    return re.sub(r"[\x00-\x1f\x7f]", " ", value).replace("{{", "{ {")


def _ports(launch: Launch) -> list[str]:
    own = ssh_port(launch.tags.get(SSH_PORT_LABEL, ""))
    wanted = dict.fromkeys(
        (
            own,
            *(
                port
                for low, high in launch.ports
                for port in range(low, min(high, low + MOST_PORTS) + 1)
            ),
        )
    )
    if len(wanted) > MOST_PORTS:
        raise CloudError(
            Failure(
                Cause.BAD_REQUEST,
                f"RunPod maps every port separately: more than {MOST_PORTS} cannot be opened",
            )
        )
    return [f"{port}/tcp" for port in wanted]


def token_of(pod: Mapping[str, Any]) -> str:
    """Return the token in a pod's environment or name; empty for pods that are not nbprov's."""
    told = _env(pod).get("NBPROV_TOKEN", "")
    named = _TOKEN.fullmatch(str(pod.get("name") or ""))
    return told or (named[1] if named else "")


def owner_of(pod: Mapping[str, Any]) -> str:
    """Return the owner of a pod; empty for pods that are not nbprov's."""
    return _env(pod).get("NBPROV_OWNER", "")


def is_over(pod: Mapping[str, Any]) -> bool:
    """Whether a listed pod is deleted already."""
    return pod.get("status") == "TERMINATED"


def is_cpu(pod: Mapping[str, Any]) -> bool:
    """Whether a pod has no GPUs, and so keeps no disk when it stops."""
    return isinstance(pod.get("cpu"), Mapping) or (
        not isinstance(pod.get("gpu"), Mapping) and _env(pod).get("NBPROV_GPUS", "0") == "0"
    )


def lacks_gpus(pod: Mapping[str, Any]) -> bool:
    """Whether a pod has fewer GPUs than it was created with.

    RunPod starts a stopped pod without them if another pod took them meanwhile.
    """
    asked = _env(pod).get("NBPROV_GPUS", "")
    wanted = int(asked) if asked.isdigit() else 0
    if wanted == 0:
        return False
    gpu = pod.get("gpu")
    has = gpu.get("count") if isinstance(gpu, Mapping) else 0
    return not isinstance(has, (int, float)) or has < wanted


def instance(pod: Mapping[str, Any], kinds: TypeCatalog) -> Instance:
    """Translate a pod of the listing into an instance."""
    env = _env(pod)
    host, port, user = _address(pod, env)
    state, reason = _state(pod, reachable=bool(host))
    centre = str(pod.get("dataCenterId") or "") or env.get("NBPROV_ZONE", "")
    told_place = centre == env.get("NBPROV_ZONE") or not env.get("NBPROV_ZONE")
    region = (
        env.get("NBPROV_REGION", "")
        if told_place and env.get("NBPROV_REGION")
        else Centre(centre).region
    )
    return Instance(
        cloud=NAME,
        id=str(pod.get("id")),
        token=token_of(pod),
        owner=owner_of(pod),
        place=Place(NAME, region, centre),
        instance_type=env.get("NBPROV_TYPE") or _type(pod, kinds),
        state=state,
        host=host if state is InstanceState.RUNNING else "",
        port=port if state is InstanceState.RUNNING else 0,
        private_host=_private(pod),
        user=env.get("NBPROV_LOGIN") or user or LOGIN,
        node=0,
        name=env.get("NBPROV_NAME", ""),
        launched_at=_instant(pod.get("startedAt")) or _instant(pod.get("createdAt")),
        reason=reason,
        hourly=price(pod.get("cost")),
        mapped=_mapped(pod) if state is InstanceState.RUNNING else (),
    )


def _env(pod: Mapping[str, Any]) -> dict[str, str]:
    said = pod.get("env")
    return (
        {str(name): str(value) for name, value in said.items()} if isinstance(said, Mapping) else {}
    )


def _state(pod: Mapping[str, Any], *, reachable: bool) -> tuple[InstanceState, str]:
    status = str(pod.get("status") or "")
    if status == "ERROR":
        # Its compute is released and it may be started again, but only its cost tells so.
        paid = price(pod.get("cost")) is not None
        return (
            InstanceState.UNKNOWN if paid else InstanceState.STOPPED,
            "RunPod: the container has an error that it cannot recover from",
        )
    state = STATES.get(status, InstanceState.UNKNOWN)
    if state is InstanceState.RUNNING:
        if lacks_gpus(pod):
            return state, NO_GPU
        if not reachable:
            # RunPod reports RUNNING from creation on, several polls before a port is mapped
            # (recorded answers of 2026-08).
            return InstanceState.PENDING, ""
    return state, f"its status at RunPod is {status!r}" if state is InstanceState.UNKNOWN else ""


def _address(pod: Mapping[str, Any], env: Mapping[str, str]) -> tuple[str, int, str]:
    """Return host, port and user of sshd.

    The direct address of port 22, or the mapping of another port.

    RunPod's ssh proxy is not used, because it supports neither file transfer nor tunnels.
    """
    wanted = ssh_port(env.get("NBPROV_SSH_PORT", ""))
    ssh = pod.get("ssh")
    direct = ssh.get("direct") if isinstance(ssh, Mapping) else None
    if (
        wanted == SSH_PORT
        and isinstance(direct, Mapping)
        and direct.get("host")
        and isinstance(direct.get("port"), int)
    ):
        return str(direct["host"]), int(direct["port"]), str(direct.get("username") or "")
    return next(
        ((host, outside, "") for port, host, outside in _mapped(pod) if port == wanted), ("", 0, "")
    )


def _mapped(pod: Mapping[str, Any]) -> tuple[tuple[int, str, int], ...]:
    """Return the ports that are open to the internet, with their public host and number.

    Those of type http are left out: they are reached only through RunPod's proxy.
    """
    runtime = pod.get("runtime")
    said = runtime.get("ports") if isinstance(runtime, Mapping) else None
    open_ones = (
        [one for one in said if isinstance(one, Mapping) and one.get("type") == "tcp"]
        if isinstance(said, list)
        else []
    )
    numbered = [
        one
        for one in open_ones
        if isinstance(one.get("private"), int) and isinstance(one.get("public"), int)
    ]
    return tuple(
        sorted(
            (one["private"], str(one["ip"]), one["public"])
            for one in numbered
            if one.get("ip") and one["public"]
        )
    )


def _private(pod: Mapping[str, Any]) -> str:
    network = pod.get("globalNetworking")
    return str(network.get("ip") or "") if isinstance(network, Mapping) else ""


def _type(pod: Mapping[str, Any], kinds: TypeCatalog) -> str:
    gpu, cpu = pod.get("gpu"), pod.get("cpu")
    if isinstance(gpu, Mapping):
        name = kinds.name(str(gpu.get("id"))) or gpu.get("id")
        return f"{gpu.get('count', 0)}x_{name}_{pod.get('cloud') or 'SECURE'}"
    return (
        f"{cpu.get('id')}-{cpu.get('vcpuCount')}-{cpu.get('memory')}"
        if isinstance(cpu, Mapping)
        else ""
    )


def _instant(said: object) -> float:
    try:
        return datetime.fromisoformat(str(said)).timestamp() if said else 0.0
    except ValueError:
        return 0.0
