"""The variables of a node."""

from __future__ import annotations

import json

import pytest

from nbprov.model.errors import UsageError
from nbprov.remote.boot.node_environment import environment_variables

NAMES = {
    "NODE_RANK",
    "NODE_IPS",
    "NUM_NODES",
    "NUM_GPUS_PER_NODE",
    "TASK_ID",
    "CLUSTER_INFO",
    "USER",
}
SETUP = {"SETUP_NODE_RANK", "SETUP_NODE_IPS", "SETUP_NUM_GPUS_PER_NODE"}


@pytest.mark.parametrize("setup", [False, True])
def test_every_name_under_both_prefixes_with_one_value(setup: bool) -> None:
    info = {"cluster_name": "dev", "cloud": "aws", "region": "us-east-1", "zone": "use1-az1"}
    env = environment_variables(
        node_rank=1,
        node_ips=["10.0.0.1", "10.0.0.2"],
        num_gpus=0.5,
        task_id="t-1",
        cluster_info=info,
        user="ada",
        setup=setup,
    )
    assert set(env) == {
        prefix + name
        for prefix in ("SKYPILOT_", "NBPROV_")
        for name in (NAMES | SETUP if setup else NAMES)
    }
    assert all(env["SKYPILOT_" + name] == env["NBPROV_" + name] for name in NAMES)
    assert env["SKYPILOT_NODE_IPS"] == "10.0.0.1\n10.0.0.2"
    assert env["SKYPILOT_NUM_GPUS_PER_NODE"] == "1"
    assert json.loads(env["NBPROV_CLUSTER_INFO"]) == info


@pytest.mark.parametrize(("gpus", "told"), [(0, "0"), (8, "8"), (8.0, "8"), (0.33, "1")])
def test_gpus_are_whole_devices(gpus: float, told: str) -> None:
    env = environment_variables(
        node_rank=0, node_ips=["a"], num_gpus=gpus, task_id="t", cluster_info={}
    )
    assert env["SKYPILOT_NUM_GPUS_PER_NODE"] == told


def test_a_rank_beyond_the_nodes_is_refused() -> None:
    with pytest.raises(UsageError, match="rank 2"):
        environment_variables(
            node_rank=2, node_ips=["a", "b"], num_gpus=0, task_id="t", cluster_info={}
        )
