"""Translation of a launch into a create, and of a listed pod into an instance."""

from __future__ import annotations

import json
from typing import Any

import pytest
from runpod_launches import PRIVATE, a_launch, an_offer
from runpod_schema import CREATE_POD, faults_of

from nbprov.clouds.api_keys import KeyAccess
from nbprov.clouds.base import LOGIN_LABEL, SSH_PORT_LABEL
from nbprov.clouds.runpod import pod_entrypoint, pods
from nbprov.clouds.runpod.images import CUDA, CUDA_VERSION, PLAIN, ROCM, Container, container_for
from nbprov.clouds.runpod.merged_catalog import Centre
from nbprov.clouds.runpod.type_ids import TypeCatalog, read_type
from nbprov.model.failures import Cause, CloudError
from nbprov.model.launches import InstanceState, Launch
from nbprov.model.money import usd
from nbprov.model.resources import DEFAULT_DISK_GB, Image, Request

USUAL = KeyAccess("https://api.runpod.io", "rpa_KEY0123456789ABCDEF", "test")
# A pod as REST v2 returned it on 2026-08-20 (a public client's recorded payload without its keys),
# with our environment.
RECORDED: dict[str, Any] = {
    "actions": ["stop", "restart", "terminate"],
    "args": "",
    "cloud": "SECURE",
    "cost": 0.72,
    "createdAt": "2026-08-20T06:16:19.436Z",
    "cudaVersion": "13.0",
    "dataCenterId": "EU-RO-1",
    "disk": 30,
    "globalNetworking": {"enabled": False},
    "gpu": {"count": 1, "id": ("NVIDIA RTX PRO 4500 Blackwell")},
    "id": "5xpma5eg46tqjq",
    "image": "runpod/pytorch:1.0.7-cu1281-torch291-ubuntu2204",
    "locked": False,
    "mounts": {},
    "name": "nbprov-dev-" + "a" * 32,
    "ports": ["22/tcp"],
    "registry": None,
    "runtime": {
        "ports": [
            {"ip": "213.173.104.74", "private": 22, "public": 35558, "type": "tcp"},
            {"ip": "100.65.14.155", "private": 19123, "public": 60821, "type": "http"},
        ],
        "uptime": 3,
    },
    "ssh": {
        "direct": {
            "command": ("ssh root@213.173.104.74 -p 35558"),
            "host": "213.173.104.74",
            "port": 35558,
            "username": "root",
        },
        "proxy": {
            "command": "ssh x@ssh.runpod.io",
            "host": "ssh.runpod.io",
            "port": 22,
            "username": "x",
        },
    },
    "startedAt": "2026-08-20T06:16:19.43Z",
    "status": "RUNNING",
    "template": None,
    "env": {
        "NBPROV_OWNER": "me",
        "NBPROV_TOKEN": "a" * 32,
        "NBPROV_NAME": "dev",
        "NBPROV_TYPE": "1x_RTXPRO4500_SECURE",
        "NBPROV_REGION": "RO",
        "NBPROV_ZONE": "EU-RO-1",
        "NBPROV_GPUS": "1",
    },
}


def body(
    launch: Launch,
    centres: list[str] | None = None,
    value: str = "{{ RUNPOD_SECRET_x }}",
    access: KeyAccess = USUAL,
) -> dict[str, Any]:
    offer = launch.candidate.offer
    found = container_for(offer, pods.asked_image(launch))
    return pods.body(
        launch,
        read_type(offer.instance_type),
        "NVIDIA L40S",
        ["EU-CZ-1"] if centres is None else centres,
        found,
        access,
        value,
    )


def seen(**changes: Any) -> pods.Instance:
    return pods.instance({**RECORDED, **changes}, TypeCatalog())


