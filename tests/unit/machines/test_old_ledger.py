"""A ledger that the first release wrote: its clusters are listed, used and ended by this one."""

from __future__ import annotations

import sqlite3
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tunnel_world import WAIT_SECONDS, TunnelWorld, until

from nbprov import api
from nbprov.clouds.local.provisioner import LocalCloud
from nbprov.model.clusters import ClusterState
from nbprov.model.launches import Launch
from nbprov.provisioning.engine import LEDGER_FILE
from nbprov.provisioning.ledger import Ledger
from nbprov.provisioning.ledger.schema import MIGRATIONS
from nbprov.provisioning.load_check import has_live_rows
from nbprov.remote.boot.user_data import fills
from nbprov.remote.ssh.keys import ClusterKeys

OLD = Path(__file__).with_name("old_ledger.sql")
WRITTEN = 1795402035.0
"""When it was written."""


def old_ledger(home: Path) -> Path:
    """The file as it was, as if it had been written just now."""
    path = home / LEDGER_FILE
    home.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(path)
    db.executescript(OLD.read_text(encoding="utf-8"))
    for column in ("started", "ended"):
        db.execute(f"UPDATE price_segments SET {column} = {column} + ?", (time.time() - WRITTEN,))
    db.commit()
    db.close()
    return path


def as_it_was_sent(ledger: Ledger, name: str, home: Path) -> Launch:
    """The create of the first release, with keys of now."""
    row = ledger.clusters.named(name)
    assert row is not None
    (launch,) = ledger.launches.of_run(row.run_id)
    return replace(
        launch.launch,
        fills=fills(ClusterKeys.create(home / "keys" / row.run_id)),
        answer_by=time.time() + WAIT_SECONDS,
    )


@pytest.mark.machine
def test_clusters_of_the_first_release_are_listed_used_started_and_ended(nbprov_home: Path) -> None:
    path = old_ledger(nbprov_home)
    assert has_live_rows(path)  # asked before anything is migrated
    world = TunnelWorld(nbprov_home)
    try:
        session = world.session
        ledger, cloud = session.engine.ledger, LocalCloud(nbprov_home / "local")
        assert sqlite3.connect(path).execute("PRAGMA user_version").fetchone()[0] == len(MIGRATIONS)
        for name in ("dev", "rest"):
            launch = as_it_was_sent(ledger, name, nbprov_home)
            operation = cloud.submit(launch)
            (new,) = until(
                lambda operation=operation: getattr(cloud.poll(operation), "ids", ()),
                "the machine is made",
            )
            with ledger.together() as db:
                (old,) = ledger.launches.ids_of(launch.token)
                db.execute(
                    "UPDATE launches SET ids = ? WHERE token = ?", (f'["{new}"]', launch.token)
                )
                db.execute("DELETE FROM instances WHERE id = ?", (old,))
                db.execute(
                    "UPDATE price_segments SET instance_id = ? WHERE instance_id = ?", (new, old)
                )
            if name == "rest":
                until(
                    lambda new=new: [
                        i
                        for i in cloud.list(ledger.owner)
                        if i.id == new and i.state.value == "running"
                    ],
                    "it runs",
                )
                cloud.stop([new])
        session.engine.thread.call(
            session.engine.lifecycle.observe(session.engine.cloud("local"))
        ).result(WAIT_SECONDS)
        views = {view.name: view for view in session.clusters()}
        assert {name: view.state for name, view in views.items()} == {
            "dev": ClusterState.RUNNING,
            "rest": ClusterState.STOPPED,
        }
        assert views["dev"].guards.words() == views["rest"].guards.words() != ""
        spec = session.spec_of(views["dev"].run_id)
        assert (spec.setup, spec.run, spec.envs, spec.guards.budget) == (
            "echo set up",
            "echo $MODEL",
            {"MODEL": "small"},
            5_000_000,
        )
        dev = session.provision(spec.source, "dev")
        assert isinstance(dev, api.Cluster)
        assert (dev.setting_up, dev.bash("echo used", timeout=WAIT_SECONDS).text) == (
            None,
            "used\n",
        )
        rest = session.cluster("rest")
        rest.start().wait(WAIT_SECONDS)
        assert rest.bash("echo back", timeout=WAIT_SECONDS).text == "back\n"
        for cluster in (rest, dev):
            cluster.down().wait(WAIT_SECONDS)
        assert [view.state for view in session.clusters(ended=True)] == [ClusterState.ENDED] * 2
        assert [i for i in cloud.list(ledger.owner) if i.state.value != "gone"] == []
    finally:
        world.close()
