"""Dask on real machines: where it listens, who may use it, and what returns after failures."""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from index_double import serving, wheel
from tunnel_world import SPEC, TunnelWorld, engine_processes, until

from nbprov import api
from nbprov.clouds.local.client import DaemonClient
from nbprov.machines.engines import installation, processes
from nbprov.machines.engines.engine_state import EngineFailed, NoEngine
from nbprov.provisioning.live_cluster import agent_of

distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")

pytestmark = [
    pytest.mark.machine,
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="machines have addresses of their own"
    ),
]

WAIT_SECONDS = 120.0
ENGINE = """
num_nodes: 2
engine: {dask: {threads: 1, memory: 400MB}}
envs: {GREETING: hello}
secrets: {WORD: a-word-of-the-spec}
setup: echo $NODE_RANK >set-up
run: python3 -c 'import distributed; print(distributed.Client())'
"""


def up(world: TunnelWorld, rest: str, name: str = "gang") -> api.Cluster:
    run = world.session.provision(SPEC % "" + rest, name)
    assert isinstance(run, api.Run)
    return run.launch().wait(WAIT_SECONDS)


@pytest.fixture(scope="module")
def gang() -> Iterator[tuple[TunnelWorld, api.Cluster]]:
    root = Path(tempfile.mkdtemp(prefix="nbp-", dir="/tmp"))
    world = TunnelWorld(root / "h")
    try:
        yield world, up(world, ENGINE)
    finally:
        world.close()
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def client(gang: tuple[TunnelWorld, api.Cluster]) -> Iterator[Any]:
    made = gang[1].dask()
    made.wait_for_workers(2, timeout=WAIT_SECONDS)
    yield made
    made.close()


def test_work_runs_on_all_nodes_with_the_specs_variables(client: Any) -> None:
    def greeting() -> tuple[str | None, str | None]:
        return os.environ.get("GREETING"), os.environ.get("NBPROV_NODE_RANK")

    assert sorted(client.run(greeting).values()) == [("hello", "0"), ("hello", "1")]
    assert client.submit(sum, [1, 2]).result() == 3


def test_run_finds_it(gang: tuple[TunnelWorld, api.Cluster]) -> None:
    assert gang[1].wait_job("run", WAIT_SECONDS) == 0
    assert "processes=2 threads=2" in gang[1].logs("run")


def test_the_same_client_is_given_until_it_is_closed(
    gang: tuple[TunnelWorld, api.Cluster], client: Any
) -> None:
    assert gang[1].dask() is client
    client.close()
    again = gang[1].dask()
    assert again is not client
    assert again.submit(sum, [1]).result() == 1
    again.close()


def test_its_tunnels_are_listed_and_the_dashboard_answers(
    gang: tuple[TunnelWorld, api.Cluster], client: Any
) -> None:
    words = gang[0].session.services.tunnels.words(gang[1].cluster_id)
    assert any("is the Dask dashboard of gang" in line for line in words)
    assert any(line.startswith("tls://127.0.0.1:") for line in words)
    assert any(client.dashboard_link.startswith(line.partition(" ")[0]) for line in words)
    with urllib.request.urlopen(
        client.dashboard_link.replace("/status", "/health"), timeout=WAIT_SECONDS
    ) as page:
        assert page.read() == b"ok"


