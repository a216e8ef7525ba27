"""Clusters stop and start with everything restored, wait for capacity, and are renamed."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import Any

import pytest
from life_world import FULL, alive, market, other_kernel, outputs
from tunnel_world import SPEC, WAIT_SECONDS, TunnelWorld, get, listens, until

from nbprov import api
from nbprov.api.launching.cluster_start import NoRoom
from nbprov.api.services.teardown import UsedAgain
from nbprov.machines.cells.cells import python_cell
from nbprov.model.clusters import ClusterState, DesiredState
from nbprov.model.errors import NbprovError, NotFound
from nbprov.provisioning.ledger import ClusterRow
from nbprov.provisioning.ledger.runs import NameTaken
from nbprov.provisioning.live_cluster import agent_of
from nbprov.remote.ssh.keys import ClusterKeys

pytestmark = pytest.mark.machine

ENDLESS = "import time\nopen('started', 'w').close()\ntime.sleep(600)"
END_AGENT = """\
import json, os, signal, time
time.sleep(0.3)
stand_in = os.path.join(os.environ["NBPROV_MACHINE"], "bin", "systemctl")
with open(stand_in, "w") as file:
    file.write("#!/bin/sh\\necho stopping\\n")
os.kill(json.load(open(".nbprov/agent.json"))["pid"], signal.SIGTERM)
"""


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
        "nbprov: the kernel had ended (the machine was stopped and started since);"
        " this is a new one, its variables are gone\nFalse\n"
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
    # A machine that shuts down does the same: systemd says so, and sends SIGTERM to all processes.
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
    # A line that says that the connection is down may come first.
    assert "nbprov: the kernel had ended (the agent on the machine was restarted)" in told
    assert "lost: train-1" in "\n".join(dev.restored())


def test_a_restarted_kernel_is_not_mourned(world: TunnelWorld) -> None:
    dev = world.up()
    outputs(dev, "x = 1")
    world.session.wait_remote(
        "dev", lambda live: agent_of(live.head).kernels.restart(), WAIT_SECONDS
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
    # The old name is free, and another cluster takes it.
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


def test_who_works_on_what_another_notebook_stops_is_told_so(world: TunnelWorld) -> None:
    dev = world.up()
    with other_kernel(world) as other:
        theirs = other.start_remote("dev", lambda live: python_cell(live, ENDLESS))
        until(lambda: list((world.home / "local" / "i").glob("*/home/started")), "the other's cell")
        dev.stop().wait(WAIT_SECONDS)
        with pytest.raises(NbprovError) as told:
            theirs.result(WAIT_SECONDS)
        assert told.value.code == "cluster.left"
        # It is heard of before or after the cloud's listing says so.
        stopped = r"dev (was|is being) stopped while this ran \(you stopped it\)"
        assert re.match(stopped, told.value.message)
        with pytest.raises(NotFound, match="dev is stopped"):
            other.cluster("dev").cell("1", timeout=WAIT_SECONDS)
        dev.start().wait(WAIT_SECONDS)
        assert other.cluster("dev").cell("1 + 1", timeout=WAIT_SECONDS).value == "2"


@pytest.mark.parametrize("when", ["wanted", "under way", "over"])
def test_an_end_beside_another_notebooks_stop_is_carried_out(
    world: TunnelWorld, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    dev = world.up()
    with other_kernel(world) as other:
        hooks = world.session.services.teardown._hooks
        pull, ledger = hooks.pull_before_end, other.engine.ledger

        async def stopped_meanwhile(row: ClusterRow) -> None:
            asked, reason = (row.cluster_id, row.state), "you stopped it"
            if when == "wanted":
                ledger.clusters.move(*asked, reason, desired=DesiredState.STOPPED)
            elif when == "under way":
                ledger.clusters.move(row.cluster_id, ClusterState.STOPPING, reason)
            else:  # this kernel was suspended for long, and so has no lease any more
                world.session.engine.ledger.leases.release(row.run_id)
                stop = other.engine.thread.call(other.engine.lifecycle.stop(row))
                await asyncio.wrap_future(stop)
                assert alive(world) == ["stopped"]
            await pull(row)

        monkeypatch.setattr(hooks, "pull_before_end", stopped_meanwhile)
        dev.down().wait(WAIT_SECONDS)
        assert alive(world) == []


@pytest.mark.parametrize("who", ["another notebook", "the same notebook"])
def test_a_stop_of_what_is_to_be_ended_is_refused_at_once_and_the_end_is_carried_out(
    world: TunnelWorld, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    dev = world.up()
    with other_kernel(world) as other:
        hooks = world.session.services.teardown._hooks
        theirs = other.cluster("dev") if who == "another notebook" else dev
        pull, refused = hooks.pull_before_end, list[BaseException]()

        async def stop_meanwhile(row: ClusterRow) -> None:
            try:
                await asyncio.wrap_future(theirs.stop()._future)
            except NbprovError as error:
                refused.append(error)
            assert alive(world) == ["running"]
            await pull(row)

        monkeypatch.setattr(hooks, "pull_before_end", stop_meanwhile)
        dev.down().wait(WAIT_SECONDS)
        assert alive(world) == []
        (error,) = refused
        assert isinstance(error, UsedAgain)
        assert error.message == "dev is to be ended: you ended it"


@pytest.mark.parametrize("word", ["down", "stop"])
def test_a_cell_that_uses_what_was_about_to_go_says_so(world: TunnelWorld, word: str) -> None:
    dev, engine = world.up(), world.session.engine
    desired = DesiredState.ENDED if word == "down" else DesiredState.STOPPED
    assert engine.lifecycle.ask(engine.cluster("dev"), desired, "you asked for it")
    again = world.session.provision(SPEC % "", "dev")
    assert isinstance(again, api.Cluster)
    assert again.cluster_id == dev.cluster_id
    assert engine.cluster("dev").pending is None
    (said,) = [line for line in again.remarks if "was about to be" in line]
    assert f"%nbprov {word} dev" in said


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
