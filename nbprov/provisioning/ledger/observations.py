"""Observations: clouds' answers to attempts, and their reports of stock."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from nbprov.market import Observation, Pool
from nbprov.model.clock import Instant, Seconds
from nbprov.model.offers import Candidate
from nbprov.model.stock import Stock, StockLevel

from .file_state.trouble import decoded
from .ledger_file import LedgerFile

OBSERVATIONS_READ = 5_000
"""The most answers that a plan reads: more would slow it down and tell nothing new."""
PROBES_KEPT_SECONDS: Seconds = 7 * 24 * 3600.0
"""How long reports of stock are kept.

A week shows the difference between days and nights; no estimate uses older reports.
"""
PROBES_KEPT = 50_000
"""The most reports that are kept: some 5 MB, even if a notebook waits for stock for days."""
NO_ACCOUNTS: Mapping[str, str] = MappingProxyType({})


@decoded
class ObservationTable:
    """Clouds' answers to attempts and to questions about stock."""

    def __init__(self, file: LedgerFile) -> None:
        self._store = file.store
        self._clock = file.clock

    def add(
        self,
        db: sqlite3.Connection,
        kind: str,
        candidate: Candidate,
        outcome: str,
        seconds: Seconds | None,
    ) -> None:
        offer = candidate.offer
        db.execute(
            "INSERT INTO observations (at, kind, cloud, account, region, zone, instance_type,"
            " market, count, outcome, seconds)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                self._clock.now(),
                kind,
                offer.cloud,
                candidate.account,
                offer.region,
                offer.zone,
                offer.instance_type,
                offer.market.value,
                candidate.count,
                outcome,
                seconds,
            ),
        )

    def accept_seconds(self, cloud: str, limit: int) -> list[Seconds]:
        """Return how long a cloud's latest accepted creates took until they were accepted.

        At most `limit` of them are returned.
        """
        query = (
            "SELECT seconds FROM observations WHERE kind = 'attempt' AND cloud = ? AND outcome ="
            " 'accepted' AND seconds IS NOT NULL"
            " ORDER BY id DESC LIMIT ?"
        )
        return [float(r[0]) for r in self._store.rows(query, cloud, limit)]

    def attempts(self, since: Instant) -> list[Observation]:
        """Return the answers to attempts since an instant, oldest first.

        If there are very many, only the latest are returned.
        """
        query = (
            "SELECT * FROM (SELECT * FROM observations WHERE kind = 'attempt' AND at >= ?"
            " ORDER BY at DESC, id DESC LIMIT ?) ORDER BY at, id"
        )
        return [
            Observation(
                at=r["at"],
                pool=Pool(r["cloud"], r["region"], r["zone"], r["instance_type"], r["market"]),
                outcome=r["outcome"],
                count=r["count"],
                seconds=r["seconds"],
            )
            for r in self._store.rows(query, since, OBSERVATIONS_READ)
        ]

    def record_probes(self, stocks: Sequence[Stock], account: str = "", count: int = 1) -> None:
        """Store a cloud's reports of its stock for `count` machines at once.

        Reports that are too old or too many are deleted.
        """
        if not stocks:
            return
        with self._store.transaction() as db:
            db.executemany(
                "INSERT INTO observations (at, kind, cloud, account, region, zone,"
                " instance_type, market, count, outcome)"
                " VALUES (?, 'probe', ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        s.at,
                        s.pool.cloud,
                        account,
                        s.pool.region,
                        s.pool.zone,
                        s.pool.instance_type,
                        s.pool.market,
                        count,
                        s.level.value,
                    )
                    for s in stocks
                ],
            )
            oldest = db.execute(
                "SELECT at FROM observations WHERE kind = 'probe' ORDER BY at DESC LIMIT 1"
                " OFFSET ?",
                (PROBES_KEPT,),
            ).fetchone()
            keep_from = max(
                self._clock.now() - PROBES_KEPT_SECONDS, oldest["at"] if oldest is not None else 0.0
            )
            # The others of its batch are deleted too: a batch is kept whole or not at all.
            beyond = "at <= ?" if oldest is not None and oldest["at"] == keep_from else "at < ?"
            db.execute(f"DELETE FROM observations WHERE kind = 'probe' AND {beyond}", (keep_from,))

    def levels(
        self,
        since: Instant,
        length: Seconds,
        periods: int,
        accounts: Mapping[str, str] = NO_ACCOUNTS,
    ) -> dict[Pool, list[StockLevel | None]]:
        """Return the last level of each pool in each of `periods` spans of time, the oldest first.

        Reports for several machines at once are left out. None where there was no report.

        Parameters
        ----------
        since
            When the first span begins.
        length
            Seconds of one span.
        accounts
            The account in use by cloud. What a cloud told another account is left out.
        """
        others, values = _told_to_others(accounts)
        query = (
            "SELECT max(at), cloud, region, zone, instance_type, market, outcome,"
            " CAST((at - ?) / ? AS INTEGER) AS period FROM observations"
            f" WHERE kind = 'probe' AND at >= ? AND count = 1{others}"
            " GROUP BY cloud, region, zone, instance_type, market, period"
        )
        found: dict[Pool, list[StockLevel | None]] = {}
        for r in self._store.rows(query, since, length, since, *values):
            pool = Pool(r["cloud"], r["region"], r["zone"], r["instance_type"], r["market"])
            if r["period"] < periods:
                row = found.setdefault(pool, [None] * periods)
                row[r["period"]] = StockLevel(r["outcome"])
        return found

    def probes(self, since: Instant, accounts: Mapping[str, str] = NO_ACCOUNTS) -> list[Stock]:
        """Return the last report of each pool since an instant, oldest first.

        Parameters
        ----------
        accounts
            As for `levels`.
        """
        others, values = _told_to_others(accounts)
        query = (
            "SELECT max(at) AS at, cloud, region, zone, instance_type, market, outcome FROM"
            f" observations WHERE kind = 'probe' AND at >= ?{others}"
            " GROUP BY cloud, region, zone, instance_type, market ORDER BY at"
        )
        return [
            Stock(
                r["at"],
                Pool(r["cloud"], r["region"], r["zone"], r["instance_type"], r["market"]),
                StockLevel(r["outcome"]),
            )
            for r in self._store.rows(query, since, *values)
        ]


def _told_to_others(accounts: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the condition that leaves out what clouds told other accounts, and its values.

    Some clouds report no stock where the account's quota is used up. A report without an account
    counts for all, and where the account in use is not known every report counts.
    """
    known = [(cloud, account) for cloud, account in accounts.items() if account]
    condition = " AND NOT (cloud = ? AND account NOT IN ('', ?))" * len(known)
    return condition, [value for pair in known for value in pair]