def test_gpu_body_keeps_the_contract_and_holds_no_key() -> None:
    launch = a_launch(
        tags={"nbprov-owner": "owner-1", "team": "Vision & Sound", LOGIN_LABEL: "ubuntu"},
        ports=((8000, 8002), (22, 22)),
    )
    made = body(launch)
    assert faults_of(CREATE_POD, made) == []
    assert made["gpu"] == {"id": "NVIDIA L40S", "count": 1, "minCudaVersion": CUDA_VERSION}
    assert (made["cloud"], made["dataCenterIds"], made["image"]) == ("SECURE", ["EU-CZ-1"], CUDA)
    assert made["mounts"] == {"persistent": {"size": 20, "path": "/workspace"}}
    assert made["ports"] == ["22/tcp", "8000/tcp", "8001/tcp", "8002/tcp"]
    env = made["env"]
    assert (env["NBPROV_OWNER"], env["NBPROV_TOKEN"], env["NBPROV_LOGIN"]) == (
        "owner-1",
        launch.token,
        "ubuntu",
    )
    assert (env["NBPROV_LABEL_TEAM"], env["PUBLIC_KEY"]) == (
        "Vision & Sound",
        "ssh-ed25519 AAAATEST nbprov",
    )
    assert "NBPROV_API" not in env
    args = json.loads(made["args"])
    assert args["entrypoint"] == ["/bin/sh", "-c"]
    assert PRIVATE not in json.dumps(made)


def test_cpu_body_has_no_volume_and_a_disk_that_the_flavour_can_have() -> None:
    offer = an_offer("cpu5c-4-8")
    made = body(a_launch(offer, disk_gb=DEFAULT_DISK_GB))
    assert faults_of(CREATE_POD, made) == []
    assert made["cpu"] == {"id": "cpu5c", "vcpuCount": 4}
    assert (made["disk"], made["image"], "mounts" in made, "gpu" in made) == (
        40,
        PLAIN,
        False,
        False,
    )
    # explicitly requested, so RunPod itself refuses
    assert body(a_launch(offer, disk_gb=100))["disk"] == 100


def test_community_cloud_is_asked_for_by_the_type() -> None:
    made = body(a_launch(an_offer("2x_L40S_COMMUNITY", region="", zone="")), centres=[])
    assert (made["cloud"], made["gpu"]["count"], "dataCenterIds" in made) == ("COMMUNITY", 2, False)


def test_another_address_is_told_to_the_pod() -> None:
    made = body(a_launch(), access=KeyAccess("http://127.0.0.1:1", "k", "test", is_usual=False))
    assert made["env"]["NBPROV_API"] == "http://127.0.0.1:1"


def test_names_and_labels_are_cleaned() -> None:
    launch = a_launch(name="Élan / 7\nrun")
    assert pods.pod_name(launch) == f"nbprov-lan-7-ru-{launch.token}"
    assert pods.pod_name(a_launch(name="…", token="b" * 32)) == "nbprov-pod-" + "b" * 32
    env = pods.environment(
        a_launch(tags={"a b/c": "x\ny {{ RUNPOD_SECRET_theirs }}"}),
        read_type("1x_L40S_SECURE"),
        USUAL,
    )
    assert env["NBPROV_LABEL_A_B_C"] == "x y { { RUNPOD_SECRET_theirs }}"


def test_too_many_ports_are_refused() -> None:
    with pytest.raises(CloudError, match="more than 60"):
        body(a_launch(ports=((1000, 60000),)))


@pytest.mark.parametrize(
    ("said", "port"), [("2222", 2222), ("", 22), ("0", 22), ("x", 22), ("70000", 22)]
)
def test_port_of_sshd_is_the_labels(said: str, port: int) -> None:
    made = body(a_launch(tags={SSH_PORT_LABEL: said}))
    assert made["ports"][0] == f"{port}/tcp"
    assert made["env"]["NBPROV_SSH_PORT"] == str(port)


def test_container_of_an_offer() -> None:
    mi300 = an_offer("1x_MI300X_SECURE")
    assert container_for(mi300) == Container(ROCM)
    assert container_for(an_offer("cpu5c-2-4")) == Container(PLAIN)
    assert container_for(an_offer(), "docker:ghcr.io/me/it:1") == Container("ghcr.io/me/it:1")
    asked = a_launch()
    own = Request(image=Image(docker="python:3.12"))
    with_own = a_launch(candidate=pods_candidate(asked, own))
    assert body(with_own)["image"] == "python:3.12"
    for wrong in ("ami-123", "docker:"):
        with pytest.raises(CloudError) as raised:
            container_for(an_offer(), wrong)
        assert raised.value.failure.cause is Cause.BAD_REQUEST


def pods_candidate(launch: Launch, request: Request) -> Any:
    from dataclasses import replace

    return replace(launch.candidate, request=request)


