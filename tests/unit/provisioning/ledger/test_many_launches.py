"""Reports of a ledger with more launches than a report lists."""

from __future__ import annotations

import argparse
import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from provisioning_samples import candidate, launch_row

from nbprov import api
from nbprov.api.launching.launch_views import SHOWN_ATTEMPTS, launch_view
from nbprov.model.clusters import AttemptState, ClusterState, RunState
from nbprov.model.failures import Cause, Failure
from nbprov.model.money import usd
from nbprov.notebook.commands import reports
from nbprov.notebook.magics.shown_launch import ShownLaunch
from nbprov.notebook.rendering.run_facts import run_facts
from nbprov.provisioning.ledger import launches

LATER = 60
"""More launches than `%nbprov costs` lists."""
REFUSED = 150
"""More attempts than the panel of a launch shows."""
HOUR = 3600.0


@pytest.fixture
def session(nbprov_home: Path) -> Iterator[api.Session]:
    made = api.session()
    yield made
    api.close()


def launched(session: api.Session, name: str, state: RunState) -> None:
    """A launch that was refused once and then ran for an hour, at a dollar."""
    ledger = session.engine.ledger
    ledger.runs.open(
        *(name, name, "resources: {}"), folder="", race=1, consent=0, state=RunState.LAUNCHING
    )
    wanted = candidate(hourly=usd(1))
    for number, token in enumerate((f"{name}-refused", name), 1):
        row = launch_row(token, wanted, number, now=ledger.clock.now())
        ledger.launches.intend(replace(row, run_id=name))
    failure = Failure(Cause.CAPACITY, "no A100 left")
    ledger.launches.failed(f"{name}-refused", failure, AttemptState.REFUSED)
    ledger.launches.accepted(name, (f"i-{name}",))
    ledger.launches.move(name, AttemptState.GONE)
    ledger.store._connection.execute(
        "UPDATE price_segments SET started = started - ?, ended = started WHERE token = ?",
        (HOUR, name),
    )
    ledger.runs.move(name, state)


def counting(decode: Callable[[sqlite3.Row], Any], found: list[str]) -> Callable[..., Any]:
    """Decode a row of launches, and note its token."""

    def decoded(row: sqlite3.Row) -> Any:
        found.append(row["token"])
        return decode(row)

    return decoded


@pytest.fixture
def many(session: api.Session) -> api.Session:
    """A session with one launch called `old`, and many later ones."""
    launched(session, "old", RunState.FAILED)
    for number in range(LATER):
        launched(session, f"later-{number}", RunState.FAILED)
    return session


def test_costs_are_added_up_over_all_launches(
    many: api.Session, capsys: pytest.CaptureFixture[str]
) -> None:
    reports.costs(None, argparse.Namespace(), None)
    text = capsys.readouterr().out
    assert f"you pay ${LATER + 1}.00 in total" in text
    assert f"the latest 50 of {LATER + 1} launches; the total is of all" in text
    assert ("later-59 " in text, "old " in text) == (True, False)
    assert sum(cost.cost for cost in many.costs()) == usd(LATER + 1)
    assert {cost.attempts for cost in many.costs()} == {2}


