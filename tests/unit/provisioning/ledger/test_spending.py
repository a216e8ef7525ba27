"""What was spent by day and cloud, and what a month will come to."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from manual_clock import ManualClock
from provisioning_samples import candidate, launch_row

from nbprov.api.reports.spending import (
    Bill,
    BillReader,
    CloudCosts,
    DailyCosts,
    Spending,
    midnight,
    month_begin,
    month_end,
    month_forecast,
)
from nbprov.model.clusters import ClusterState, ClusterView, RunState
from nbprov.model.guards import Guards
from nbprov.model.money import usd
from nbprov.provisioning.ledger import Ledger, prices

HOUR = 3600.0


def ran(
    ledger: Ledger, token: str, cloud: str, hourly: str, began: float, ended: float | None
) -> None:
    """One machine, on the bill from one instant to another, or until now."""
    wanted = candidate(cloud=cloud, hourly=usd(hourly))
    if cloud == "local":
        wanted = replace(wanted, offer=replace(wanted.offer, source="simulated"))
    name = f"run-{token}"
    ledger.runs.open(
        name, token, "name: dev", folder="", race=1, consent=5, state=RunState.LAUNCHING
    )
    row = replace(launch_row(token, wanted, now=ledger.clock.now()), run_id=name)
    ledger.launches.intend(row)
    ledger.launches.accepted(token, (f"i-{token}",))
    ledger.store._connection.execute(
        "UPDATE price_segments SET started = ?, ended = ? WHERE token = ?", (began, ended, token)
    )


def test_a_machine_that_ran_over_midnight_counts_for_both_days(
    ledger: Ledger, clock: ManualClock
) -> None:
    clock.advance(midnight(clock.now()) + 30 * HOUR - clock.now())
    now, today = clock.now(), midnight(clock.now())
    ran(ledger, "t1", "aws", "2", today - HOUR, today + 2 * HOUR)
    ran(ledger, "t2", "gcp", "1", today - 30 * HOUR, today - 29 * HOUR)
    ran(ledger, "t3", "local", "9", today + HOUR, today + 2 * HOUR)
    found = Bill.of(ledger).daily(3)
    assert found.days == tuple(
        (datetime.fromtimestamp(now) - timedelta(days=back)).date().isoformat()
        for back in (2, 1, 0)
    )
    assert [(one.cloud, one.costs, one.simulated) for one in found.clouds] == [
        ("local", (0, 0, usd(9)), True),
        ("aws", (0, usd(2), usd(4)), False),
        ("gcp", (usd(1), 0, 0), False),
    ]
    assert Bill.of(ledger).since(today).paid == usd(4)
    assert Bill.of(ledger).since(today - HOUR).paid == usd(6)


def test_what_ran_before_the_days_that_are_shown_is_left_out(
    ledger: Ledger, clock: ManualClock
) -> None:
    today = midnight(clock.now())
    ran(ledger, "t1", "aws", "2", today - 49 * HOUR, today - 47 * HOUR)
    (aws,) = Bill.of(ledger).daily(3).clouds
    assert aws.costs == (usd(2), 0, 0)
    assert Bill.of(ledger).daily(2).clouds == ()


def test_a_machine_whose_launch_the_ledger_does_not_know_is_paid_for(ledger: Ledger) -> None:
    today = midnight(ledger.clock.now())
    ran(ledger, "t1", "aws", "2", today - HOUR, today)
    ledger.store._connection.execute("PRAGMA foreign_keys = OFF")
    ledger.store._connection.execute("DELETE FROM launches")
    assert Bill.of(ledger).since(0.0).paid == usd(2)
    (unknown,) = Bill.of(ledger).daily(3).clouds
    assert (unknown.cloud, unknown.costs, unknown.simulated) == ("unknown", (0, usd(2), 0), False)


def test_what_runs_grows_by_the_same_rate_in_its_day_and_in_the_total(
    ledger: Ledger, clock: ManualClock
) -> None:
    """A page lets both grow between two looks of the kernel, and they must not come apart."""
    clock.advance(midnight(clock.now()) + 30 * HOUR - clock.now())
    today = midnight(clock.now())
    ran(ledger, "t1", "aws", "2", today - HOUR, None)
    ran(ledger, "t2", "aws", "3", today + HOUR, today + 2 * HOUR)
    ran(ledger, "t3", "gcp", "1", today + HOUR, None)
    ran(ledger, "t4", "local", "9", clock.now(), None)
    bill = Bill.of(ledger)
    spent, days = bill.since(today), bill.daily(3)
    rates = {one.cloud: one.hourly for one in days.clouds}
    assert rates == {"aws": usd(2), "gcp": usd(1), "local": usd(9)}
    assert (spent.paid_hourly, spent.simulated_hourly) == (usd(3), usd(9))
    clock.advance(HOUR)
    later, after = Bill.of(ledger).since(today), Bill.of(ledger).daily(3)
    assert later.paid == spent.paid + spent.paid_hourly
    for before, one in zip(sorted_by_cloud(days), sorted_by_cloud(after), strict=True):
        assert one.costs == (*before.costs[:-1], before.costs[-1] + before.hourly)


def sorted_by_cloud(days: DailyCosts) -> list[CloudCosts]:
    return sorted(days.clouds, key=lambda one: one.cloud)


def test_what_ended_long_ago_is_read_once(
    ledger: Ledger, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    today = midnight(clock.now())
    for number in range(5):
        ran(ledger, f"old-{number}", "aws", "1", today - 2001 * HOUR, today - 2000 * HOUR)
    ran(ledger, "new", "aws", "2", today - HOUR, today)
    context: Any = SimpleNamespace(engine=SimpleNamespace(ledger=ledger, clock=ledger.clock))
    reader = BillReader(context)
    assert reader.read().since(0.0).paid == usd(7)
    read: list[object] = []
    made = prices.PriceSegment
    monkeypatch.setattr(prices, "PriceSegment", lambda *a: read.append(a) or made(*a))
    bill = reader.read()
    assert len(read) == 1
    assert (bill.since(0.0).paid, bill.since(today - HOUR).paid) == (usd(7), usd(2))
    assert bill.daily() == Bill.of(ledger).daily()
    ran(ledger, "late", "aws", "3", today - 2001 * HOUR, today - 2000 * HOUR)
    assert reader.read().since(0.0).paid == usd(10), "an end that is written late"


def test_a_month_begins_and_ends_at_its_first_midnights() -> None:
    for month, days in ((1, 31), (2, 29), (4, 30), (12, 31)):
        now = datetime(2028, month, 17, 13, 5).timestamp()
        begin, end = (datetime.fromtimestamp(one) for one in (month_begin(now), month_end(now)))
        assert (begin.month, begin.day, begin.hour) == (month, 1, 0)
        assert (end - begin).days == days
        assert (end.day, end.hour) == (1, 0)


def view(guards: Guards, *, cost: int = 0, simulated: bool = False) -> ClusterView:
    return ClusterView(
        "dev",
        "c1",
        "r1",
        ClusterState.RUNNING,
        None,
        (),
        guards,
        NOON,
        cost=cost,
        hourly_now=usd(1),
        simulated=simulated,
    )


NOON = datetime(2026, 11, 30, 12).timestamp()
"""Twelve hours before a month ends."""


def test_a_month_will_cost_what_runs_until_it_ends_or_a_guard_ends_that() -> None:
    spent = Spending(month_begin(NOON), paid=usd(5), simulated=usd(1))

    def ahead(guards: Guards, **more: int) -> int:
        return month_forecast(spent, [view(guards, **more)], NOON).paid

    assert ahead(Guards()) == usd(5 + 12)
    assert ahead(Guards(max_lifetime=3 * HOUR)) == usd(5 + 3)
    assert ahead(Guards(budget=usd(10)), cost=usd(4)) == usd(5 + 6)
    assert ahead(Guards(budget=usd(3)), cost=usd(4)) == usd(5)
    local = month_forecast(spent, [view(Guards(), simulated=True)], NOON)
    assert (local.paid, local.simulated) == (usd(5), usd(1 + 12))
