"""Outputs on real machines: what is pulled, under which names, and how an end treats them."""

from __future__ import annotations

from pathlib import Path

import pytest
from outputs_world import Up, listed, make, said, state
from tunnel_world import SPEC, WAIT_SECONDS, TunnelWorld

from nbprov import api
from nbprov.machines.files.outputs import OutputsNotPulled
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import UsageError

pytestmark = [pytest.mark.machine, pytest.mark.usefixtures("bare_names")]


def test_down_pulls_first(world: TunnelWorld, notebook: Path, up: Up) -> None:
    cluster = up('[results, "*.ckpt", "runs/**/best.pt", model.bin, nothing]')
    make(
        cluster,
        "mkdir -p results/deep runs/a/b .hid; echo 1 >results/one; echo 2 >results/deep/two\n"
        "echo 3 >last.ckpt; echo no >.secret.ckpt; echo 4 >runs/a/b/best.pt\n"
        "echo 5 >runs/best.pt; echo 6 >runs/a/worst.pt; ln -s one results/link\n"
        "head -c 3000000 /dev/urandom >model.bin",
    )
    cluster.down().wait(WAIT_SECONDS)
    assert state(world, cluster) is ClusterState.ENDED
    here = [
        "last.ckpt",
        "model.bin",
        "results/deep/two",
        "results/link",
        "results/one",
        "runs/a/b/best.pt",
        "runs/best.pt",
    ]
    assert listed(notebook / "dev-outputs") == here
    assert (notebook / "dev-outputs/model.bin").stat().st_size == 3_000_000
    (words,) = said(cluster, world)
    assert words == "pulled, 7 files, 3.0 MB"


def test_named_targets(notebook: Path, up: Up) -> None:
    (notebook / "logs").mkdir()
    cluster = up(
        "{~/out: ./mine, log.txt: run.log, other.txt: logs, third.txt: logs/, /nowhere/x: z}"
    )
    make(cluster, "mkdir out; echo 1 >out/a; for f in log other third; do echo $f >$f.txt; done")
    done = cluster.outputs()
    assert listed(notebook) == ["logs/other.txt", "logs/third.txt", "mine/a", "run.log"]
    assert (done.files, done.is_whole) == (4, True)
    assert "/nowhere/x: there is nothing of it on the machine" in done.lines
    assert (cluster.outputs().files, cluster.outputs().same) == (0, 4)


def test_relative_to_the_workdir_where_there_is_one(notebook: Path, up: Up) -> None:
    (notebook / "code").mkdir()
    (notebook / "code" / "x.py").write_text("1")
    cluster = up("[out]", "\nworkdir: code")
    make(cluster, "mkdir -p out sky_workdir/out; echo no >out/a; echo yes >sky_workdir/out/a")
    cluster.outputs()
    assert (notebook / "dev-outputs/out/a").read_text() == "yes\n"


def test_what_was_changed_here_stays_and_the_machines_comes_beside(notebook: Path, up: Up) -> None:
    cluster = up("[results]")
    make(cluster, "mkdir results; for f in a b c; do echo first >results/$f; done")
    (notebook / "dev-outputs/results").mkdir(parents=True)
    (notebook / "dev-outputs/results/c").write_text("mine")
    done = cluster.outputs()
    here = notebook / "dev-outputs"
    assert listed(here) == ["results/a", "results/b", "results/c", "results/c.from-dev"]
    assert "  changed here, so put beside: c is c.from-dev" in done.lines
    (here / "results/b").write_text("edited")
    make(cluster, "for f in a b c; do echo second >results/$f; done")
    cluster.outputs()
    texts = {name: (here / name).read_text() for name in listed(here)}
    assert texts == {
        "results/a": "second\n",
        "results/b": "edited",
        "results/b.from-dev": "second\n",
        "results/c": "mine",
        "results/c.from-dev": "second\n",
    }
    (here / "results/b.from-dev").write_text("edited too")
    make(cluster, "echo third >results/b")
    cluster.outputs()
    assert (here / "results/b.from-dev").read_text() == "edited too"
    assert (here / "results/b.from-dev-2").read_text() == "third\n"
    assert cluster.outputs().files == 0