def test_recorded_pod_is_read() -> None:
    one = seen()
    assert (one.id, one.token, one.owner, one.name) == ("5xpma5eg46tqjq", "a" * 32, "me", "dev")
    assert (one.state, one.host, one.port, one.user) == (
        InstanceState.RUNNING,
        "213.173.104.74",
        35558,
        "root",
    )
    assert (str(one.place), one.instance_type, one.hourly) == (
        "runpod/RO/EU-RO-1",
        "1x_RTXPRO4500_SECURE",
        usd("0.72"),
    )
    assert one.launched_at == pytest.approx(1787206579.43)


def test_pod_that_says_running_before_its_port_is_mapped_is_pending() -> None:
    one = seen(ssh={"proxy": RECORDED["ssh"]["proxy"], "direct": None}, runtime=None)
    assert (one.state, one.host, one.port) == (InstanceState.PENDING, "", 0)


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("PROVISIONING", InstanceState.PENDING),
        ("STARTING", InstanceState.PENDING),
        ("EXITED", InstanceState.STOPPED),
        ("TERMINATED", InstanceState.GONE),
        ("MIGRATING", InstanceState.UNKNOWN),
        (None, InstanceState.UNKNOWN),
    ],
)
def test_states(status: str | None, state: InstanceState) -> None:
    one = seen(status=status)
    assert one.state is state
    assert (one.host, one.port) == ("", 0)


def test_error_is_stopped_where_it_costs_nothing_and_unknown_where_it_does() -> None:
    assert seen(status="ERROR", cost=0.0).state is InstanceState.STOPPED
    assert seen(status="ERROR").state is InstanceState.UNKNOWN
    assert "error" in seen(status="ERROR").reason


@pytest.mark.parametrize("gpu", [{"count": 0, "id": "NVIDIA L40S"}, {"id": "NVIDIA L40S"}, None])
def test_pod_without_its_gpu_is_named(gpu: Any) -> None:
    one = seen(gpu=gpu)
    assert (one.state, one.reason) == (InstanceState.RUNNING, pods.NO_GPU)


def test_open_ports_are_told_with_their_numbers_outside() -> None:
    mapped = [
        {"ip": "213.173.104.74", "private": 8000, "public": 41003, "type": "tcp"},
        {"private": 9, "type": "tcp"},
        "odd",
    ]
    one = seen(runtime={"uptime": 3, "ports": [*mapped, *RECORDED["runtime"]["ports"]]})
    assert one.mapped == ((22, "213.173.104.74", 35558), (8000, "213.173.104.74", 41003)), (
        "what RunPod's proxy alone reaches is none of them"
    )


def test_another_ssh_port_is_found_among_the_mapped_ones() -> None:
    env = {**RECORDED["env"], "NBPROV_SSH_PORT": "2222", "NBPROV_LOGIN": "ubuntu"}
    mapped = [
        {"ip": "213.173.104.74", "private": 2222, "public": 41111, "type": "tcp"},
        *RECORDED["runtime"]["ports"],
    ]
    one = seen(env=env, runtime={"uptime": 3, "ports": mapped})
    assert (one.host, one.port, one.user) == ("213.173.104.74", 41111, "ubuntu")
    assert seen(env=env).state is InstanceState.PENDING


@pytest.mark.parametrize(
    "odd",
    [
        {"env": None},
        {"ssh": None},
        {"runtime": []},
        {"gpu": 3},
        {"cost": "?"},
        {"createdAt": None, "startedAt": "x"},
    ],
)
def test_odd_documents_do_not_break_the_reading(odd: dict[str, Any]) -> None:
    assert seen(**odd).id == "5xpma5eg46tqjq"


def test_pod_that_moved_is_where_it_is() -> None:
    assert str(seen(dataCenterId="US-TX-3").place) == f"runpod/{Centre('US-TX-3').region}/US-TX-3"


def test_token_is_read_from_the_name_where_the_environment_is_gone() -> None:
    assert pods.token_of({"name": RECORDED["name"], "env": {}}) == "a" * 32
    assert pods.owner_of({"name": RECORDED["name"], "env": {}}) == ""
    assert pods.token_of({"name": "nbprov-dev-short"}) == ""


def test_secret_names_are_of_one_owner_and_launch() -> None:
    name = pods.secret_name("owner-1", "a" * 32)
    assert name != pods.secret_name("owner-2", "a" * 32)
    assert len(name) < 191
    assert pods.placeholder(name) == "{{ RUNPOD_SECRET_" + name + " }}"
    assert pod_entrypoint.packed("x") == "eA=="
