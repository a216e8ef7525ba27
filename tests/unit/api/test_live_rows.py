"""What may be on the bill is reported however many launches came after it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import nbprov
from nbprov import api
from nbprov.api.reports.costs import costs
from nbprov.model.clusters import ClusterState, RunState

LATER = 60
"""More launches than reports list."""


@pytest.fixture
def session(nbprov_home: Path) -> Iterator[api.Session]:
    yield nbprov.session()
    api.close()


def launched(session: api.Session, run_id: str, state: RunState) -> None:
    runs = session.engine.ledger.runs
    runs.open(
        *(run_id, run_id, "resources: {}"), folder="", race=1, consent=0, state=RunState.LAUNCHING
    )
    runs.move(run_id, state)


def test_a_launch_under_way_is_listed_behind_later_ones(session: api.Session) -> None:
    launched(session, "old", RunState.LAUNCHING)
    for number in range(LATER):
        launched(session, f"later-{number}", RunState.FAILED)
    assert "old" in {cost.name for cost in costs(session.engine.ledger, limit=50)}
    assert len(session.costs()) == LATER + 1, "a sum of them is a sum of all"
    (view,) = session.clusters()
    assert (view.name, view.state, view.candidate) == ("old", ClusterState.LAUNCHING, None)
    assert view.is_launch


def test_a_launch_that_no_kernel_drives_says_who_takes_it_up(session: api.Session) -> None:
    launched(session, "old", RunState.WAITING)
    (view,) = session.clusters()
    assert view.state is ClusterState.WAITING
    assert "%load_ext nbprov takes it up" in view.reason
