"""A ledger in which every text for people is replaced by random words as it is written."""

from __future__ import annotations

import re
import sqlite3

from nbprov.provisioning.ledger import Ledger
from nbprov.provisioning.ledger.schema import MIGRATIONS

TEXTS = ("reason", "text", "message", "error")
"""Columns of the ledger that hold sentences for people, in whichever table."""

FAILURE = "failure"
"""A column that holds a failure as JSON, with a message for people in it."""

WORDS = "lower(hex(randomblob(8)))"
RANDOM = re.compile("[0-9a-f]{16}")


def _columns() -> list[tuple[str, str, list[str]]]:
    """Table, column and primary key of every text for people."""
    db = sqlite3.connect(":memory:")
    for script in MIGRATIONS:
        db.executescript(script)
    found = []
    for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        rows = db.execute(f"PRAGMA table_info({table})").fetchall()
        key = [row[1] for row in rows if row[5]]
        found += [(table, row[1], key) for row in rows if row[1] in (*TEXTS, FAILURE)]
    db.close()
    return found


def _trigger(table: str, column: str, key: list[str], when: str) -> str:
    is_failure = column == FAILURE
    value = f"json_set(NEW.{column}, '$.message', {WORDS})" if is_failure else WORDS
    holds = f"NEW.{column} IS NOT NULL" if is_failure else f"NEW.{column} <> ''"
    same = " AND ".join(f"{name} = NEW.{name}" for name in key)
    event = "INSERT" if when == "insert" else f"UPDATE OF {column}"
    return (
        f"CREATE TRIGGER words_{table}_{column}_{when} AFTER {event} ON {table} WHEN {holds}"
        f" BEGIN UPDATE {table} SET {column} = {value} WHERE {same}; END;\n"
    )


def triggers() -> str:
    """A migration that replaces whatever anybody writes for people."""
    return "".join(
        _trigger(*column, when) for column in _columns() for when in ("insert", "update")
    )


def are_random(ledger: Ledger) -> bool:
    """Whether all texts of a ledger's clusters and events are random words."""
    rows = [
        *ledger.store.rows("SELECT reason FROM clusters"),
        *ledger.store.rows("SELECT text FROM events"),
    ]
    return bool(rows) and all(not row[0] or RANDOM.fullmatch(row[0]) for row in rows)
