"""Probes: what clouds said of their stock before anything was launched, and the blocks that a later word of theirs ends."""

from __future__ import annotations

import json
from collections.abc import Sequence

from nbprov.model.clock import Instant, Seconds
from nbprov.model.failures import Cause
from nbprov.model.offers import Block
from nbprov.model.stock import Pool, Stock, StockLevel

from .json_codec import from_plain
from .leases import Leases

PROBES_KEPT_SECONDS: Seconds = 7 * 24 * 3600.0
"""A week shows what days and nights look like; no estimate is made of older ones."""
PROBES_KEPT = 50_000
"""Of very many the latest are kept: some 5 MB, whatever a notebook that waits for days asks."""

LEAST_HELD: Seconds = 30.0
HELD_SHARE = 1 / 6
"""A block gives way to a cloud's word of stock once it has held for so long, and for so much of its time: a cloud that says there is stock, and
refuses, is asked less and less often (after 30 s, 1, 2, 4 and 5 minutes)."""

STOCK_CAUSES = (Cause.CAPACITY, Cause.SPOT)
"""What a word of stock contradicts; it says nothing of quotas."""


class Probes(Leases):
    """What was asked before launches."""

    def record_probes(self, stocks: Sequence[Stock], account: str = "", count: int = 1) -> None:
        """Store what a cloud said of its stock, for `count` machines at once; those that are too old or too many are forgotten."""
        if not stocks:
            return
        with self.store.transaction() as db:
            db.executemany(
                "INSERT INTO observations (at, kind, cloud, account, region, zone, instance_type, market, count, outcome)"
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
                "SELECT at FROM observations WHERE kind = 'probe' ORDER BY at DESC LIMIT 1 OFFSET ?",
                (PROBES_KEPT,),
            ).fetchone()
            keep_from = max(
                self.clock.now() - PROBES_KEPT_SECONDS, oldest["at"] if oldest is not None else 0.0
            )
            # With that one go the others of its batch: a batch is kept whole or not at all.
            beyond = "at <= ?" if oldest is not None and oldest["at"] == keep_from else "at < ?"
            db.execute(f"DELETE FROM observations WHERE kind = 'probe' AND {beyond}", (keep_from,))

    def probes(self, since: Instant) -> list[Stock]:
        """What was last said of each pool from an instant on, oldest first."""
        query = (
            "SELECT max(at) AS at, cloud, region, zone, instance_type, market, outcome FROM observations WHERE kind = 'probe' AND at >= ?"
            " GROUP BY cloud, region, zone, instance_type, market ORDER BY at"
        )
        return [
            Stock(
                r["at"],
                Pool(r["cloud"], r["region"], r["zone"], r["instance_type"], r["market"]),
                StockLevel(r["outcome"]),
            )
            for r in self.store.rows(query, since)
        ]

    def restocked(self, stocks: Sequence[Stock], count: int = 1) -> int:
        """End the blocks for want of stock that a later word of their cloud contradicts; how often each was met stays known.

        Parameters
        ----------
        count
            How many machines at once the word was asked for: it says nothing of more.

        Returns
        -------
        int
            How many blocks have ended.
        """
        there = [s for s in stocks if s.level is not StockLevel.NONE]
        now = self.clock.now()
        if (
            not there
            or self.store.row("SELECT 1 FROM blocks WHERE expires > ? LIMIT 1", now) is None
        ):
            return 0
        with self.store.transaction() as db:
            live = db.execute(
                "SELECT pattern, data FROM blocks WHERE expires > ?", (now,)
            ).fetchall()
            ended = [
                row["pattern"]
                for row in live
                if _contradicted(from_plain(Block, json.loads(row["data"])), there, count)
            ]
            # Kept as expired, not deleted: the next refusal blocks for longer than this one did.
            db.executemany(
                "UPDATE blocks SET expires = ? WHERE pattern = ?",
                [(now, pattern) for pattern in ended],
            )
            return len(ended)


def _contradicted(block: Block, stocks: Sequence[Stock], count: int) -> bool:
    if block.cause not in STOCK_CAUSES or not block.region or block.min_count > count:
        return False  # one over a whole account is not about the stock of a place
    held = max(LEAST_HELD, (block.expires - block.since) * HELD_SHARE)
    return any(stock.at - block.since >= held and _is_of(block, stock.pool) for stock in stocks)


def _is_of(block: Block, pool: Pool) -> bool:
    """Whether a word of a pool is one of what is blocked; an empty field of either means all."""
    pairs = (
        (block.cloud, pool.cloud),
        (block.region, pool.region),
        (block.zone, pool.zone),
        (block.instance_type, pool.instance_type),
        (block.market, pool.market),
    )
    return all(not ours or not theirs or ours == theirs for ours, theirs in pairs)
