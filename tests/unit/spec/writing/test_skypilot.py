"""A spec as SkyPilot's task YAML: its fields and forms only, the same requests, what is lost."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from nbprov.model.resources import Request
from nbprov.spec import parse, to_skypilot
from nbprov.spec.writing.skypilot import CLOUDS

TASK_FIELDS = {
    "name",
    "resources",
    "num_nodes",
    "setup",
    "run",
    "workdir",
    "envs",
    "secrets",
    "file_mounts",
    "inputs",
    "config",
}
RESOURCE_FIELDS = {
    "infra",
    "accelerators",
    "accelerator_args",
    "instance_type",
    "cpus",
    "memory",
    "use_spot",
    "image_id",
    "disk_size",
    "disk_tier",
    "network_tier",
    "local_disk",
    "ports",
    "labels",
    "max_hourly_cost",
    "autostop",
    "job_recovery",
    "any_of",
    "ordered",
}


def wants(requests: tuple[Request, ...]) -> list[tuple[int, str]]:
    return [(r.tier, str(r)) for r in requests]


def check_form(task: dict[str, Any]) -> None:
    """The rules of SkyPilot's own parser for what is written here."""
    assert set(task) <= TASK_FIELDS
    resources = task["resources"]
    assert set(resources) <= RESOURCE_FIELDS
    assert not ("any_of" in resources and "ordered" in resources)
    items = resources.get("any_of") or resources.get("ordered") or []
    for one in [resources, *items]:
        assert one is resources or set(one) <= RESOURCE_FIELDS - {"any_of", "ordered"}
        assert isinstance(one.get("accelerators", ""), str)
        assert isinstance(one.get("infra", ""), str)
        assert one.get("infra", "*").split("/")[0] in {"*", *CLOUDS}
        assert isinstance(one.get("use_spot", False), bool)
        assert isinstance(one.get("disk_size", 1), int)
        assert all(isinstance(v, str) for v in one.get("labels", {}).values())


