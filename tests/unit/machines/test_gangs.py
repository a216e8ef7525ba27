"""Clusters of several machines: they reach each other, stay up while one works, end together."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from typing import Any

import pytest
from tunnel_world import SPEC, WAIT_SECONDS, TunnelWorld, until

from nbprov import api
from nbprov.clouds.local.provisioner import LocalCloud
from nbprov.machines import idle_inhibitor
from nbprov.model.launches import InstanceState
from nbprov.provisioning.live_cluster import LiveCluster, agent_of
from nbprov.remote.agent.config import GuardConfig
from nbprov.remote.agent.framing import AgentError
from nbprov.remote.ssh.keys import CLIENT_KEY

pytestmark = pytest.mark.machine

MEET = """
import os, socket, time
rank, nodes = int(os.environ["NODE_RANK"]), int(os.environ["NNODES"])
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    with socket.create_server(place) as server:
        server.settimeout(60)
        names = sorted(server.accept()[0].recv(9).decode() for _ in range(nodes - 1))
        print("met", names, flush=True)
else:
    end = time.monotonic() + 60
    while True:
        try:
            with socket.create_connection(place, 5) as caller:
                caller.sendall(f"node {rank}".encode())
            break
        except ConnectionRefusedError:
            assert time.monotonic() < end
            time.sleep(0.05)
"""

NAMES = (
    "('MASTER_', 'NNODES', 'NODE_RANK', 'NPROC_', 'PET_', 'OMPI_', 'PRTE_', 'HYDRA_',"
    " 'NBPROV_HOSTFILE', 'NBPROV_NODE_IPS', 'SKYPILOT_')"
)
SHOW = (
    "import json, os;"
    f" print(json.dumps({{k: v for k, v in os.environ.items() if k.startswith({NAMES})}}))"
)


def _environment(text: str) -> dict[str, str]:
    found = json.loads(next(line for line in text.splitlines() if line.startswith("{")))
    assert isinstance(found, dict)
    return found


def _live(world: TunnelWorld) -> LiveCluster:
    (live,) = world.session.engine.live.values()
    return live


def test_the_nodes_of_a_cluster_meet_and_reach_each_other(world: TunnelWorld) -> None:
    pair = world.up(
        "pair",
        rest=f"\nnum_nodes: 2\nrun: |\n  python3 - <<'END'\n{_indented(MEET)}\n  END\n"
        f'  python3 -c "{SHOW}"',
    )
    assert _live(world).notes == []
    assert pair.wait_job("run", WAIT_SECONDS) == 0
    log = pair.logs("run")
    assert "met ['node 1']" in log
    # A job, a script and Python see the same variables.
    told = _environment(log)
    assert _environment(pair.bash(f'python3 -c "{SHOW}"', timeout=WAIT_SECONDS).text) == told
    assert _environment(pair.cell(SHOW, timeout=WAIT_SECONDS).text) == told
    assert told["PET_MASTER_ADDR"] == told["MASTER_ADDR"] == told["NBPROV_NODE_IPS"].splitlines()[0]
    assert (told["PET_NNODES"], told["PET_NODE_RANK"], told["PET_NPROC_PER_NODE"]) == (
        "2",
        "0",
        "1",
    )
    assert "PET_RDZV_ENDPOINT" not in told
    assert not {"RANK", "LOCAL_RANK", "WORLD_SIZE"} & set(told)
    hosts = pair.bash(
        "cat $NBPROV_HOSTFILE $HYDRA_HOST_FILE", timeout=WAIT_SECONDS
    ).text.splitlines()
    assert hosts == [f"{ip} slots=2" for ip in told["NBPROV_NODE_IPS"].splitlines()] + [
        f"{ip}:2" for ip in told["NBPROV_NODE_IPS"].splitlines()
    ]
    _reach(pair)
    # The key of the notebook's own log-in is on no machine.
    key = (
        (world.session.engine.home / "keys" / _live(world).run_id / CLIENT_KEY)
        .read_text()
        .splitlines()[2]
    )
    assert (
        pair.bash(
            f"grep -rlF '{key}' $HOME $NBPROV_MACHINE/boot || echo nowhere", timeout=WAIT_SECONDS
        ).text
        == "nowhere\n"
    )


def _reach(pair: api.Cluster) -> None:
    """Each node logs in to the other, by name and by address, and runs there."""
    for here, there in ((0, 1), (1, 0)):
        by_address = (
            f"ssh -n $(echo \"$NBPROV_NODE_IPS\" | sed -n {there + 1}p) 'echo $NBPROV_NODE'"
        )
        said = pair.bash(
            f"ssh -n node{there} 'echo $NBPROV_NODE'; {by_address}",
            nodes=str(here),
            timeout=WAIT_SECONDS,
        )
        assert said.text == f"{there}\n{there}\n"


def _indented(text: str) -> str:
    return "\n".join("  " + line for line in text.strip().splitlines())


# Where machines share one computer's addresses, Open MPI's launcher sometimes waits for a daemon
# for ever; it is then started again.
MPIRUN = r"""
root=$([ "$(id -u)" = 0 ] && echo --allow-run-as-root)
for attempt in 1 2 3 4 5; do
    : >said
    mpirun $root sh -c \
        'echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE on node $NBPROV_NODE"' \
        >said 2>/dev/null </dev/null &
    SECONDS=0
    until [ "$(grep -c 'on node [0-9]' said)" = 6 ] || [ $SECONDS -gt 20 ]; do sleep 0.05; done
    { kill -9 $! && wait $!; } 2>/dev/null
    [ $SECONDS -gt 20 ] || break
