"""Ray on real machines: who may use it, what it holds, and what returns after failures."""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import psutil
import pytest
from tunnel_world import SPEC, TunnelWorld, engine_processes, until

from nbprov import api
from nbprov.clouds.local.client import DaemonClient
from nbprov.machines.engines.engine_state import EngineFailed

ray = pytest.importorskip("ray", reason="the extra ray is not installed")
grpc = pytest.importorskip("grpc", reason="the extra ray is not installed")

pytestmark = [
    pytest.mark.machine,
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="machines have addresses of their own"
    ),
]

WAIT_SECONDS = 180.0
ENGINE = "\nnum_nodes: 2\nengine: {ray: {workers: 1, memory: 100MB}}\nenvs: {GREETING: hello}\n"
BLOCK = 15_000_000
"""Bytes: four of them leave room in the store of one node, and eight are more than it has."""


@pytest.fixture(scope="module")
def gang() -> Iterator[tuple[TunnelWorld, api.Cluster]]:
    root = Path(tempfile.mkdtemp(prefix="nbp-", dir="/tmp"))
    world = TunnelWorld(root / "h")
    try:
        run = world.session.provision(SPEC % "" + ENGINE, "gang")
        assert isinstance(run, api.Run)
        yield world, run.launch().wait(WAIT_SECONDS)
    finally:
        world.close()
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="module")
def connection(gang: tuple[TunnelWorld, api.Cluster]) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH"):
            patch.setenv(name, "")  # so that the client's changes are undone
        yield connect(gang[1])
        ray.shutdown()


@pytest.fixture
def connected(gang: tuple[TunnelWorld, api.Cluster], connection: Any) -> api.Cluster:
    return gang[1]


def connect(cluster: api.Cluster) -> Any:
    """Connect to the cluster's Ray, trying again since its server times out on a busy machine."""
    end = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return cluster.ray()
        except (EngineFailed, ConnectionError):
            if time.monotonic() > end:
                raise


def ranks(count: int = 4) -> set[tuple[str | None, str | None]]:
    """Return the nodes on which tasks ran, and the spec's variable that they saw."""

    @ray.remote(scheduling_strategy="SPREAD", num_cpus=1)
    def where() -> tuple[str | None, str | None]:
        return os.environ.get("NBPROV_NODE_RANK"), os.environ.get("GREETING")

    return set(ray.get([where.remote() for _ in range(count)], timeout=WAIT_SECONDS))


def alive() -> int:
    return sum(1 for node in ray.nodes() if node["Alive"])


def test_work_runs_with_the_specs_variables_on_all_nodes(connected: api.Cluster) -> None:
    assert alive() == 2
    assert ray.cluster_resources()["CPU"] == 2

    @ray.remote(num_cpus=1)
    class Held:
        def where(self) -> tuple[str | None, str | None]:
            return os.environ.get("NBPROV_NODE_RANK"), os.environ.get("GREETING")

    held = [Held.remote() for _ in range(2)]  # one for each vCPU, so one for each node
    assert sorted(ray.get([one.where.remote() for one in held], timeout=WAIT_SECONDS)) == [
        ("0", "hello"),
        ("1", "hello"),
    ]
    for one in held:
        ray.kill(one)  # they would hold the vCPUs until the client lets go of them, some time later


def test_data_larger_than_the_store_of_one_node_lies_in_those_of_both(
    connected: api.Cluster,
) -> None:
    from ray.experimental import get_object_locations

    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    stores = [node["Resources"]["object_store_memory"] for node in ray.nodes() if node["Alive"]]
    pin = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy

    @ray.remote(num_returns=2)
    def block(number: int) -> tuple[bytes, str]:
        return bytes([number]) * BLOCK, "there"

    @ray.remote
    def places(refs: list[Any]) -> list[tuple[list[str], int]]:
        return [
            (found["node_ids"], found["object_size"])
            for found in get_object_locations(refs).values()
        ]

    @ray.remote
    def total(data: bytes) -> int:
        return data[0] * len(data)

    made = [
        block.options(scheduling_strategy=pin(nodes[n % 2], soft=False)).remote(n) for n in range(8)
    ]
    # A reader of a block gets a copy of it.
    ray.get([there for _, there in made], timeout=WAIT_SECONDS)
    blocks = [data for data, _ in made]
    found = ray.get(places.remote(blocks), timeout=WAIT_SECONDS)
    assert sum(size for _, size in found) > max(stores)
    assert [where for where, _ in found] == [[nodes[n % 2]] for n in range(8)]
    assert sum(ray.get([total.remote(one) for one in blocks], timeout=WAIT_SECONDS)) == BLOCK * sum(
        range(8)
    )


def test_its_tunnel_is_listed_and_waiting_is_no_activity(
    gang: tuple[TunnelWorld, api.Cluster],
) -> None:
    assert any(
        line.startswith("ray://127.0.0.1:")
        for line in gang[0].session.services.tunnels.words(gang[1].cluster_id)
    )
    assert not any("ray" in words for words in gang[1].guards().active)


def test_a_second_call_leaves_the_connection_and_its_objects_alone(
    connected: api.Cluster, connection: Any
) -> None:
    kept = ray.put("kept")
    assert connected.ray() is connection
    assert ray.get(kept, timeout=WAIT_SECONDS) == "kept"