def written(text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    task = to_skypilot(parse(text))
    body = yaml.safe_load(task.text)
    check_form(body)
    return body, task.lost


@pytest.mark.parametrize(
    "resources",
    [
        "{}",
        "{accelerators: A100:8, use_spot: true, infra: aws/us-east-1, disk_tier: best, "
        "network_tier: best}",
        "{accelerators: {L4:1, T4:1}, any_of: [{infra: aws}, {infra: gcp}]}",
        "{accelerators: [H100:8, A100:8]}",
        "{cloud: runpod, region: [CZ, NO, SE], accelerators: L40S}",
        "{use_spot: prefer, accelerators: L4}",
        "{gpus: 80GB+:8, memory: 4x, cpus: 8+}",
        "{cloud: aws, region: {allow: [us-east-1, us-west-2], prefer: [us-west-2]}}",
        "{infra: aws, image_id: {docker: 'a:1', us-east-1: ami-1}, local_disk: nvme:1000+}",
        "{infra: gcp, accelerators: tpu-v5litepod-8, accelerator_args: {tpu_vm: false, tpu_name: "
        "x}}",
        "{disk_size: 1TB, labels: {a: 'no', b: '010'}, infra: 'k8s/ctx/with/slashes'}",
        "{instance_type: p4d.24xlarge, job_recovery: eager_next_region}",
    ],
)
def test_what_both_can_say_is_the_same(resources: str) -> None:
    spec = parse(f"resources: {resources}\nrun: echo $HOME\nenvs: {{A: '010', B: null}}")
    task = to_skypilot(spec)
    assert task.lost == ()
    check_form(yaml.safe_load(task.text))
    again = parse(task.text)
    assert wants(again.requests) == wants(spec.requests)
    assert [r.image for r in again.requests] == [r.image for r in spec.requests]
    assert (again.run, again.envs, again.recovery) == (spec.run, spec.envs, spec.recovery)
    assert (again.guards.autostop, again.guards.is_default) == (spec.guards.autostop, False)


def test_places_become_any_of_and_tiers_ordered() -> None:
    body, _ = written("resources: {region: [us-east-1, us-west-2], accelerators: L4}")
    assert body["resources"]["any_of"] == [{"infra": "*/us-east-1"}, {"infra": "*/us-west-2"}]
    body, _ = written("resources: {accelerators: [L4, T4], autostop: false}")
    assert body["resources"] == {"ordered": [{"accelerators": "L4:1"}, {"accelerators": "T4:1"}]}


def test_patterns_are_lost_and_said_but_not_what_the_order_says_already() -> None:
    body, lost = written(
        "resources: {cloud: aws, region: {allow: [us-*], deny: [us-west-1], prefer: [us-east-2]}}"
    )
    assert body["resources"]["ordered"] == [{"infra": "aws/us-east-2"}, {"infra": "aws"}]
    assert lost == ("*/us-* not */us-west-1: SkyPilot has no patterns of places; aws is asked for",)


def test_an_order_that_cannot_be_kept_is_said() -> None:
    _, lost = written("resources: {ordered: [{accelerators: {H100, A100}}, {accelerators: L4}]}")
    assert [line.split(":")[0] for line in lost] == ["ordered"]


def test_clouds_that_skypilot_does_not_know() -> None:
    body, lost = written("resources: {infra: [local, aws], accelerators: L4}")
    assert body["resources"]["infra"] == "aws"
    assert "does not know the cloud local; the alternative is left out" in lost[0]
    body, lost = written("resources: {infra: local, accelerators: L4}")
    assert "infra" not in body["resources"]
    assert "any place will do" in lost[0]


def test_continents() -> None:
    body, lost = written("resources: {infra: aws/eu}")
    assert body["resources"]["infra"] == "aws"
    assert lost == ("region eu: SkyPilot has no countries or continents; any region is asked for",)


def test_a_part_of_a_device_chosen_by_memory() -> None:
    body, lost = written("resources: {accelerators: ['80GB+:0.5', 'A10:0.5']}")
    assert body["resources"]["ordered"] == [
        {"accelerators": "80GB+:1"},
        {"accelerators": "A10:0.5"},
    ]
    assert lost == (
        "accelerators 80GB+:0.5: SkyPilot counts whole devices where memory chooses them; "
        "80GB+:1 is asked for",
    )


def test_every_field_of_our_own_is_cut_out_and_named() -> None:
    text = """
resources:
  {infra: aws, accelerators: A100, ports: 8080, max_price: 3,
   autostop: {idle_minutes: 1.5, down_after: 1d}}
nbprov:
  {budget: 10, max_lifetime: 8h, prefer: soonest, race: 3, wait: 4h, confirm_above: 20%,
   engine: dask, health: ./ok.sh}
outputs: [results]
inputs: {s3://a: 1, s3://b: 2}
"""
    body, lost = written(text)
    assert [line.split(":")[0] for line in lost] == [
        "autostop",
        "autostop.down_after",
        "inputs",
        "max_lifetime",
        "budget",
        "max_price",
        "expose",
        "prefer",
        "race",
        "wait",
        "confirm_above",
        "engine",
        "health",
        "outputs",
    ]
    assert body["resources"]["autostop"] == {"idle_minutes": 2}
    assert body["resources"]["max_hourly_cost"] == 3
    assert "inputs" not in body


def test_labels_that_would_leak_are_said() -> None:
    body, lost = written("resources: {any_of: [{infra: aws, labels: {u: y}}, {infra: gcp}]}")
    assert len(body["resources"]["any_of"]) == 2
    assert [line.split(":")[0] for line in lost] == ["labels"]


def test_what_runs_is_kept_to_the_letter() -> None:
    text = (
        "name: a\nnum_nodes: 2\nrun: |\n  echo $X ${Y}\n  echo 'no'\nsetup: 'no'\nworkdir: "
        "./$D\nsecrets: {T: null}\nresources: {}\n"
    )
    body, lost = written(
        text + "config: {docker: {run_options: ['--ipc=host']}, hooks: [{run: ./save, events: "
        "[stop]}]}\n"
    )
    assert (body["run"], body["setup"], body["workdir"], body["secrets"]) == (
        "echo $X ${Y}\necho 'no'\n",
        "no",
        "./$D",
        {"T": None},
    )
    assert body["config"] == {
        "docker": {"run_options": ["--ipc=host"]},
        "hooks": [{"run": "./save", "events": ["stop"]}],
    }
    assert lost == ()


def test_nothing_more_is_kept_running_than_here() -> None:
    body, _ = written("resources: {accelerators: L4}")
    assert body["resources"]["autostop"] == {"idle_minutes": 60, "down": True}
