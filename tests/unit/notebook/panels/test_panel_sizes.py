"""A panel is small in a saved notebook, however long its list is, and whole while it is live."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import sample_views as samples

from nbprov.model.clusters import ClusterState, RunView
from nbprov.notebook.panels.clusters_table import ClustersTable, ClustersView
from nbprov.notebook.panels.dashboard import Dashboard, DashboardView
from nbprov.notebook.panels.panel import Panel
from nbprov.notebook.panels.run_panel import RunPanel

MOST_BYTES = 50_000


def long_run(attempts: int = 500) -> RunView:
    """A launch of many attempts, whose cloud says much about each."""
    view = samples.failed_run()
    told = replace(samples.STOCK, message="InsufficientInstanceCapacity: no a100x1 left. " * 8)
    return replace(
        view,
        attempts=tuple(
            replace(
                view.attempts[at % len(view.attempts)],
                number=at + 1,
                token=f"{at:032x}",
                failure=told,
            )
            for at in range(attempts)
        ),
    )


def many_clusters(count: int = 100) -> ClustersView:
    """Clusters of which the first half has ended."""
    some = samples.clusters()
    rows = [
        replace(some[at % len(some)], cluster_id=f"{at:032x}", name=f"c{at}", ended=samples.NOW)
        for at in range(count)
    ]
    live = [
        replace(row, ended=None) if at >= count // 2 else replace(row, state=ClusterState.ENDED)
        for at, row in enumerate(rows)
    ]
    return ClustersView(tuple(live), samples.NOW)


def all_ended(count: int = 40) -> ClustersView:
    """What `%clusters --all` shows where nothing runs."""
    ended = [
        replace(row, ended=samples.NOW, state=ClusterState.ENDED)
        for row in many_clusters(count).clusters
    ]
    return ClustersView(tuple(ended), samples.NOW)


def dashboard() -> Dashboard:
    view = many_clusters()
    return Dashboard(DashboardView(view.clusters, view.now))


PANELS: list[Panel[Any]] = [
    RunPanel(long_run()),
    RunPanel(samples.waiting_run()),
    ClustersTable(many_clusters()),
    dashboard(),
]


@pytest.mark.parametrize("panel", PANELS, ids=lambda p: type(p).__name__)
def test_a_saved_panel_is_small_with_its_widget(panel: Panel[Any]) -> None:
    bundles = [panel.static_bundle(beside_widget=True), panel.widget_bundle()]
    assert panel.widget is not None
    assert len(json.dumps(bundles)) + len(json.dumps(panel.widget.get_state())) < MOST_BYTES


def test_a_saved_launch_keeps_the_last_attempts_and_says_what_lists_the_others() -> None:
    panel = RunPanel(long_run())
    data, _ = panel.static_bundle()
    told = "492 earlier attempts are not shown; %nbprov attempts dev lists them"
    assert all(told in form for form in data.values())
    assert "<td" in data["text/html"].split(">500<")[1], "the newest has a row"
    assert ">492<" not in data["text/html"]
    assert "400 earlier attempts" in panel.text(), "a terminal shows more"


def test_an_attempt_that_goes_on_stays_in_the_saved_form() -> None:
    view = long_run()
    boots = replace(samples.launching_run().attempts[3], number=7, token="b" * 32)
    view = replace(view, attempts=(*view.attempts[:6], boots, *view.attempts[7:]))
    panel = RunPanel(view)
    panel.widget_bundle()
    assert "booting" in panel.static_bundle()[0]["text/html"]
    assert panel.widget is not None
    assert [a["number"] for a in panel.widget.state["attempts"]] == [7, 497, 498, 499, 500]


def test_saved_clusters_are_those_that_live_and_the_others_are_counted() -> None:
    panel = ClustersTable(many_clusters())
    data, _ = panel.static_bundle()
    for form in data.values():
        assert "84 more clusters are not shown; %nbprov history lists them" in form
        assert "c50" in form
        assert "c49" not in form, "it has ended"
    assert "c49" in panel.text(), "a terminal shows all"
    assert "more cluster" not in ClustersTable(samples.clusters()).static_bundle()[0]["text/plain"]


@pytest.mark.parametrize("panel", [RunPanel(long_run()), ClustersTable(many_clusters())])
def test_a_live_page_gets_every_row_as_a_message(panel: Panel[Any]) -> None:
    panel.widget_bundle()
    assert panel.widget is not None
    heard: list[dict[str, Any]] = []
    panel.widget.send = lambda content, buffers=None: heard.append(content)
    panel.update(panel.view)
    rows = "attempts" if isinstance(panel, RunPanel) else "clusters"
    assert panel.widget.state["is_cut"]
    assert [m["type"] for m in heard] == ["state"]
    assert len(heard[0]["state"][rows]) == 100
    assert "is_cut" not in heard[0]["state"]


@pytest.mark.parametrize("panel", [RunPanel(long_run()), ClustersTable(all_ended())])
def test_a_page_that_is_opened_when_all_is_over_gets_every_row_when_it_asks(
    panel: Panel[Any],
) -> None:
    panel.widget_bundle()
    assert panel.widget is not None
    assert panel.widget.state["is_cut"], "by which a page knows that it has to ask"
    heard: list[dict[str, Any]] = []
    panel.widget.send = lambda content, buffers=None: heard.append(content)
    panel._receive(panel.widget, {"type": "sync", "view": "late"}, [])
    rows = "attempts" if isinstance(panel, RunPanel) else "clusters"
    assert [(m["type"], m["view"]) for m in heard] == [("state", "late")]
    assert heard[0]["state"][rows] == panel.state()[rows]
    assert len(panel.state()[rows]) > len(panel.widget.state[rows])
    assert "is_cut" not in heard[0]["state"]


def test_a_short_panel_is_whole_in_its_trait_and_sends_no_message() -> None:
    panel = RunPanel(samples.ready_run())
    panel.widget_bundle()
    assert panel.widget is not None
    heard: list[dict[str, Any]] = []
    panel.widget.send = lambda content, buffers=None: heard.append(content)
    panel.update(samples.failed_run())
    assert heard == []
    assert panel.widget.state == panel.state()
