"""Realistic cells as people paste them, and real blocks.

`skypilot_resources.jsonl` has the `resources` of the task files in SkyPilot's examples (2026,
Apache License 2.0).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nbprov.spec import SpecError, parse, to_yaml

COLLECTION = Path(__file__).parent / "skypilot_resources.jsonl"
CELLS = {
    "one gpu": "resources:\n  accelerators: A100:1\n\nrun: |\n  nvidia-smi\n",
    "training": """
name: finetune
num_nodes: 2
workdir: .
resources:
  accelerators: H100:8
  memory: 256+
  disk_size: 1TB
  disk_tier: best
  network_tier: best
  use_spot: true
  job_recovery:
    strategy: FAILOVER
    max_restarts_on_errors: 3
envs:
  MODEL: org/model-8b
  EPOCHS: 3
  WANDB_MODE: offline
secrets:
  HF_TOKEN: null
file_mounts:
  /data: ./data
setup: |
  conda activate base || conda create -n base python=3.11 -y
  pip install -r requirements.txt
run: |
  MASTER=$(echo "$SKYPILOT_NODE_IPS" | head -n1)
  torchrun --nnodes=$SKYPILOT_NUM_NODES --node_rank=$SKYPILOT_NODE_RANK \\
    --nproc_per_node=$SKYPILOT_NUM_GPUS_PER_NODE --master_addr=$MASTER train.py
""",
    "serving": """
service:
  readiness_probe: /v1/models
  replica_policy:
    min_replicas: 1
    max_replicas: 3
resources:
  ports: 8081
  accelerators: {L4, A10G, A100}
  any_of:
    - use_spot: true
    - use_spot: false
setup: pip install vllm
run: vllm serve org/model --port 8081
""",
    "many places": """
resources:
  accelerators: {T4: 1, L4: 1}
  memory: 32+
  ordered:
    - infra: aws/us-east-1
    - infra: gcp/us-central1
    - infra: runpod
      use_spot: true
  autostop: {idle_minutes: 20, down: true}
max_lifetime: 6h
budget: {total: 25}
""",
    "image": (
        "resources:\n  image_id: docker:nvcr.io/nvidia/pytorch:24.07-py3\n  cpus: 4+\nrun: "
        "python -V\n"
    ),
    "placeholders": (
        "resources: {cpus: 2+}\nenvs:\n  BUCKET:   # your bucket\n  N: 4\nrun: echo $BUCKET\n"
    ),
    "old style": (
        "resources: {cloud: gcp, region: us-west1, zone: us-west1-b, accelerators: V100, "
        "spot_recovery: none}\nrun: hostname"
    ),
    "guarded": (
        "nbprov:\n  budget: $5\n  max_lifetime: 2h\n  race: 2\nresources: {accelerators: "
        "RTX4090, infra: [runpod, vast]}\n"
    ),
    "cpu only": (
        "resources:\n  cpus: 8\n  memory: 16+\n  infra: azure\nsetup: |\n  sudo apt-get "
        "update\nrun: make\n"
    ),
    "json": (
        '{"resources": {"accelerators": {"H100:8": null, "H200:8": null}, "disk_size": '
        '"1024GB"}, "run": "python train.py"}'
    ),
    "local": "resources:\n  infra: local\n  accelerators: A100\n",
}

JUSTIFIED = {
    "spec.not-yet": "the program would miss it",
    "spec.infra-beside": "the place is given twice",
}


@pytest.mark.parametrize("name", CELLS)
def test_realistic_cells_are_read_and_written(name: str) -> None:
    spec = parse(CELLS[name])
    assert spec.requests
    again = parse(to_yaml(spec))
    assert [str(r) for r in again.requests] == [str(r) for r in spec.requests]
    assert (again.guards, again.envs, again.run) == (spec.guards, spec.envs, spec.run)


def test_a_pasted_bucket_is_named_and_can_be_left_out() -> None:
    text = CELLS["training"].replace("/data: ./data", "/data: {name: b, mode: MOUNT}")
    with pytest.raises(SpecError) as caught:
        parse(text)
    assert [p.code for p in caught.value.problems] == ["spec.not-yet"]
    assert parse(text, frozenset({"file_mounts"})).file_mounts == ()


def test_the_collection_of_real_blocks() -> None:
    cases = [json.loads(line) for line in COLLECTION.read_text(encoding="utf-8").splitlines()]
    assert len(cases) > 100
    refused = {}
    for case in cases:
        text = json.dumps({"resources": case["resources"], "num_nodes": case["num_nodes"]})
        try:
            spec = parse(text)
        except SpecError as error:
            refused[case["id"]] = [p.code for p in error.problems]
            continue
        assert [str(r) for r in parse(to_yaml(spec)).requests] == [str(r) for r in spec.requests]
    assert all(code in JUSTIFIED for codes in refused.values() for code in codes), refused
    assert len(refused) < len(cases) / 10, refused
