"""A cell on a running cluster sends nothing that nobody agreed to, and says what it would send."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from tunnel_world import SPEC, WAIT_SECONDS, TunnelWorld

from nbprov import api
from nbprov.api.launching.cluster_reuse import _was_done
from nbprov.api.launching.node_setup import NodeSetup
from nbprov.machines.setup.setup_jobs import SetupFailed
from nbprov.model.spec import Spec
from nbprov.provisioning.ledger import Ledger

OURS = "NBPROV_TEST_TOKEN"
SENT = f"secrets: {{{OURS}: null}}\nfile_mounts: {{~/k: ~/private}}\nsetup: test -e ~/k/key"


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for made in ("home/private", "notebook/data"):
        (tmp_path / made).mkdir(parents=True)
    (tmp_path / "home/private/key").write_text("a key")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv(OURS, "a-token-of-ours")
    return tmp_path / "notebook"


def asked(world: TunnelWorld, notebook: Path, more: str) -> api.Run | api.Cluster:
    return world.session.provision(SPEC % "" + "\n" + more, "dev", folder=str(notebook))


def used(world: TunnelWorld, notebook: Path, more: str) -> api.Cluster:
    found = asked(world, notebook, more)
    assert isinstance(found, api.Cluster)
    return found


def launched(world: TunnelWorld, notebook: Path, more: str = "") -> api.Cluster:
    run = asked(world, notebook, more)
    assert isinstance(run, api.Run)
    return run.launch().wait(WAIT_SECONDS)


def wished(world: TunnelWorld, cluster: api.Cluster) -> tuple[object, str]:
    spec, folder = world.session.context.wished(cluster.cluster_id)
    return spec.workdir or spec.file_mounts, folder


def test_a_cluster_whose_setup_failed_gets_no_file_unasked(
    world: TunnelWorld, notebook: Path
) -> None:
    with pytest.raises(SetupFailed):
        launched(world, notebook, "setup: exit 3")
    cluster = used(world, notebook, SENT)
    assert cluster.setting_up is None
    said = "\n".join(cluster.remarks)
    assert "private is sent to the machine; it is outside the notebook's folder" in said
    assert f"the machine gets {OURS} of this kernel's environment" in said
    assert "nothing was sent" in said
    assert "%nbprov setup dev does both" in said
    assert wished(world, cluster) == ((), str(notebook))
    assert cluster.bash("ls; echo over", timeout=WAIT_SECONDS).text == "over\n"
    assert OURS not in world.session.context.inputs[cluster.cluster_id].everything()
    # The command that the remark names does it, says it too, and is an agreement from then on.
    setup = cluster.set_up()
    assert any("private is sent to the machine" in note for note in setup.notes)
    assert any(OURS in note for note in setup.notes)
    setup.wait(WAIT_SECONDS)
    assert cluster.bash("cat k/key", timeout=WAIT_SECONDS).text == "a key"
    assert wished(world, cluster)[0] != ()


def test_a_corrected_setup_that_sends_what_was_agreed_to_is_begun(
    world: TunnelWorld, notebook: Path
) -> None:
    with pytest.raises(SetupFailed):
        launched(world, notebook, SENT + "; exit 3")
    corrected = used(world, notebook, SENT)
    assert corrected.setting_up is not None
    corrected.setting_up.wait(WAIT_SECONDS)


def test_another_python_brings_no_workdir_along_unasked(world: TunnelWorld, notebook: Path) -> None:
    launched(world, notebook)
    cluster = used(world, notebook, "python: '3.11'\nworkdir: ~/private")
    assert cluster.setting_up is None
    assert "private is sent to the machine" in cluster.remarks[0]
    assert wished(world, cluster) == ((), str(notebook))


def test_a_machine_that_replaces_a_lost_one_gets_only_what_was_set_up(
    world: TunnelWorld, notebook: Path
) -> None:
    launched(world, notebook, "setup: 'true'")
    cluster = used(world, notebook, "setup: cat key\nworkdir: ~/private")
    assert "setup and run are not run again on a running cluster" in cluster.remarks[0]
    context = world.session.context
    spec, _ = context.wished(cluster.cluster_id)
    assert (spec.setup, spec.workdir) == ("true", "")
    row = world.session.engine.cluster("dev")
    assert NodeSetup(context, world.session.services.setups).why_not(row) is None
    # It is what the command does, whether or not its values are known.
    setup = cluster.set_up()
    assert setup.spec.workdir == "~/private"
    setup.wait(WAIT_SECONDS)
    assert context.wished(cluster.cluster_id)[0].workdir == "~/private"


def test_other_outputs_from_another_folder_leave_the_sources_where_they_are(
    world: TunnelWorld, notebook: Path
) -> None:
    cluster = launched(world, notebook, "workdir: data\noutputs: [one]")
    other = notebook.parent / "other"
    (other / "data").mkdir(parents=True)
    (said,) = used(world, other, "workdir: data\noutputs: [two]").remarks
    assert "outputs of dev are changed" in said
    context = world.session.context
    assert context.spec_of(cluster.cluster_id).workdir == str(notebook / "data")
    assert wished(world, cluster) == ("data", str(notebook))
    context.requested.clear()  # as in the next kernel
    assert wished(world, cluster)[0] == str(notebook / "data")


def test_a_skipped_run_that_is_written_down_late_is_not_the_one_that_was_done() -> None:
    rows = [
        {"kind": "setup", "command": "echo corrected"},
        {"kind": "run", "command": "echo ran"},
        {"kind": "run", "command": ""},
    ]
    ledger = SimpleNamespace(jobs=SimpleNamespace(of_run=lambda run_id: rows))
    spec = Spec(setup="echo corrected", run="echo ran")
    assert _was_done(cast(Ledger, ledger), "id", spec, Spec())
