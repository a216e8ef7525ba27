"""Ray on real machines of the `local` cloud: who may speak to it, what it holds, and what comes back after deaths, stops and starts."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tunnel_world import SPEC, TunnelWorld, until

from nbprov import api

ray = pytest.importorskip("ray", reason="the extra ray is not installed")

pytestmark = [pytest.mark.machine, pytest.mark.skipif(not sys.platform.startswith("linux"), reason="machines have addresses of their own")]

WAIT_SECONDS = 180.0
# The machines share this environment. A package of Jupyter's in it takes 2 s to import, in each of the dozen processes that Ray starts.
LIGHT = "/tmp/light"
ENGINE = f"""
num_nodes: 2
engine: {{ray: {{workers: 1, memory: 100MB}}}}
envs: {{GREETING: hello, PYTHONPATH: {LIGHT}}}
setup: mkdir -p {LIGHT} && echo 'raise ImportError' >{LIGHT}/rfc3987_syntax.py
"""
BLOCK = 20_000_000


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


@pytest.fixture
def connected(gang: tuple[TunnelWorld, api.Cluster], monkeypatch: pytest.MonkeyPatch) -> Iterator[api.Cluster]:
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.setenv(name, "")  # so that what the client sets is taken back
    gang[1].ray()
    yield gang[1]
    ray.shutdown()


def engine_processes(cluster: api.Cluster) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("NBPROV_ENGINE", "").startswith(cluster.cluster_id):
                found.append(process)
    return found


def ranks(count: int = 4) -> set[tuple[str | None, str | None]]:
    """On which nodes tasks ran, and with which variable of the spec's."""

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

    held = [Held.remote() for _ in range(2)]  # one a vCPU, so one a node
    assert sorted(ray.get([one.where.remote() for one in held], timeout=WAIT_SECONDS)) == [("0", "hello"), ("1", "hello")]


def test_data_larger_than_the_store_of_one_node_lies_in_those_of_both(connected: api.Cluster) -> None:
    from ray.experimental import get_object_locations

    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    stores = [node["Resources"]["object_store_memory"] for node in ray.nodes() if node["Alive"]]
    pin = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy

    @ray.remote(num_returns=2)
    def block(number: int) -> tuple[bytes, str]:
        return bytes([number]) * BLOCK, "there"

    @ray.remote
    def places(refs: list[Any]) -> list[tuple[list[str], int]]:
        return [(found["node_ids"], found["object_size"]) for found in get_object_locations(refs).values()]

    @ray.remote
    def total(data: bytes) -> int:
        return data[0] * len(data)

    made = [block.options(scheduling_strategy=pin(nodes[n % 2], soft=False)).remote(n) for n in range(8)]
    # Whoever waits for a block gets a copy of it.
    ray.get([there for _, there in made], timeout=WAIT_SECONDS)
    blocks = [data for data, _ in made]
    found = ray.get(places.remote(blocks), timeout=WAIT_SECONDS)
    assert sum(size for _, size in found) > max(stores)
    assert [where for where, _ in found] == [[nodes[n % 2]] for n in range(8)]
    assert sum(ray.get([total.remote(one) for one in blocks], timeout=WAIT_SECONDS)) == BLOCK * sum(range(8))


def test_its_tunnel_is_listed_and_waiting_is_no_activity(gang: tuple[TunnelWorld, api.Cluster]) -> None:
    assert any(line.startswith("ray://127.0.0.1:") for line in gang[0].session.tunnel_words(gang[1].cluster_id))
    assert not any("ray" in words for words in gang[1].guards().active)


def test_nobody_without_the_clusters_token_is_heard(gang: tuple[TunnelWorld, api.Cluster], connected: api.Cluster) -> None:
    token = (gang[0].home / "keys" / gang[1].cluster_id / "engine.token").read_text()
    port = next(line.split()[0] for line in gang[0].session.tunnel_words(gang[1].cluster_id) if line.startswith("ray://"))
    for secret in ("", "0" * 64):
        env = {**os.environ, "RAY_AUTH_MODE": "token" if secret else "disabled", "RAY_AUTH_TOKEN": secret, "RAY_AUTH_TOKEN_PATH": ""}
        code = f"import ray; ray.util.connect({port.removeprefix('ray://')!r}, connection_retries=0); print('heard')"
        told = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
        assert told.returncode != 0
        assert "heard" not in told.stdout
    seen = 0
    for process in engine_processes(gang[1]):
        with contextlib.suppress(psutil.Error):
            seen += 1
            assert token not in " ".join([*process.cmdline(), *process.environ().values()])
    assert seen


def test_a_program_on_the_machine_needs_no_address(gang: tuple[TunnelWorld, api.Cluster]) -> None:
    told = gang[1].bash("python3 -c 'import ray; ray.init(log_to_driver=False); print(len(ray.nodes()), \"nodes\")'", nodes="1")
    assert told.text.strip().endswith("2 nodes")


def test_a_node_whose_raylet_dies_is_there_again(connected: api.Cluster) -> None:
    before = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
    connected.bash("pkill -9 raylet", nodes="1")
    until(lambda: {n["NodeID"] for n in ray.nodes() if n["Alive"]} - before and alive() == 2, "a new node", WAIT_SECONDS)
    # Its first worker takes a while to start, and the other node is quick.
    until(lambda: ("1", "hello") in ranks(8), "work on it", WAIT_SECONDS)


def test_it_is_there_again_after_a_stop_and_a_start_and_gone_with_its_cluster(gang: tuple[TunnelWorld, api.Cluster]) -> None:
    cluster = gang[1]
    cluster.stop().wait(WAIT_SECONDS)
    assert engine_processes(cluster) == []
    cluster.start().wait(WAIT_SECONDS)
    cluster.ray()
    try:
        assert alive() == 2
        assert ("0", "hello") in ranks()
    finally:
        ray.shutdown()
    cluster.down().wait(WAIT_SECONDS)
    assert engine_processes(cluster) == []
