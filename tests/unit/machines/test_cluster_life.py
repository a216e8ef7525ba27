"""Stop and start with everything restored, rooms that are full, other names, and a new cluster in the place of an old one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tunnel_world import MARKET, SPEC, WAIT_SECONDS, TunnelWorld, get, listens, until

from nbprov import api
from nbprov.api.launching.cluster_replacement import NotReplaced
from nbprov.api.launching.cluster_start import NoRoom
from nbprov.clouds.local.provisioner import LocalCloud
from nbprov.machines.agents import agent_of
from nbprov.machines.cells.cells import python_cell
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import NbprovError, NotFound
from nbprov.model.launches import InstanceState
from nbprov.provisioning.async_cloud import AsyncCloud
from nbprov.provisioning.ledger.runs import NameTaken
from nbprov.remote.ssh.keys import ClusterKeys

pytestmark = pytest.mark.machine

FULL = '[[stock]]\ntype = "small"\nleft = 0\n'
BIG = '[[types]]\nname = "big"\nhourly = 0.2\nvcpus = 4\nmemory_gib = 8\n'
ENDLESS = "import time\nopen('started', 'w').close()\ntime.sleep(600)"
END_AGENT = """\
import json, os, signal, time
time.sleep(0.3)
os.kill(json.load(open(".nbprov/agent.json"))["pid"], signal.SIGTERM)
"""
LATER = "resources: {cloud: local, instance_type: big}"


def market(world: TunnelWorld, more: str = "", *, accept: float = 0.0) -> None:
    folder = world.home / "local"
    (folder / "market.new").write_text(
        MARKET.replace("accept = 0.0", f"accept = {accept}") + more, encoding="utf-8"
    )
    (folder / "market.new").replace(folder / "market.toml")


@contextmanager
def other_kernel(world: TunnelWorld) -> Iterator[api.Session]:
    """Another session on the same home, with an engine and a ledger connection of its own."""
    session = api.Session(world.home)
    session.engine._clouds["local"] = AsyncCloud(LocalCloud(world.home / "local"))
    try:
        yield session
    finally:
        session.close()


def alive(world: TunnelWorld) -> list[str]:
    owner = world.session.engine.ledger.owner
    listed = LocalCloud(world.home / "local").list(owner)
    return [i.state.value for i in listed if i.state.value != "gone"]


def outputs(cluster: api.Cluster, code: str) -> str:
    heard: list[dict[str, Any]] = []
    cluster.cell(code, on_output=heard.append, timeout=WAIT_SECONDS)
    return "".join(str(m["content"]["text"]) for m in heard if m["msg_type"] == "stream")


# ---------------------------------------------------------------- stop and start


def test_a_start_restores_what_can_be_and_says_what_cannot(world: TunnelWorld) -> None:
    dev = world.up()
    config = world.session.write_ssh_config()
    port = world.serve(dev)
    tunnel = dev.tunnel(port)
    assert outputs(dev, "x = 41") == ""
    dev.bash("echo kept > note", timeout=WAIT_SECONDS)
    world.session.wait_remote(
        "dev",
        lambda live: agent_of(live.head).run_job("sleep 600", name="train", id="train-1"),
        WAIT_SECONDS,
    )
    before, keys = dev.view().instances[0], ClusterKeys.load(world.home / "keys" / dev.cluster_id)
    dev.stop().wait(WAIT_SECONDS)
    dev.start().wait(WAIT_SECONDS)
    after = dev.view().instances[0]
    assert after.port != before.port
    assert ClusterKeys.load(world.home / "keys" / dev.cluster_id).host_public == keys.host_public
    until(
        lambda: f"Port {after.port}" in config.read_text(),
        "the ssh config file with the new address",
    )
    assert listens(tunnel.local)
    said = "\n".join(dev.restored())
    assert f"127.0.0.1:{tunnel.local} is port {port} of dev" in said
    assert f"port {after.port}" in said
    assert "train-1" in said.partition("lost: ")[2]
    jobs = {job.id: job.state for job in dev.jobs()}
    assert jobs["train-1"] == "lost"
    assert dev.bash("cat note", timeout=WAIT_SECONDS).text == "kept\n"
    told = outputs(dev, "print('x' in globals())")
    assert told == (
        "nbprov: the kernel had ended (the machine was stopped and started since); this is a new one, its variables are gone\nFalse\n"
    )
    assert outputs(dev, "print('again')") == "again\n", "said once"


def test_what_an_agent_that_ends_in_order_cuts_off_is_lost_not_cancelled(
    world: TunnelWorld,
) -> None:
    dev = world.up()
    outputs(dev, "x = 1")
    world.session.wait_remote(
        "dev",
        lambda live: agent_of(live.head).run_job("sleep 600", name="train", id="train-1"),
        WAIT_SECONDS,
    )
    # As a machine does that is shut down: SIGTERM to all, and time to end.
    dev.bash(
        f"cat > end.py <<'X'\n{END_AGENT}X\nnohup setsid python3 end.py > /dev/null 2>&1 &",
        timeout=WAIT_SECONDS,
    )
    until(
        lambda: {job.id: job.state for job in dev.jobs()}["train-1"] == "lost", "the end of the job"
    )
    told = until(
        lambda: (
            told if (told := outputs(dev, "print('x' in globals())")).startswith("nbprov") else None
        ),
        "a new kernel",
    )
    assert told.startswith("nbprov: the kernel had ended (the agent on the machine was restarted)")
    assert "lost: train-1" in "\n".join(dev.restored())


def test_a_restarted_kernel_is_not_mourned(world: TunnelWorld) -> None:
    dev = world.up()
    outputs(dev, "x = 1")
    world.session.wait_remote(
        "dev", lambda live: agent_of(live.head).restart_kernel(), WAIT_SECONDS
    )
    dev.stop().wait(WAIT_SECONDS)
    dev.start().wait(WAIT_SECONDS)
    assert outputs(dev, "print(1)") == "1\n"


def test_the_ssh_config_follows_a_mere_change_of_address(
    world: TunnelWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    dev = world.up()
    config = world.session.write_ssh_config()
    engine = world.session.engine
    cloud = engine.cloud("local")
    listed = cloud.adapter.list(engine.ledger.owner)
    monkeypatch.setattr(
        cloud.adapter, "list", lambda owner: [replace(i, port=4711) for i in listed]
    )
    engine.thread.call(engine.lifecycle.observe(cloud)).result(WAIT_SECONDS)
    assert dev.state is ClusterState.RUNNING
    until(lambda: "Port 4711" in config.read_text(), "the new port in the file")


def test_a_start_without_room_says_where_the_disk_is_and_what_can_be_done(
    world: TunnelWorld,
) -> None:
    dev = world.up()
    dev.stop().wait(WAIT_SECONDS)
    market(world, FULL)
    with pytest.raises(NoRoom) as told:
        dev.start().wait(WAIT_SECONDS)
    assert told.value.message.startswith(
        "dev stays stopped: its disk is in local/here/here-a, and there is no room for it now"
    )
    assert "%nbprov start dev --wait 30m" in told.value.hint
    assert "starts nowhere else" in told.value.hint
    assert told.value.code == "cloud.capacity"
    assert (dev.state, alive(world)) == (ClusterState.STOPPED, ["stopped"])


def test_a_start_that_waits_for_room_gets_it(
    world: TunnelWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbprov.api.launching.cluster_start.FIRST_PAUSE", 0.05)
    dev = world.up()
    dev.stop().wait(WAIT_SECONDS)
    market(world, FULL)
    said: list[str] = []
    starting = dev.start(wait=60.0)
    starting.on_say = said.append
    until(lambda: said, "the word that there is no room")
    market(world)
    starting.wait(WAIT_SECONDS)
    assert (dev.state, alive(world)) == (ClusterState.RUNNING, ["running"])
    assert "dev: no room in local/here/here-a now; tried again in" in said[0]


def test_a_wait_for_room_can_be_given_up(world: TunnelWorld) -> None:
    dev = world.up()
    dev.stop().wait(WAIT_SECONDS)
    market(world, FULL)
    starting = dev.start(wait=600.0)
    starting.on_say = lambda text: starting.give_up()
    with pytest.raises(NoRoom):
        starting.wait(WAIT_SECONDS)
    assert dev.state is ClusterState.STOPPED


# ---------------------------------------------------------------- names


def test_a_renamed_cluster_is_followed_by_all_that_knows_it(world: TunnelWorld) -> None:
    dev = world.up()
    config = world.session.write_ssh_config()
    port = world.serve(dev)
    tunnel = dev.tunnel(port)
    handle = world.session.cluster("dev")
    with other_kernel(world) as other:
        theirs = other.cluster("dev")
        assert theirs.cell("x = 41", timeout=WAIT_SECONDS).text == ""
        assert dev.rename("train") is dev
        assert (dev.name, handle.state, handle.name) == ("train", ClusterState.RUNNING, "train")
        assert theirs.cell("x + 1", timeout=WAIT_SECONDS).value == "42"
        assert theirs.name == "train"
        with pytest.raises(NotFound, match="dev was renamed: it is called train now"):
            other.cluster("dev")
    until(
        lambda: "Host nbprov-train\n" in config.read_text(), "the new name in the ssh config file"
    )
    assert "nbprov-dev" not in config.read_text()
    assert get(tunnel.local) == "page of dev"
    until(lambda: tunnel.cluster == "train", "the tunnel's new name")
    world.cut()
    assert get(tunnel.local) == "page of dev", "over a line that was made anew"
    assert [v.name for v in world.session.clusters()] == ["train"]
    # The old name is free, and its owner is another cluster.
    fresh = world.up()
    assert fresh.cluster_id != dev.cluster_id
    dev.stop().wait(WAIT_SECONDS)
    dev.start().wait(WAIT_SECONDS)
    assert dev.cell("1 + 1", timeout=WAIT_SECONDS).value == "2"


def test_names_that_cannot_be_given(world: TunnelWorld) -> None:
    dev, other = world.up(), world.up("other")
    with pytest.raises(NameTaken, match="'other' is running already"):
        dev.rename("other")
    with pytest.raises(NbprovError, match="cannot be a cluster's name"):
        dev.rename("a b")
    market(world, accept=5.0)
    run = world.session.provision(SPEC % "", "third")
    assert isinstance(run, api.Run)
    run.launch()
    with pytest.raises(NotFound, match="third is launching and is no cluster yet"):
        world.session.rename("third", "fourth")
    with pytest.raises(NameTaken, match="'third' is launching already"):
        dev.rename("third")
    run.cancel().settled(WAIT_SECONDS)
    other.down().wait(WAIT_SECONDS)
    dev.rename("other")
    with pytest.raises(NotFound, match="no live cluster is called 'third'"):
        world.session.rename("third", "fourth")


# ---------------------------------------------------------------- in the place of another


def test_a_cluster_is_replaced_only_when_the_new_one_is_set_up(world: TunnelWorld) -> None:
    market(world, BIG)
    dev = world.up()
    with pytest.raises(api.DoesNotFit) as told:
        world.session.provision(LATER, "dev")
    assert "%%provision dev --replace" in told.value.hint
    run = world.session.provision(
        LATER + "\nsetup: while [ ! -e go ]; do sleep 0.05; done", "dev", replace=True
    )
    assert isinstance(run, api.Run)
    (note,) = [n for n in run.view().notes if "takes the place of" in n]
    assert "takes the place of dev (small, $0.10/h, running)" in note
    assert "both are billed until then" in note
    run.launch()
    homes = world.home / "local" / "i"
    until(lambda: world.session.engine.ledger.clusters.named("dev-next"), "the new one")
    assert (dev.state, dev.name, alive(world)) == (
        ClusterState.RUNNING,
        "dev",
        ["running", "running"],
    )
    for home in homes.glob("*/home"):
        (home / "go").touch()
    made = run.wait(WAIT_SECONDS)
    assert (made.name, run.name) == ("dev", "dev")
    assert made.view().candidate.offer.instance_type == "big"
    until(lambda: alive(world) == ["running"], "the end of the old one")
    old = world.session.engine.ledger.clusters.named("dev-old")
    assert old is not None
    assert old.cluster_id == dev.cluster_id
    assert world.session.cluster("dev").cell("1 + 1", timeout=WAIT_SECONDS).value == "2"


def test_what_was_to_be_replaced_stays_where_the_new_one_comes_to_nothing(
    world: TunnelWorld,
) -> None:
    market(world, BIG + '[[stock]]\ntype = "big"\nleft = 0\n')
    dev = world.up()
    run = world.session.provision(LATER, "dev", replace=True)
    assert isinstance(run, api.Run)
    with pytest.raises(NbprovError):
        run.launch().wait(WAIT_SECONDS)
    assert (dev.state, dev.name, alive(world)) == (ClusterState.RUNNING, "dev", ["running"])


def test_a_new_one_that_a_dead_kernel_left_beside_the_old_takes_its_place(
    world: TunnelWorld,
) -> None:
    market(world, BIG)
    dev = world.up()
    made = world.session.provision(LATER, "dev-next")
    assert isinstance(made, api.Run)
    made.launch().wait(WAIT_SECONDS)
    again = world.session.provision(LATER, "dev", replace=True)
    assert isinstance(again, api.Cluster)
    assert (again.name, again.view().candidate.offer.instance_type) == ("dev", "big")
    assert "has taken the place of dev" in " ".join(again.remarks)
    until(lambda: alive(world) == ["running"], "the end of the old one")
    until(lambda: "ended" in repr(dev), "the end in the ledger")


def test_outputs_of_the_old_one_come_before_it_is_replaced(
    world: TunnelWorld, tmp_path: Path
) -> None:
    market(world, BIG)
    run = world.session.provision(SPEC % "" + "\noutputs: [results]", "dev", folder=str(tmp_path))
    assert isinstance(run, api.Run)
    dev = run.launch().wait(WAIT_SECONDS)
    dev.bash("mkdir results; touch results/a $'results/bad\\x01name'", timeout=WAIT_SECONDS)
    new = world.session.provision(LATER, "dev", replace=True, folder=str(tmp_path))
    assert isinstance(new, api.Run)
    with pytest.raises(NotReplaced, match="dev is kept, under its guards: not all of its outputs"):
        new.launch().wait(WAIT_SECONDS)
    assert (tmp_path / "results" / "a").exists()
    assert (dev.state, dev.name, alive(world)) == (
        ClusterState.RUNNING,
        "dev",
        ["running", "running"],
    )
    dev.bash("rm -r results; mkdir results; touch results/b", timeout=WAIT_SECONDS)
    again = world.session.provision(LATER, "dev", replace=True, folder=str(tmp_path))
    assert isinstance(again, api.Cluster)
    assert (tmp_path / "results" / "b").exists()
    until(lambda: alive(world) == ["running"], "the end of the old one")


def test_a_wrong_name_among_those_to_be_ended_spares_none_of_the_others(
    world: TunnelWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nbprov.notebook.commands import outputs as outputs_command

    world.up()
    monkeypatch.setattr(outputs_command, "session", lambda: world.session)
    (_, wrong, _), (_, right, _) = outputs_command.followed(["typo", "dev"], world.session.down)
    with pytest.raises(NotFound, match="typo"):
        wrong.wait()
    right.wait(WAIT_SECONDS)
    assert alive(world) == []


def test_that_it_was_replaced_outlives_a_doubt(
    world: TunnelWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    dev = world.up()
    engine = world.session.engine
    assert engine.ledger.clusters.move(
        dev.cluster_id, ClusterState.RUNNING, "replaced: another cluster is called dev now"
    )
    cloud = engine.cloud("local")
    listed = cloud.adapter.list(engine.ledger.owner)
    with monkeypatch.context() as patch:
        patch.setattr(
            cloud.adapter,
            "list",
            lambda owner: [replace(i, state=InstanceState.UNKNOWN) for i in listed],
        )
        engine.thread.call(engine.lifecycle.observe(cloud)).result(WAIT_SECONDS)
        row = engine.ledger.clusters.by_id(dev.cluster_id)
        assert row is not None
        assert row.reason.startswith("replaced: ")
    until(lambda: alive(world) == [], "the end by the watcher")


def test_one_that_was_replaced_is_ended_by_whoever_sees_it(world: TunnelWorld) -> None:
    market(world, BIG)
    dev = world.up()
    made = world.session.provision(LATER, "dev-next")
    assert isinstance(made, api.Run)
    new = made.launch().wait(WAIT_SECONDS)
    # The one change of the ledger, and then the kernel is gone.
    world.session.engine.ledger.clusters.take_place(
        new.cluster_id, dev.cluster_id, "dev-old", "replaced: by a kernel that died"
    )
    until(lambda: alive(world) == ["running"], "the end by the watcher")
    assert world.session.engine.cluster("dev").cluster_id == new.cluster_id


# ---------------------------------------------------------------- other notebooks


def test_who_works_on_what_another_notebook_stops_is_told_so(world: TunnelWorld) -> None:
    dev = world.up()
    with other_kernel(world) as other:
        theirs = other.start_remote("dev", lambda live: python_cell(live, ENDLESS))
        until(lambda: list((world.home / "local" / "i").glob("*/home/started")), "the other's cell")
        dev.stop().wait(WAIT_SECONDS)
        with pytest.raises(NbprovError) as told:
            theirs.result(WAIT_SECONDS)
        assert told.value.code == "cluster.left"
        assert told.value.message.startswith("dev was stopped while this ran (you stopped it)")
        with pytest.raises(NotFound, match="dev is stopped"):
            other.cluster("dev").cell("1", timeout=WAIT_SECONDS)
        dev.start().wait(WAIT_SECONDS)
        assert other.cluster("dev").cell("1 + 1", timeout=WAIT_SECONDS).value == "2"


def test_what_another_notebook_does_is_told_to_who_follows(world: TunnelWorld) -> None:
    dev = world.up()
    with other_kernel(world) as other:
        seen: list[str] = []
        other.engine.subscribe(
            lambda: seen.append(
                ", ".join(f"{v.name} {v.state.value}" for v in other.clusters(ended=True))
            )
        )
        dev.rename("train")
        until(lambda: seen and seen[-1] == "train running", "the new name")
        dev.down().wait(WAIT_SECONDS)
        until(lambda: seen[-1] == "train ended", "the end")


def test_a_session_that_closes_leaves_no_connection_open(world: TunnelWorld) -> None:
    world.up()
    with other_kernel(world) as other:
        other.cluster("dev").bash("true", timeout=WAIT_SECONDS)
        (live,) = other.engine.live.values()
        connection = live.head.connection
        assert connection is not None
        other.close()
        assert not connection.is_open


def test_no_connection_is_left_open_where_an_agent_cannot_be_started(
    world: TunnelWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.up("pair", rest="\nnum_nodes: 2")
    opened: list[Any] = []

    async def fails(live: Any, guards: Any, seconds: float) -> None:
        opened.extend(node.connection for node in live.nodes)
        raise OSError("the agent does not start")

    with other_kernel(world) as other:
        monkeypatch.setattr("nbprov.provisioning.live_cluster.LiveCluster.start_agents", fails)
        with pytest.raises(OSError, match="does not start"):
            other.cluster("pair").bash("true", timeout=WAIT_SECONDS)
        monkeypatch.undo()
        assert [connection.is_open for connection in opened] == [False, False]
        assert not other.engine.live
        other.cluster("pair").bash("true", timeout=WAIT_SECONDS)
