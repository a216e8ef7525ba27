"""Tunnels when their clusters stop, start and end, and the tunnels that a spec asks for."""

from __future__ import annotations

import socket

import pytest
from tunnel_world import SPEC, TunnelWorld, get, listens, quiet_port, until

from nbprov import api
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import NotFound
from nbprov.notebook.rendering.runs import run_text

pytestmark = pytest.mark.machine


def test_each_cluster_has_its_own_and_its_end_ends_them(world: TunnelWorld) -> None:
    one, two = world.up("one"), world.up("two")
    first, second = one.tunnel(world.serve(one)), two.tunnel(world.serve(two))
    assert (get(first.local), get(second.local)) == ("page of one", "page of two")
    one.down().wait(120)
    assert first.closed
    assert not listens(first.local)
    assert get(second.local) == "page of two"
    assert [t.cluster for t in world.session.tunnels()] == ["two"]
    world.session.down("two").wait(120)
    assert not listens(second.local)


def test_it_pauses_with_a_stop_and_is_there_again_after_the_start(world: TunnelWorld) -> None:
    dev = world.up()
    port = world.serve(dev)
    tunnel = dev.tunnel(port)
    local = tunnel.local
    before = dev.view().instances[0]
    assert get(local) == "page of dev"
    dev.stop().wait(120)
    assert not listens(local)
    assert tunnel.view().paused == "dev is stopped"
    assert not tunnel.closed
    dev.start().wait(120)
    after = dev.view().instances[0]
    assert (after.host, after.port) != (before.host, before.port), (
        "the local cloud gives a new address"
    )
    world.serve(dev, port)
    assert (tunnel.local, get(local)) == (local, "page of dev")
    assert (tunnel.view().paused, len(world.session.tunnels())) == ("", 1)


def test_after_a_start_it_takes_another_port_where_its_own_is_taken(world: TunnelWorld) -> None:
    dev = world.up()
    port = world.serve(dev)
    tunnel = dev.tunnel(port)
    dev.stop().wait(120)
    local = tunnel.local
    with socket.create_server(("127.0.0.1", local)):
        dev.start().wait(120)
        assert tunnel.local != local
        world.serve(dev, port)
        assert get(tunnel.local) == "page of dev"


def test_what_another_kernel_ends_ends_here(
    world: TunnelWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbprov.machines.tunnels.tunnels.LOOK_EVERY", 0.05)
    dev = world.up()
    tunnel = dev.tunnel(quiet_port())
    # Only the ledger's row changes; nothing tells this kernel.
    world.session.engine.ledger.clusters.move(
        dev.cluster_id, ClusterState.STOPPING, "by another kernel"
    )
    until(lambda: tunnel.view().paused == "dev is stopping", "the pause")
    assert not listens(tunnel.local)
    world.session.engine.ledger.clusters.move(
        dev.cluster_id, ClusterState.ENDING, "by another kernel"
    )
    until(lambda: tunnel.closed, "the end")


def test_the_ports_of_a_spec_are_open_when_it_is_ready_and_the_panel_says_where(
    world: TunnelWorld,
) -> None:
    port = quiet_port()
    run = world.session.provision(SPEC % f", ports: [{port}, 20000-20015, 30000-30016]", "dev")
    assert isinstance(run, api.Run)
    dev = run.launch().wait(120)
    world.serve(dev, port)
    opened = {t.port: t for t in world.session.tunnels()}
    assert sorted(opened) == sorted([port, *range(20000, 20016)])
    assert get(opened[port].local) == "page of dev"
    said = run_text(run.view())
    assert f"http://127.0.0.1:{opened[port].local} is port {port} of dev" in said
    assert (
        "ports 30000-30016 are too many to open automatically: %nbprov tunnel dev PORT opens one"
        in said
    )
    # The same cell again, as in a kernel that has not opened the tunnels: it opens them.
    world.session.close_tunnels(world.session.tunnels())
    again = world.session.provision(SPEC % f", ports: [{port}, 20000-20015, 30000-30016]", "dev")
    assert isinstance(again, api.Cluster)
    assert (
        f"http://127.0.0.1:{world.session.tunnels()[0].local} is port {min(port, 20000)} of dev"
        in again.remarks
    )
    assert get(next(t.local for t in world.session.tunnels() if t.port == port)) == "page of dev"
    again.down().wait(120)
    assert "http://127.0.0.1" not in run_text(run.view())


def test_a_tunnel_needs_not_wait_for_the_setup(world: TunnelWorld) -> None:
    run = world.session.provision(
        SPEC % ", ports: 20100" + "\nsetup: while [ ! -e go ]; do sleep 0.05; done", "dev"
    )
    assert isinstance(run, api.Run)
    run.launch()
    until(lambda: world.session.tunnels(), "the spec's own tunnel")
    with world.session.cluster("dev").tunnel(quiet_port()) as tunnel:
        assert listens(tunnel.local)
        assert not run.done
    (home,) = (world.home / "local" / "i").glob("*/home")
    (home / "go").touch()
    run.wait(120)


def test_a_stopped_cluster_has_no_port(world: TunnelWorld) -> None:
    dev = world.up()
    dev.stop().wait(120)
    with pytest.raises(NotFound, match="dev is stopped"):
        dev.tunnel(8080)
    assert world.session.tunnels() == []


def test_ports_that_are_public_get_no_tunnel_and_are_told_with_their_address(
    world: TunnelWorld,
) -> None:
    text = SPEC % ", ports: [20000, 20001-20003]" + "\nexpose: {20002: public}"
    run = world.session.provision(text, "dev")
    assert isinstance(run, api.Run)
    (head,) = run.launch().wait(60).view().instances
    assert [t.port for t in world.session.tunnels()] == [20000, 20001, 20003]
    told = f"http://{head.host}:20002 is public port 20002 of dev"
    assert told in run_text(run.view())
    again = world.session.provision(text, "dev")
    assert isinstance(again, api.Cluster)
    assert told in again.remarks
    world.up("open", more=", ports: 20000", rest="\nexpose: public")
    assert {t.cluster for t in world.session.tunnels()} == {"dev"}


def test_each_node_has_ports_of_its_own(world: TunnelWorld) -> None:
    pair = world.up("pair", rest="\nnum_nodes: 2")
    port = world.serve(pair)
    tunnel = pair.tunnel(port, node=1)
    assert get(tunnel.local) == "page of pair", "both nodes are this computer"
    assert (tunnel.node, tunnel.view().cluster) == (1, "pair")
    assert pair.tunnel(port).local != tunnel.local
    assert "nbprov-pair" in " ".join(world.session.services.ssh.file.names())
    assert len(world.session.services.ssh.file.names()) == 2
