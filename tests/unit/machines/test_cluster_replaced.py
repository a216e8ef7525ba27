"""A new cluster takes the place of an old one, which is ended only once the new one is ready."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from life_world import BIG, LATER, alive, market
from tunnel_world import SPEC, WAIT_SECONDS, TunnelWorld, until

from nbprov import api
from nbprov.api.launching.cluster_replacement import NotReplaced
from nbprov.model.clusters import ClusterState, DesiredState
from nbprov.model.errors import NbprovError, NotFound
from nbprov.model.launches import InstanceState

pytestmark = [pytest.mark.machine, pytest.mark.usefixtures("bare_names")]


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
    (note,) = [n for n in run.view().notes if "replaces" in n]
    assert "replaces dev (small, $0.10/h, running)" in note
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
    assert (tmp_path / "dev-outputs" / "results" / "a").exists()
    assert (dev.state, dev.name, alive(world)) == (
        ClusterState.RUNNING,
        "dev",
        ["running", "running"],
    )
    dev.bash("rm -r results; mkdir results; touch results/b", timeout=WAIT_SECONDS)
    again = world.session.provision(LATER, "dev", replace=True, folder=str(tmp_path))
    assert isinstance(again, api.Cluster)
    assert (tmp_path / "dev-outputs" / "results" / "b").exists()
    until(lambda: alive(world) == ["running"], "the end of the old one")


def test_a_wrong_name_among_those_to_be_ended_spares_none_of_the_others(
    world: TunnelWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nbprov.notebook.commands import outputs as outputs_command

    world.up()
    monkeypatch.setattr(outputs_command, "session", lambda: world.session)
    (_, wrong, _), (_, right, _) = outputs_command.begin_with_outputs(
        ["typo", "dev"], world.session.down
    )
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
        dev.cluster_id,
        ClusterState.RUNNING,
        "another cluster is called dev now",
        desired=DesiredState.REPLACED,
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
        assert row.desired_state is DesiredState.REPLACED
    until(lambda: alive(world) == [], "the end by the watcher")


def test_one_that_was_replaced_is_ended_by_whoever_sees_it(world: TunnelWorld) -> None:
    market(world, BIG)
    dev = world.up()
    made = world.session.provision(LATER, "dev-next")
    assert isinstance(made, api.Run)
    new = made.launch().wait(WAIT_SECONDS)
    # Only the ledger is changed, as if the kernel died right afterwards.
    world.session.engine.ledger.clusters.take_place(
        new.cluster_id, dev.cluster_id, "dev-old", "replaced: by a kernel that died"
    )
    until(lambda: alive(world) == ["running"], "the end by the watcher")
    assert world.session.engine.cluster("dev").cluster_id == new.cluster_id
