"""Launches and machines on their way out in the clusters table."""

from __future__ import annotations

from dataclasses import replace

import sample_views as samples

from nbprov.model.clusters import AttemptState, ClusterState, ClusterView
from nbprov.notebook.panels.clusters_table import ClustersTable
from nbprov.notebook.rendering.clusters import clusters_html, clusters_text


def launch(name: str, state: ClusterState, **fields: object) -> ClusterView:
    """Return the view of a launch."""
    base = replace(samples.clusters()[0], name=name, cluster_id=name, state=state, notes=())
    return replace(base, **fields)  # type: ignore[arg-type]


WAITING = launch("later", ClusterState.WAITING, candidate=None, instances=(), hourly_now=0)
BOOTING = launch("soon", ClusterState.LAUNCHING, attempt=AttemptState.BOOTING, reason="")


def test_a_launch_that_has_bought_nothing_is_drawn() -> None:
    assert "waiting for stock" in clusters_text([WAITING], samples.NOW)
    assert "waiting for stock" in clusters_html([WAITING], samples.NOW)
    state = ClustersTable([WAITING], on_down=print).state()
    assert state["heading"].startswith("1 cluster waiting for stock, $0.00/h")
    assert state["clusters"][0]["can_down"]


def test_the_heading_counts_what_is_launched_and_ended_with_its_price() -> None:
    ending = launch("old", ClusterState.ENDING, hourly_now=2_000_000)
    booting = replace(BOOTING, hourly_now=3_000_000, simulated=False)
    running = launch("up", ClusterState.RUNNING, hourly_now=1_000_000)
    views = [replace(view, simulated=False) for view in (running, booting, ending, WAITING)]
    heading = ClustersTable(views).state()["heading"]
    assert heading == "1 cluster, 1 launching, 1 waiting for stock, $4.00/h; 1 ending, $2.00/h"


def test_a_launch_says_how_far_it_is() -> None:
    assert "launching: booting" in " ".join(clusters_text([BOOTING], samples.NOW).split())


def test_the_heading_of_what_is_only_ending() -> None:
    ending = launch("old", ClusterState.ENDING, hourly_now=2_000_000, simulated=False)
    assert ClustersTable([ending]).state()["heading"] == "1 cluster ending, $2.00/h"


def test_uptime_is_what_the_view_says_and_not_the_time_since_the_start() -> None:
    stopped = launch("old", ClusterState.STOPPED, hourly_now=0, uptime=125.0, ended=None)
    assert "2 min 5 s" in clusters_text([stopped], samples.NOW + 7200)
