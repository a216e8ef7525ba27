"""What is asked at each change reads no table from its beginning to its end.

A ledger of thousands of launches made the engine wait otherwise.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from nbprov.provisioning.ledger import Ledger
from nbprov.provisioning.live_rows import LIVE_ROWS

GROWING = ("runs", "launches", "attempts", "clusters", "instances", "price_segments", "events")
"""The tables that get rows with every launch and lose none."""

PARTIAL = ("clusters_live_name", "launches_live", "runs_under_way")
"""Indices of what is live: to read one from end to end is no more than to read that."""


def whole_tables(db: sqlite3.Connection, query: str) -> list[str]:
    """The steps of a query that read the whole of a table which grows with every launch."""
    steps = [str(row[3]) for row in db.execute(f"EXPLAIN QUERY PLAN {query}")]
    aliases = {"run": "runs", "segment": "price_segments", "s": "side_objects", "l": "launches"}
    return [
        step
        for step in steps
        if step.startswith("SCAN")
        and aliases.get(step.split()[1], step.split()[1]) in GROWING
        and not step.endswith(PARTIAL)
    ]


def queries_of(ledger: Ledger, call: Callable[[], object]) -> list[str]:
    """The queries that a call sends."""
    found: list[str] = []
    ledger.store._connection.set_trace_callback(found.append)
    call()
    ledger.store._connection.set_trace_callback(None)
    return [query for query in found if query.lstrip().startswith("SELECT")]


CALLS: dict[str, Callable[[Ledger], Any]] = {
    "runs.unfinished": lambda ledger: ledger.runs.unfinished(),
    "runs.ended_since": lambda ledger: ledger.runs.ended_since(0.0),
    "runs.over": lambda ledger: ledger.runs.over(["run-1"]),
    "clusters.of_run": lambda ledger: ledger.clusters.of_run("run-1"),
    "clusters.named": lambda ledger: ledger.clusters.named("dev"),
    "clusters.now_called": lambda ledger: ledger.clusters.now_called("dev"),
    "clusters.latest": lambda ledger: ledger.clusters.latest(live_only=True),
    "clusters.ready_seconds": lambda ledger: ledger.clusters.ready_seconds("aws", 50),
    "launches.live_attempts": lambda ledger: ledger.launches.live_attempts("run-1"),
    "launches.latest_attempts": lambda ledger: ledger.launches.latest_attempts("run-1", 10),
    "launches.paid_attempts": lambda ledger: ledger.launches.paid_attempts("run-1"),
    "launches.by_token": lambda ledger: ledger.launches.by_token("t1"),
    "launches.count": lambda ledger: ledger.launches.count("run-1"),
    "launches.known": lambda ledger: ledger.launches.known(["t1", "t2"]),
    "launches.live_tokens": lambda ledger: ledger.launches.live_tokens(),
    "launches.live_clouds": lambda ledger: ledger.launches.live_clouds(),
    "launches.live_states": lambda ledger: ledger.launches.live_states(),
    "launches.candidates_since": lambda ledger: ledger.launches.candidates_since(0.0, 10),
    "instances.members": lambda ledger: ledger.instances.members("t1"),
    "prices.cost": lambda ledger: ledger.prices.cost("run-1"),
    "prices.uptime": lambda ledger: ledger.prices.uptime("t1"),
    "prices.hourly_now": lambda ledger: ledger.prices.hourly_now("t1"),
    "side_objects.doubted": lambda ledger: ledger.side_objects.doubted("aws"),
    "side_objects.over": lambda ledger: ledger.side_objects.over("aws"),
}


@pytest.mark.parametrize("name", CALLS)
def test_no_query_reads_a_whole_table(ledger: Ledger, name: str) -> None:
    queries = queries_of(ledger, lambda: CALLS[name](ledger))
    assert queries
    for query in queries:
        assert whole_tables(ledger.store._connection, query) == []


def test_what_is_live_of_a_run_is_found_without_what_was_refused(ledger: Ledger) -> None:
    (query,) = queries_of(ledger, lambda: ledger.launches.live_attempts("run-1"))
    steps = [str(row[3]) for row in ledger.store.rows(f"EXPLAIN QUERY PLAN {query}")]
    assert "SCAN launches USING INDEX launches_live" in steps


def test_what_was_launched_last_is_found_without_sorting_all(ledger: Ledger) -> None:
    (query,) = queries_of(ledger, ledger.runs.latest)
    (step,) = ledger.store.rows(f"EXPLAIN QUERY PLAN {query}")
    assert step[3].endswith("runs_by_creation")


def test_a_load_reads_no_whole_table(ledger: Ledger) -> None:
    assert whole_tables(ledger.store._connection, LIVE_ROWS) == []
