"""Reports of a ledger with more launches than a report lists."""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from provisioning_samples import candidate, launch_row

from nbprov import api
from nbprov.model.clusters import AttemptState, RunState
from nbprov.model.failures import Cause, Failure
from nbprov.model.money import usd
from nbprov.notebook.commands import reports
from nbprov.notebook.magics.shown_launch import ShownLaunch

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