def test_nothing_of_it_listens_on_all_addresses(
    gang: tuple[TunnelWorld, api.Cluster], client: Any
) -> None:
    private = {i.private_host for i in gang[1].view().instances}
    assert len(private) == 2
    heard = {
        connection.laddr.ip
        for process in engine_processes(gang[1])
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert private <= heard
    assert not any(address in ("0.0.0.0", "::", "127.0.0.1") for address in heard)


def test_nobody_without_the_clusters_key_is_heard(
    gang: tuple[TunnelWorld, api.Cluster], client: Any, tmp_path: Path
) -> None:
    from nbprov.machines.engines.certificates import certificate

    address = client.scheduler.address
    strange = str(certificate(tmp_path))
    foreign = distributed.Security(
        tls_ca_file=strange,
        tls_client_cert=strange,
        tls_client_key=strange,
        require_encryption=True,
    )
    for at, security in ((address.replace("tls://", "tcp://"), None), (address, foreign)):
        with pytest.raises(OSError):  # noqa: PT011
            distributed.Client(at, security=security, timeout=2, set_as_default=False)
    key = (gang[0].home / "keys" / gang[1].cluster_id / "engine.pem").read_text().splitlines()[1]
    for process in engine_processes(gang[1]):
        with contextlib.suppress(psutil.Error):
            assert key not in " ".join([*process.cmdline(), *process.environ().values()])
    for place in gang[0].home.rglob("*"):
        if place.is_file() and place.name != "engine.pem":
            assert key.encode() not in place.read_bytes(), place


def test_a_waiting_engine_is_no_activity(gang: tuple[TunnelWorld, api.Cluster]) -> None:
    assert not any("dask" in words for words in gang[1].guards().active)


def test_a_plain_client_on_the_machine_needs_no_address(
    gang: tuple[TunnelWorld, api.Cluster],
) -> None:
    told = gang[1].bash(
        "python3 -c 'import distributed; c = distributed.Client();"
        " print(c.submit(sum, [2, 3]).result())'"
    )
    assert told.text.strip().endswith("5")


def test_a_worker_that_dies_is_replaced(gang: tuple[TunnelWorld, api.Cluster], client: Any) -> None:
    before = set(client.run(os.getpid).values())
    gang[1].bash('pkill -9 -f "[d]istributed.cli.dask_worker"', nodes="1")

    def pids() -> set[int]:
        return set(client.run(os.getpid, on_error="ignore").values())

    until(lambda: len(pids()) == 2 and pids() != before, "a new worker")
    assert client.submit(sum, [1, 2]).result() == 3


def test_a_machine_that_the_cloud_takes_back_is_replaced_in_mid_computation(
    gang: tuple[TunnelWorld, api.Cluster], client: Any
) -> None:
    world, cluster = gang

    def slow(number: int) -> int:
        time.sleep(0.1)
        return number * number

    # The work takes two workers some 10 s, so that both have results when one is lost.
    futures = client.map(slow, range(200), pure=False)
    until(lambda: sum(f.done() for f in futures) > 20, "some results")
    lost = cluster.view().instances[1]
    DaemonClient(world.home / "local").call("terminate", {"ids": [lost.id]}, timeout=WAIT_SECONDS)
    assert sum(client.gather(futures)) == sum(n * n for n in range(200))
    until(lambda: len(cluster.view().instances) == 2, "another machine")
    assert lost.id not in {i.id for i in cluster.view().instances}
    assert [i.node for i in cluster.view().instances] == [0, 1]
    client.wait_for_workers(2, timeout=WAIT_SECONDS)

    def who() -> tuple[str | None, str | None, str]:
        return (
            os.environ.get("GREETING"),
            os.environ.get("NBPROV_NODE_RANK"),
            (Path.home() / "set-up").read_text(),
        )

    assert sorted(client.run(who).values()) == [("hello", "0", "0\n"), ("hello", "1", "1\n")], (
        "set up as the others were"
    )
    assert cluster.bash("echo $NODE_RANK", nodes="1").text == "1\n"
    assert cluster.bash("ssh -n node1 'echo $NBPROV_NODE'").text == "1\n", (
        "the head knows where it is"
    )
    assert not cluster.view().notes


def test_it_moves_beside_the_environment_of_a_python_that_has_no_dask(
    gang: tuple[TunnelWorld, api.Cluster], tmp_path: Path
) -> None:
    cluster = gang[1]
    here = Path(distributed.__file__).parents[1]
    # An environment as `python` makes one, with pip.
    make = f"{sys.executable} -m venv --without-pip ~/.nbprov/envs/0123"
    make += " && ln -sfn envs/0123 ~/.nbprov/python"
    packages = "cd ~/.nbprov/envs/0123/lib/python*/site-packages"
    fill = f"echo wanted=1 >requirement.py; ln -s {here}/pip {here}/pip-*.dist-info ."
    with serving(tmp_path) as index:
        for word in installation.requirements("dask"):
            name, _, version = word.partition("==")
            # These packages only lead to the Dask that is installed here.
            wheel(
                tmp_path,
                name,
                version,
                files={"here.pth": f"{here}\n"} if name == "distributed" else {},
            )
        pip = "mkdir -p ~/.config/pip; "
        pip += f"printf '[global]\\nindex-url = {index.url}\\n' >~/.config/pip/pip.conf"
        cluster.bash(f"{make} && {packages} && {{ {fill}; {pip}; }}", nodes="all")
        client = cluster.dask()

    def where() -> tuple[str, int]:
        import requirement

        return sys.prefix.rpartition(".nbprov/")[2], requirement.wanted

    client.wait_for_workers(2, timeout=WAIT_SECONDS)
    assert list(client.run(where).values()) == [("envs/0123/engine", 1)] * 2
    assert client.submit(where).result() == ("envs/0123/engine", 1)
    # A process that runs in the right environment is left alone.
    before = set(client.run(os.getpid).values())
    cluster.start_engine()
    assert set(client.run(os.getpid).values()) == before
    client.close()


def test_a_scheduler_that_was_ended_is_started_again_with_new_workers_and_not_without_their_secrets(
    gang: tuple[TunnelWorld, api.Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, cluster = gang

    async def end(live: Any) -> None:
        agent = agent_of(live.head)
        (scheduler,) = [
            task
            for task in await agent.jobs()
            if task.name == "dask-scheduler" and not task.is_over
        ]
        await agent.cancel_job(scheduler.id)
        await agent.job_output(scheduler.id).wait()

    def say() -> str:
        print("the word is", os.environ["WORD"], flush=True)
        return os.environ["WORD"]

    world.session.wait_remote("gang", end, WAIT_SECONDS)
    # As in the kernel that comes after the one that launched it.
    monkeypatch.setattr(world.session.context, "inputs", {})
    monkeypatch.delenv("WORD", raising=False)
    with pytest.raises(EngineFailed, match="does not know WORD") as error:
        cluster.dask()
    assert (error.value.code, "os.environ['WORD']" in error.value.hint) == (
        "engine.unknown-values",
        True,
    )
    monkeypatch.setenv("WORD", "a-word-of-the-spec")
    client = cluster.dask()
    assert client.submit(sum, [1, 2]).result() == 3
    assert list(client.run(say).values()) == ["a-word-of-the-spec"] * 2
    client.close()
    monkeypatch.delenv("WORD")
    cluster.dask().close()  # a running engine needs no values
    worker = "grep -ho 'the word is [a-z*-]*' ~/.nbprov/tasks/dask-worker-*/out.* || true"
    for node in ("0", "1"):
        until(
            lambda node=node: cluster.bash(worker, nodes=node).text == "the word is ***\n",
            "its words",
        )
        assert cluster.bash("grep -rl a-word-of ~/.nbprov | wc -l", nodes=node).text.strip() == "0"


def test_a_cluster_without_that_engine_says_so(
    gang: tuple[TunnelWorld, api.Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    from nbprov.machines.engines import ray

    monkeypatch.setattr(ray, "check_installed", lambda name: None)
    with pytest.raises(NoEngine, match="gang has the engine dask"):
        gang[1].ray()


def test_a_cluster_without_an_engine_says_so(gang: tuple[TunnelWorld, api.Cluster]) -> None:
    plain = up(gang[0], "", "plain")
    for ask in (plain.dask, plain.start_engine):
        with pytest.raises(NoEngine, match="plain has no engine"):
            ask()


def await_closed(client: Any) -> None:
    """A client of a cluster that stopped no longer looks for its scheduler."""
    end = time.monotonic() + WAIT_SECONDS
    while client.status != "closed":
        assert time.monotonic() < end, client.status
        time.sleep(0.05)


def test_it_is_there_again_after_a_stop_and_a_start(gang: tuple[TunnelWorld, api.Cluster]) -> None:
    cluster = gang[1]
    before = {instance.private_host for instance in cluster.view().instances}
    old = cluster.dask()
    told: queue.Queue[BaseException] = queue.Queue()

    def wait() -> None:
        try:
            old.submit(time.sleep, WAIT_SECONDS).result()
        except Exception as error:
            told.put(error)

    threading.Thread(target=wait, daemon=True).start()
    until(lambda: any(old.processing().values()), "its work")
    cluster.stop().wait(WAIT_SECONDS)
    await_closed(old)
    # A client that waits for a result gets an error.
    assert "cancelled" in str(told.get(timeout=WAIT_SECONDS))
    cluster.start().wait(WAIT_SECONDS)
    assert not before & {instance.private_host for instance in cluster.view().instances}
    client = cluster.dask()
    assert client.submit(sum, [1, 2]).result() == 3
    assert len(client.run(os.getpid)) == 2
    client.close()


def end_scheduler(cluster: api.Cluster) -> None:
    for running in [
        job.id for job in cluster.jobs() if job.name == "dask-scheduler" and job.state == "running"
    ]:
        cluster.cancel_job(running)
        until(
            lambda id=running: all(
                job.state != "running" for job in cluster.jobs() if job.id == id
            ),
            "its end",
        )


def test_an_engine_that_has_died_is_named_with_its_last_lines(
    gang: tuple[TunnelWorld, api.Cluster],
) -> None:
    cluster = gang[1]
    # Dask reads this file at each start, and ends if it is not YAML.
    cluster.bash("echo ': : nonsense: [' > ~/.config/dask/a.yaml")
    end_scheduler(cluster)
    with pytest.raises(EngineFailed, match="dask-scheduler on node 0 of gang has ended") as error:
        cluster.dask()
    assert "yaml" in error.value.message.lower()
    assert "%nbprov logs gang dask-scheduler" in error.value.hint


def test_an_engine_that_does_not_come_up_in_time_is_named(
    gang: tuple[TunnelWorld, api.Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = gang[1]
    monkeypatch.setattr(processes, "START_SECONDS", 2.0)
    monkeypatch.setattr(processes, "MORE_SECONDS", 1.0)
    # A reader of a pipe waits until somebody writes to it.
    cluster.bash(
        "mkdir -p ~/.config/dask && rm -f ~/.config/dask/a.yaml && mkfifo ~/.config/dask/a.yaml"
    )
    end_scheduler(cluster)
    with pytest.raises(
        EngineFailed, match="dask-scheduler on node 0 of gang is not up after 3 s"
    ) as error:
        cluster.dask()
    assert error.value.code == "engine.timeout"
    assert "gang.start_engine() waits for it again" in error.value.hint
    monkeypatch.undo()
    cluster.bash("echo >~/.config/dask/a.yaml; rm ~/.config/dask/a.yaml")  # it goes on
    client = cluster.dask()
    assert client.submit(sum, [1, 2]).result() == 3
    client.close()