def test_a_target_is_agreed_to_below_the_notebook_or_by_name(
    world: TunnelWorld, notebook: Path, tmp_path: Path, up: Up, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    for made in (home / ".ssh", home / "far", notebook / "in", notebook / "x.git" / "objects"):
        made.mkdir(parents=True)
    (notebook / "x.git" / "HEAD").touch()
    (notebook / "link").symlink_to(home / "far")
    monkeypatch.setenv("HOME", str(home))

    def plan(target: str, to: str = "") -> api.Run | api.Cluster:
        spec = SPEC % "" + f"\noutputs: {{~/k: '{target}', d: }}"
        return world.session.provision(spec, "new", folder=str(notebook), outputs_to=to)

    hidden = ("~/.ssh/", "~/.ipython/profile_default/startup/", "./.git/hooks/x", f"{home}/.a/b")
    for target in (*hidden, "~/far/k", "link/k", "../up", "x.git/", "v/site-packages/", "~", "/"):
        with pytest.raises(UsageError, match=r"outputs: ~/k would go to ") as caught:
            plan(target)
        assert caught.value.code == "outputs.target"
    for target in hidden:
        with pytest.raises(UsageError, match="would go to"):
            plan(target, to=str(home))
    with pytest.raises(UsageError, match="hidden name"):
        plan("in", to="~/.config/x")
    for target, to in (("in/k", ""), ("link/k", "~/far"), ("~/far/k", "~/far")):
        run = plan(target, to)
        assert isinstance(run, api.Run)
        notes = run.driver.view().notes
        own = home / "far" if to else notebook / "new-outputs"
        assert f"outputs d are written to {own}" in notes
        assert any(note.startswith("outputs ~/k are written to") for note in notes)


def test_the_kernel_that_writes_looks_again(notebook: Path, tmp_path: Path, up: Up) -> None:
    cluster = up("{results: ./in/, more: }")
    make(cluster, "mkdir results more; touch results/a more/b")
    (tmp_path / "far").mkdir()
    (notebook / "in").symlink_to(tmp_path / "far")
    with pytest.raises(OutputsNotPulled, match="is outside the notebook's folder"):
        cluster.outputs()
    assert (listed(tmp_path / "far"), listed(notebook / "dev-outputs")) == ([], ["more/b"])
    (notebook / "in").unlink()
    (notebook / "in").mkdir()
    (notebook / "in" / "results").symlink_to(notebook)
    with pytest.raises(OutputsNotPulled, match="behind a link"):
        cluster.outputs()


def test_an_ignore_file_takes_no_result_away(notebook: Path, up: Up) -> None:
    (notebook / ".gitignore").write_text("results/\n*.ckpt\n")
    cluster = up('[results, "*.ckpt", "*.csv"]')
    make(cluster, "mkdir results; touch results/a x.ckpt data.csv")
    cluster.outputs()
    assert listed(notebook / "dev-outputs") == ["data.csv", "results/a", "x.ckpt"]


def test_every_node_gives_its_own(world: TunnelWorld, notebook: Path, up: Up) -> None:
    cluster = up('{results: ., "*.log": logs, f.txt: g.txt}', "\nnum_nodes: 2")
    cluster.bash(
        "mkdir results; echo $NBPROV_NODE_RANK >results/rank; touch x.log; touch f.txt",
        nodes="all",
        timeout=WAIT_SECONDS,
    )
    cluster.down().wait(WAIT_SECONDS)
    assert listed(notebook) == [
        "g.txt",
        "logs/node1/x.log",
        "logs/x.log",
        "node1/g.txt",
        "node1/results/rank",
        "results/rank",
    ]
    assert (notebook / "node1/results/rank").read_text() == "1\n"


def test_a_folder_behind_a_link_is_followed_where_it_is_named(notebook: Path, up: Up) -> None:
    cluster = up("[results]")
    make(cluster, "mkdir disk; echo 1 >disk/a; ln -s $PWD/disk results")
    cluster.outputs()
    assert listed(notebook / "dev-outputs") == ["results/a"]


def test_what_cannot_come_keeps_the_machine_until_it_is_told_otherwise(
    world: TunnelWorld, notebook: Path, up: Up
) -> None:
    cluster = up("[results]")
    make(cluster, "mkdir results; touch results/ok; touch $'results/bad\\x01name'")
    with pytest.raises(OutputsNotPulled) as caught:
        cluster.down().wait(WAIT_SECONDS)
    assert "control characters" in caught.value.message
    assert "%nbprov down dev --no-outputs" in caught.value.hint
    assert state(world, cluster) is ClusterState.RUNNING
    assert listed(notebook / "dev-outputs") == ["results/ok"]
    assert any(
        note.startswith("outputs: not all pulled: ~/results bad") for note in cluster.view().notes
    )
    assert cluster.view().reason == "it was to be ended, and is kept"
    # The machines of another release's spec wait for its outputs, and are not ended unasked.
    row = world.session.engine.ledger.clusters.named("dev")
    assert row is not None
    world.session.engine.ledger.store._connection.execute(
        "UPDATE runs SET spec = 'of: later' WHERE run_id = ?", (row.run_id,)
    )
    with pytest.raises(OutputsNotPulled, match="another release wrote its spec"):
        cluster.down().wait(WAIT_SECONDS)
    assert state(world, cluster) is ClusterState.RUNNING
    cluster.down(outputs=False).wait(WAIT_SECONDS)
    assert state(world, cluster) is ClusterState.ENDED


def test_a_disk_that_is_full_here_keeps_the_machine(
    world: TunnelWorld, notebook: Path, up: Up, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nbprov.remote.pull import pull_run

    cluster = up("[results]")
    make(cluster, "mkdir results; echo 1 >results/a")
    monkeypatch.setattr(pull_run, "FREE_BYTES", 1 << 62)
    with pytest.raises(OutputsNotPulled) as caught:
        cluster.down().wait(WAIT_SECONDS)
    assert "do not fit on the disk of this computer" in caught.value.message
    assert state(world, cluster) is ClusterState.RUNNING
    monkeypatch.undo()
    cluster.down().wait(WAIT_SECONDS)
    assert (state(world, cluster), listed(notebook / "dev-outputs")) == (
        ClusterState.ENDED,
        ["results/a"],
    )


def test_stop_pulls_what_it_can_and_stops(world: TunnelWorld, notebook: Path, up: Up) -> None:
    cluster = up("[results]")
    make(cluster, "mkdir results; touch results/ok; touch $'results/bad\\x01name'")
    cluster.stop().wait(WAIT_SECONDS)
    assert (state(world, cluster), listed(notebook / "dev-outputs")) == (
        ClusterState.STOPPED,
        ["results/ok"],
    )
    # A stopped machine cannot be asked; its outputs were pulled before.
    cluster.down().wait(WAIT_SECONDS)
    assert state(world, cluster) is ClusterState.ENDED


def test_what_its_guards_stopped_is_not_ended_with_its_outputs_on_it(
    world: TunnelWorld, notebook: Path, up: Up
) -> None:
    cluster = up("[results]")
    make(cluster, "mkdir results; touch results/a")
    engine = world.session.engine
    row = engine.ledger.clusters.named("dev")
    assert row is not None
    engine.thread.call(engine.lifecycle.stop(row, "idle: nothing was done for 60 s")).result(
        WAIT_SECONDS
    )
    with pytest.raises(
        OutputsNotPulled, match="dev is kept, stopped: its outputs are only on its disk"
    ):
        cluster.down().wait(WAIT_SECONDS)
    assert state(world, cluster) is ClusterState.STOPPED
    cluster.start().wait(WAIT_SECONDS)
    cluster.down().wait(WAIT_SECONDS)
    assert (state(world, cluster), listed(notebook / "dev-outputs")) == (
        ClusterState.ENDED,
        ["results/a"],
    )


def test_another_kernel_takes_them_to_the_folder_of_the_first(
    world: TunnelWorld, notebook: Path, up: Up
) -> None:
    from nbprov.clouds.local.provisioner import LocalCloud
    from nbprov.provisioning.async_cloud import AsyncCloud

    cluster = up("[results]")
    make(cluster, "mkdir results; touch results/a")
    other = api.Session(world.home)
    try:
        other.engine._clouds["local"] = AsyncCloud(LocalCloud(world.home / "local"))
        other.cluster("dev").down().wait(WAIT_SECONDS)
    finally:
        other.close()
    assert listed(notebook / "dev-outputs") == ["results/a"]
    assert state(world, cluster) is ClusterState.ENDED


def test_a_cell_that_is_run_again_with_other_outputs(
    world: TunnelWorld, notebook: Path, up: Up
) -> None:
    cluster = world.up()
    ledger = world.session.engine.ledger
    assert "outputs" not in (ledger.guards.get(cluster.cluster_id) or ({},))[0]
    again = world.session.provision(SPEC % "" + "\noutputs: [results]", "dev", folder=str(notebook))
    assert isinstance(again, api.Cluster)
    own = notebook / "dev-outputs"
    assert again.remarks == (f"outputs of dev are changed: outputs results are written to {own}",)
    known = ledger.guards.get(cluster.cluster_id)
    assert known is not None
    assert known[0]["outputs"] == {"hold_seconds": 600.0}
    make(cluster, "mkdir results; touch results/a")
    again.down().wait(WAIT_SECONDS)
    assert listed(notebook / "dev-outputs") == ["results/a"]


def test_no_wish_no_word(world: TunnelWorld) -> None:
    cluster = world.up()
    assert not [note for note in cluster.view().notes if "outputs" in note]
    with pytest.raises(UsageError, match="names no outputs"):
        cluster.outputs()
