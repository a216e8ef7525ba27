"""The variables that setup, run and cells find on a node.

They have SkyPilot's names and, with the same values, nbprov's own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

from nbprov.model.errors import UsageError

FOREIGN_PREFIX = "SKYPILOT_"
OWN_PREFIX = "NBPROV_"


def environment_variables(
    *,
    node_rank: int,
    node_ips: Sequence[str],
    num_gpus: float,
    task_id: str,
    cluster_info: Mapping[str, str],
    user: str = "",
    setup: bool = False,
    port: int = 0,
    files: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the variables of one node, and those that torchrun and MPI read.

    Parameters
    ----------
    node_rank
        0 is the head.
    node_ips
        Addresses by which the nodes reach each other, head first.
    num_gpus
        GPUs of one node; a sold fraction counts as one device.
    task_id
        Names this run of the spec; the same on all nodes.
    cluster_info
        `cluster_name`, `cloud`, `region`, `zone`.
    setup
        Whether the variables are for `setup`, which has names of its own besides.
    port
        The head's port for rendezvous; 0 leaves out what launchers read.
    files
        Variables that name files on this node, taken as they are.

    Examples
    --------
    >>> info = {"cluster_name": "dev"}
    >>> ips = ["10.0.0.1", "10.0.0.2"]
    >>> env = environment_variables(
    ...     node_rank=1, node_ips=ips, num_gpus=8, task_id="t", cluster_info=info
    ... )
    >>> env["SKYPILOT_NODE_RANK"], env["NBPROV_NUM_NODES"], env["SKYPILOT_NODE_IPS"]
    ('1', '2', '10.0.0.1\\n10.0.0.2')
    """
    gpus = math.ceil(num_gpus - 1e-9)
    info = {key: cluster_info.get(key, "") for key in ("cluster_name", "cloud", "region", "zone")}
    named = _node_variables(node_rank, node_ips, gpus, setup=setup) | {
        "TASK_ID": task_id,
        "CLUSTER_INFO": json.dumps(info),
        "USER": user,
    }
    found = {
        prefix + name: value
        for prefix in (FOREIGN_PREFIX, OWN_PREFIX)
        for name, value in named.items()
    }
    if port:
        found |= _launcher_variables(str(node_rank), node_ips, max(1, gpus), port)
    return found | dict(files or {})


def _node_variables(
    node_rank: int, node_ips: Sequence[str], gpus: int, *, setup: bool
) -> dict[str, str]:
    if not 0 <= node_rank < len(node_ips):
        raise UsageError(
            f"node rank {node_rank} does not fit {len(node_ips)} nodes",
            hint="ranks count from 0; give every node's address",
        )
    rank, ips = str(node_rank), "\n".join(node_ips)
    named = {
        "NODE_RANK": rank,
        "NODE_IPS": ips,
        "NUM_NODES": str(len(node_ips)),
        "NUM_GPUS_PER_NODE": str(gpus),
    }
    if setup:
        named |= {
            "SETUP_NODE_RANK": rank,
            "SETUP_NODE_IPS": ips,
            "SETUP_NUM_GPUS_PER_NODE": str(gpus),
        }
    return named


def _launcher_variables(
    rank: str, node_ips: Sequence[str], processes: int, port: int
) -> dict[str, str]:
    """Return what launchers read.

    `RANK`, `LOCAL_RANK` and `WORLD_SIZE` are left out: a program that finds them believes that a
    launcher has already started it.
    """
    named = {
        "NNODES": str(len(node_ips)),
        "NODE_RANK": rank,
        "NPROC_PER_NODE": str(processes),
        "MASTER_ADDR": node_ips[0],
        "MASTER_PORT": str(port),
    }
    if len(node_ips) == 1:
        return named
    # torchrun reads its defaults from PET_*. Its rendezvous endpoint is not set here, as that
    # would win over a user's --master_addr.
    return named | {f"PET_{name}": value for name, value in named.items()}
