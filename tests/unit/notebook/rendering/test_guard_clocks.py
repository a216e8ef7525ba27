"""When the guards of a cluster act."""

from __future__ import annotations

from dataclasses import replace

from sample_views import NOW, cluster

from nbprov.model.clusters import ClusterState, MachineLoad
from nbprov.model.guards import Autostop, Guards
from nbprov.model.money import usd
from nbprov.notebook.panels.clusters_table import ClustersTable, ClustersView
from nbprov.notebook.rendering.clusters import clusters_text
from nbprov.notebook.rendering.guard_clocks import GuardClock, guard_clocks

GUARDS = Guards(Autostop(3600.0, down=True), max_lifetime=7200.0, budget=usd(5), is_default=False)
RUNS = replace(
    cluster(), guards=GUARDS, started=NOW - 100.0, cost=usd(1), hourly_now=usd(2), notes=("a note",)
)
IDLE = MachineLoad((), 8, 1, 1, 1, idle_ends=NOW + 600.0)


def test_lifetime_and_budget_have_an_instant_and_idle_time_none_before_somebody_looks() -> None:
    assert guard_clocks(RUNS, NOW) == (
        GuardClock("down after 1 h idle"),
        GuardClock("down after 2 h", NOW + 7100.0),
        GuardClock("down at $5.00", NOW + 7200.0, "at this rate"),
    )
    machine = replace(RUNS.instances[0], launched_at=NOW - 200.0)
    assert guard_clocks(replace(RUNS, instances=(machine,)), NOW)[1].due == NOW + 7000.0
    assert guard_clocks(replace(RUNS, hourly_now=0), NOW)[2].due is None


def test_the_machine_that_is_idle_last_decides_and_one_in_use_stops_the_clock() -> None:
    later, used = replace(IDLE, idle_ends=NOW + 900.0), replace(IDLE, is_active=True)
    two = replace(RUNS, instances=RUNS.instances * 2)
    assert guard_clocks(replace(two, loads=(IDLE, later)), NOW)[0].due == NOW + 900.0
    assert guard_clocks(replace(two, loads=(IDLE,)), NOW)[0].due is None, "the other is not known"
    assert guard_clocks(replace(two, loads=(IDLE, used)), NOW)[0] == GuardClock(
        "down after 1 h idle", note="in use now"
    )


def test_guards_of_what_does_not_run_have_no_clock() -> None:
    stopped = replace(RUNS, state=ClusterState.STOPPED)
    assert guard_clocks(stopped, NOW) == ()
    assert "(at " not in clusters_text([stopped], NOW)


def test_the_page_gets_the_clocks_and_a_saved_form_the_end_of_the_lifetime() -> None:
    table = ClustersTable(ClustersView((RUNS,), NOW))
    (row,) = table.state()["clusters"]
    assert row["clocks"][1] == {"words": "down after 2 h", "due": NOW + 7100.0, "note": ""}
    assert row["notes"] == "a note"
    assert row["guards"] == (
        "down after 1 h idle, down after 2 h (at 2026-11-21 10:07:30 UTC), down at $5.00; a note"
    )
    assert row["guards"] in table.text()


def test_a_default_is_marked_once() -> None:
    plain = replace(RUNS, guards=Guards(), notes=())
    assert guard_clocks(plain, NOW) == (GuardClock("down after 1 h idle (default)"),)
    assert ClustersTable([plain]).state()["clusters"][0]["guards"] == (
        "down after 1 h idle (default)"
    )