def test_an_old_launch_that_may_be_on_the_bill_is_listed(
    many: api.Session, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = many.engine.ledger
    ledger.launches.intend(
        replace(launch_row("loser", candidate(), 3, now=ledger.clock.now()), run_id="old")
    )
    reports.costs(None, argparse.Namespace(), None)
    text = capsys.readouterr().out
    assert "and 1 older on the bill; the total is of all" in text
    assert "old " in text


def test_few_launches_are_all_listed_and_nothing_is_said_of_more(
    session: api.Session, capsys: pytest.CaptureFixture[str]
) -> None:
    launched(session, "dev", RunState.FAILED)
    reports.costs(None, argparse.Namespace(), None)
    assert "the latest" not in capsys.readouterr().out


def test_a_long_wait_is_shown_by_what_is_live_and_latest(
    session: api.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = session.engine.ledger
    ledger.runs.open(
        *("dev", "dev", "resources: {}"), folder="", race=1, consent=0, state=RunState.WAITING
    )
    failure = Failure(Cause.CAPACITY, "no A100 left")
    with ledger.together():
        for number in range(1, REFUSED + 2):
            row = launch_row(f"t{number}", candidate(), number, now=ledger.clock.now())
            ledger.launches.intend(replace(row, run_id="dev"))
            if number > 1:
                ledger.launches.failed(f"t{number}", failure, AttemptState.REFUSED)
    decoded: list[str] = []
    for name in ("attempt_row", "launch_row"):
        monkeypatch.setattr(launches, name, counting(getattr(launches, name), decoded))
    (view,) = session.clusters()
    assert (view.attempt, decoded) == (AttemptState.INTENT, ["t1"])
    decoded.clear()
    shown = launch_view(session.context, session.services, "dev")
    assert shown is not None
    assert [attempt.number for attempt in shown.attempts] == [
        1,
        *range(REFUSED + 2 - SHOWN_ATTEMPTS, REFUSED + 2),
    ]
    assert shown.tries == REFUSED + 1
    assert len(decoded) == SHOWN_ATTEMPTS + 1
    facts = run_facts(shown)
    assert facts.earlier.startswith(f"{REFUSED - SHOWN_ATTEMPTS} earlier attempts are not shown")
    decoded.clear()
    ledger.launches.failed("t1", failure, AttemptState.REFUSED)
    ledger.runs.move("dev", RunState.FAILED)
    (over,) = session.services.views.views(kept=["dev"])
    assert (over.state, over.candidate, decoded) == (
        ClusterState.ENDED,
        candidate(),
        [f"t{REFUSED + 1}"],
    )


def test_a_cluster_that_ended_stays_in_the_table_that_shows_it(session: api.Session) -> None:
    ledger = session.engine.ledger
    for name in ("first", "second", "third"):
        launched(session, name, RunState.LAUNCHING)
        ledger.clusters.hand_over(name, name, name, name, candidate())
    for name in ("first", "second"):
        ledger.clusters.move(name, ClusterState.ENDED)
    views = session.services.views.views
    assert [view.name for view in views()] == ["third"]
    assert [view.name for view in views(kept=["second", "third"])] == ["third", "second"]
    assert [view.name for view in views(ended=True)] == ["third", "second", "first"]


def test_a_history_reads_no_launch_and_no_table_of_clusters(
    many: api.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[str] = []
    for name in ("attempt_row", "launch_row"):
        monkeypatch.setattr(launches, name, counting(getattr(launches, name), decoded))
    db = many.engine.ledger.store._connection
    queries: list[str] = []
    here = threading.get_ident()

    def note(query: str) -> None:
        if threading.get_ident() == here:  # and not the engine's own, which looks now and then
            queries.append(query)

    db.set_trace_callback(note)
    found = many.history(limit=10)
    db.set_trace_callback(None)
    assert (len(found), found.total, decoded) == (10, LATER + 1, [])
    assert {(row.attempts, row.refused, row.simulated, row.reason) for row in found} == {
        (2, 1, False, "out of stock: no A100 left")
    }
    assert all(row.candidate is not None for row in found)
    steps = [str(row[3]) for query in queries for row in db.execute(f"EXPLAIN QUERY PLAN {query}")]
    assert [step for step in steps if step.startswith("SCAN")] == [
        "SCAN runs USING INDEX runs_by_creation",
        "SCAN runs USING COVERING INDEX runs_by_creation",
    ]
    assert many.history("old").total == 1


def test_a_name_of_long_ago_is_known(many: api.Session, capsys: pytest.CaptureFixture[str]) -> None:
    reports.log(None, argparse.Namespace(name="old", console=False), None)
    assert "old: its provision log no longer exists" in capsys.readouterr().out
    reports.attempts(None, argparse.Namespace(name="old"), None)
    assert "no A100 left" in capsys.readouterr().out
    old = ShownLaunch("old")
    assert old.lacks_places(old.view())
    launched(many, "again", RunState.FAILED)
    many.engine.ledger.store._connection.execute(
        "UPDATE runs SET name = 'old' WHERE run_id = 'again'"
    )
    assert not old.lacks_places(old.view()), "the latest of its name counts"