def ping(address: str, token: str) -> bool:
    """Return whether Ray's client server accepts a token; other gRPC errors are raised."""
    from ray.core.generated import ray_client_pb2 as words
    from ray.core.generated import ray_client_pb2_grpc

    request = words.ClusterInfoRequest(type=words.ClusterInfoType.PING)
    metadata = [("authorization", f"Bearer {token}")] if token else []
    with grpc.insecure_channel(address) as channel:
        stub = ray_client_pb2_grpc.RayletDriverStub(channel)
        return bool(
            stub.ClusterInfo(request, metadata=metadata, timeout=WAIT_SECONDS, wait_for_ready=True)
        )


def test_nobody_without_the_clusters_token_is_heard(
    gang: tuple[TunnelWorld, api.Cluster], connected: api.Cluster
) -> None:
    token = (gang[0].home / "keys" / gang[1].cluster_id / "engine.token").read_text()
    port = next(
        line.split()[0]
        for line in gang[0].session.services.tunnels.words(gang[1].cluster_id)
        if line.startswith("ray://")
    )
    address = port.removeprefix("ray://")
    assert ping(address, token)
    for secret in ("", "0" * 64):
        with pytest.raises(grpc.RpcError) as error:
            ping(address, secret)
        assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED  # type: ignore[attr-defined]
    seen = 0
    for process in engine_processes(gang[1]):
        with contextlib.suppress(psutil.Error):
            seen += 1
            assert token not in " ".join([*process.cmdline(), *process.environ().values()])
    assert seen


def test_a_cell_of_the_next_kernel_needs_no_address(gang: tuple[TunnelWorld, api.Cluster]) -> None:
    again = api.Session(gang[0].home)
    again.engine._clouds["local"] = gang[0].session.engine._clouds["local"]
    try:
        told = again.cluster("gang").cell(
            "import ray; ray.init(log_to_driver=False);"
            " print(len(ray.nodes()), 'nodes'); ray.shutdown()"
        )
    finally:
        again.close()
    assert told.text.strip().endswith("2 nodes")


def test_a_grammar_that_nobody_uses_is_read_by_no_process(connected: api.Cluster) -> None:
    @ray.remote(num_cpus=1)
    def looked() -> tuple[bool, bool, bool]:
        import rfc3987_syntax

        before = "lark" in sys.modules
        return (
            before,
            rfc3987_syntax.is_valid_syntax("iri", "http://a/b"),
            rfc3987_syntax.is_valid_syntax("iri", "a b"),
        )

    # Not imported here, where the client of Ray keeps it out.
    if not [one for one in distributions() if one.name == "rfc3987-syntax"]:
        pytest.skip("rfc3987-syntax is not installed")
    assert ray.get(looked.remote(), timeout=WAIT_SECONDS) == (False, True, False)


def test_a_node_whose_raylet_dies_is_there_again(connected: api.Cluster) -> None:
    before = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
    connected.bash("pkill -9 raylet", nodes="1")
    until(
        lambda: {n["NodeID"] for n in ray.nodes() if n["Alive"]} - before and alive() == 2,
        "a new node",
        WAIT_SECONDS,
    )
    # The node's first worker takes a while to start, and the other node is quick.
    until(lambda: ("1", "hello") in ranks(8), "work on it", WAIT_SECONDS)


def test_a_lost_machine_is_replaced_and_the_client_stays_connected(
    gang: tuple[TunnelWorld, api.Cluster], connected: api.Cluster
) -> None:
    before = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
    kept, lost = ray.put("kept"), connected.view().instances[1]
    DaemonClient(gang[0].home / "local").call("terminate", {"ids": [lost.id]}, timeout=15)
    until(
        lambda: [i.node for i in connected.view().instances if i.id != lost.id] == [0, 1],
        "another machine",
        WAIT_SECONDS,
    )
    until(
        lambda: {n["NodeID"] for n in ray.nodes() if n["Alive"]} - before and alive() == 2,
        "its node",
        WAIT_SECONDS,
    )
    until(lambda: ("1", "hello") in ranks(8), "work on it", WAIT_SECONDS)
    assert ray.get(kept, timeout=WAIT_SECONDS) == "kept"


def test_it_is_there_again_after_a_stop_and_a_start_and_gone_with_its_cluster(
    gang: tuple[TunnelWorld, api.Cluster], connected: api.Cluster, connection: Any
) -> None:
    @ray.remote(num_cpus=0)
    def never() -> None:
        time.sleep(WAIT_SECONDS)

    told: queue.Queue[Exception] = queue.Queue()

    # The first task starts Ray's own driver there, which can fail for reasons of its own.
    assert ("0", "hello") in ranks()

    def wait() -> None:
        try:
            ray.get(never.remote())
        except Exception as error:
            told.put(error)

    threading.Thread(target=wait, daemon=True).start()
    connected.stop().wait(WAIT_SECONDS)
    # A client that waits for a result gets an error.
    error = told.get(timeout=WAIT_SECONDS)
    assert "onnect" in str(error) or str(error) == "Client is shutting down."
    assert engine_processes(connected) == []
    connected.start().wait(WAIT_SECONDS)
    assert connect(connected) is not connection
    assert alive() == 2
    assert ("0", "hello") in ranks()
    connected.down().wait(WAIT_SECONDS)
    assert engine_processes(connected) == []
