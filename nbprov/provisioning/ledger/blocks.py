"""Blocks: what a failure taught about a place, until it expires or a success contradicts it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause
from nbprov.model.offers import Block, Candidate
from nbprov.model.stock import Level, Pool, Stock

from .json_codec import from_plain
from .ledger_file import LedgerFile
from .rows import dump

LEAST_HELD: Seconds = 30.0
HELD_SHARE = 1 / 6
"""A block gives way to a cloud's word of stock once it has held for so long, and for so much of its
time: a cloud that says there is stock, and refuses, is asked less and less often (after 30 s, 1, 2,
4 and 5 minutes).
"""

STOCK_CAUSES = (Cause.CAPACITY, Cause.SPOT)
"""What a word of stock contradicts; it says nothing of quotas."""


class BlockTable:
    """Patterns over candidates that are not worth an attempt now."""

    def __init__(self, file: LedgerFile) -> None:
        self._store = file.store
        self._clock = file.clock

    def standing(self) -> list[Block]:
        """Blocks that still hold."""
        rows = self._store.rows("SELECT data FROM blocks WHERE expires > ?", self._clock.now())
        return [from_plain(Block, json.loads(r["data"])) for r in rows]

    def repeats(self, block: Block) -> int:
        """How often a pattern was blocked before without a success between."""
        row = self._store.row(
            "SELECT repeats FROM blocks WHERE pattern = ?", "|".join(block.pattern)
        )
        return 0 if row is None else int(row[0])

    def remember(self, block: Block) -> None:
        """Store a block; a repeat of its pattern is counted."""
        with self._store.transaction() as db:
            db.execute(
                "INSERT INTO blocks (pattern, data, repeats, since, expires) VALUES (?, ?, 1, ?,"
                " ?) ON CONFLICT (pattern) DO UPDATE"
                " SET data = excluded.data, repeats = repeats + 1, since = excluded.since,"
                " expires = excluded.expires",
                ("|".join(block.pattern), dump(block), block.since, block.expires),
            )

    def clear(self, matching: Candidate | None = None) -> int:
        """Forget blocks: all, or those that match a candidate which has just been accepted.

        Returns how many.
        """
        with self._store.transaction() as db:
            if matching is None:
                return db.execute("DELETE FROM blocks").rowcount
            stale = [
                r["pattern"]
                for r in db.execute("SELECT pattern, data FROM blocks").fetchall()
                if from_plain(Block, json.loads(r["data"])).matches(matching)
            ]
            db.executemany("DELETE FROM blocks WHERE pattern = ?", [(p,) for p in stale])
            return len(stale)

    @staticmethod
    def _quota_pattern(candidate: Candidate) -> tuple[str, str, str]:
        return (candidate.offer.cloud, candidate.offer.region, candidate.offer.quota_family)

    def free_quota(self, candidate: Candidate) -> None:
        """End the quota blocks of a family: one of our own machines of it has ended."""
        with self._store.transaction() as db:
            for row in db.execute("SELECT pattern, data FROM blocks").fetchall():
                block = from_plain(Block, json.loads(row["data"]))
                if block.cause.value == "quota" and (
                    block.cloud,
                    block.region or candidate.offer.region,
                    block.quota_family,
                ) == self._quota_pattern(candidate):
                    db.execute("DELETE FROM blocks WHERE pattern = ?", (row["pattern"],))

    def end_restocked(self, stocks: Sequence[Stock], count: int = 1) -> int:
        """End the blocks for want of stock that a later word of their cloud contradicts; how often
        each was met stays known.

        Parameters
        ----------
        count
            How many machines at once the word was asked for: it says nothing of more.

        Returns
        -------
        int
            How many blocks have ended.
        """
        there = [s for s in stocks if s.level is not Level.NONE]
        now = self._clock.now()
        if (
            not there
            or self._store.row("SELECT 1 FROM blocks WHERE expires > ? LIMIT 1", now) is None
        ):
            return 0
        with self._store.transaction() as db:
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