done
sort said
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="machines have addresses of their own"
)
def test_mpirun_finds_the_machines_without_a_word_on_its_line(world: TunnelWorld) -> None:
    gang = world.up("gang", rest="\nnum_nodes: 3")
    said = gang.bash(MPIRUN, timeout=2 * WAIT_SECONDS).text.splitlines()
    assert said == [f"rank {rank} of 6 on node {rank // 2}" for rank in range(6)], (
        "two slots a node, as its vCPUs"
    )


def test_after_a_stop_and_start_the_ranks_are_the_same_and_the_files_true(
    world: TunnelWorld,
) -> None:
    pair = world.up("pair", rest="\nnum_nodes: 2")
    write = "hostname >who; cat $NBPROV_HOSTFILE"
    before = [pair.bash(write, nodes=node, timeout=WAIT_SECONDS).text for node in ("0", "1")]
    pair.stop().wait(WAIT_SECONDS)
    pair.start().wait(WAIT_SECONDS)
    after = [
        pair.bash(
            "[ $(cat who) = $(hostname) ] && cat $NBPROV_HOSTFILE", nodes=node, timeout=WAIT_SECONDS
        ).text
        for node in ("0", "1")
    ]
    assert before[0] == before[1] != after[0] == after[1], "this cloud gives new addresses"
    assert pair.bash("echo $NODE_RANK", nodes="1", timeout=WAIT_SECONDS).text == "1\n"
    _reach(pair)
    lines = pair.bash(
        "grep -c nbprov-gang $NBPROV_AUTHORIZED_KEYS; grep -c Include ~/.ssh/config",
        timeout=WAIT_SECONDS,
    ).text
    assert lines == "1\n1\n", "nothing of ours piles up"


def test_one_machine_has_a_hosts_file_and_no_key(world: TunnelWorld) -> None:
    one = world.up("one")
    assert (
        one.bash(
            "cat $NBPROV_HOSTFILE; ls -d ~/.ssh ~/.nbprov/gang 2>&1 | grep -c 'No such'",
            timeout=WAIT_SECONDS,
        ).text
        == "localhost slots=2\n2\n"
    )
    told = _environment(one.bash(f'python3 -c "{SHOW}"', timeout=WAIT_SECONDS).text)
    assert (told["NNODES"], told["NODE_RANK"]) == ("1", "0")
    assert not [name for name in told if name.startswith(("PET_", "OMPI_", "HYDRA_"))]


BROKEN = """
[ "$NODE_RANK" = 0 ] && exec sleep 3600
until [ -e "$HOME/go" ]; do sleep 0.02; done
exit 3
"""


def test_with_no_kernel_the_rest_of_a_broken_job_is_ended_and_after_it_all_nodes_end(
    world: TunnelWorld,
) -> None:
    run = world.session.provision(SPEC % "" + "\nnum_nodes: 2", "pair")
    assert isinstance(run, api.Run)
    pair = run.launch().wait(WAIT_SECONDS)
    idle, owner, cloud = 2.0, world.session.engine.ledger.owner, LocalCloud(world.home / "local")
    poweroff = world.session.engine.cloud("local").capabilities.poweroff
    pair.submit(BROKEN, nodes="all", name="train")

    async def guard(live: LiveCluster) -> None:
        await asyncio.gather(
            *(agent_of(n).set_guards(GuardConfig(poweroff, idle_seconds=idle)) for n in live.nodes)
        )

    world.session.wait_remote("pair", guard, WAIT_SECONDS)
    world.session.close()  # as if the laptop were closed
    homes = list((world.home / "local" / "i").glob("*/home"))
    for home in homes:
        (home / "go").touch()
    ended: dict[str, float] = {}
    over: dict[tuple[str, int], float] = {}
    reasons: set[str] = set()

    def all_ended() -> bool:
        for home in homes:
            with contextlib.suppress(OSError, ValueError):
                told = json.loads(
                    (home / ".nbprov" / "tasks" / "train-1" / "meta.json").read_text()
                )
                if told["state"] == "ended":
                    over.setdefault((told["status"], told["exit_code"]), time.monotonic())
                    reasons.add(told.get("reason", ""))
        for machine in cloud.list(owner):
            if machine.state in (InstanceState.ENDING, InstanceState.GONE):
                assert "idle" in machine.reason
                assert len(over) == 2, (
                    "what runs on one node keeps the other, however long that has been idle itself"
                )
                ended.setdefault(machine.id, time.monotonic())
        return len(ended) == 2

    until(all_ended, "the end of both")
    assert set(over) == {("failed", 3), ("cancelled", -15)}
    assert reasons == {"", "ended: its part on node 1 failed with exit code 3"}
    assert over["cancelled", -15] - over["failed", 3] > idle
    assert max(ended.values()) - min(ended.values()) < idle


def test_agents_that_cannot_hear_of_each_other_are_told_by_the_kernel(
    world: TunnelWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def deaf(*_: Any) -> None:
        raise AgentError("this machine cannot listen for the others", code="agent.gang")

    monkeypatch.setattr("nbprov.remote.agent.gang.GangClient.join", deaf)
    monkeypatch.setattr(idle_inhibitor, "TOUCH_EVERY", 0.2)
    pair = world.up("pair", rest="\nnum_nodes: 2")
    live = _live(world)
    assert live.unheard == {0, 1}
    assert "do not hear of all others" in live.notes[-1]
    pair.bash("sleep 0.5", nodes="1", timeout=WAIT_SECONDS)
    tasks = world.session.wait_remote(
        "pair", lambda live: agent_of(live.nodes[0]).transport.ask("tasks"), WAIT_SECONDS
    )["tasks"]
    assert "touch" in {task["name"] for task in tasks}
