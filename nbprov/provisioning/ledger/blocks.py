"""Blocks: places that a failure ruled out, until the block expires or a success contradicts it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from nbprov.model.blocks import Block
from nbprov.model.clock import Instant, Seconds
from nbprov.model.failures import CHECKED, Cause
from nbprov.model.offers import Candidate
from nbprov.model.stock import Pool, Stock, StockLevel

from .file_state.trouble import decoded
from .json_codec import from_plain
from .ledger_file import LedgerFile
from .rows import dump

LEAST_HELD: Seconds = 30.0
HELD_SHARE = 1 / 6
"""A report of stock ends a block only after the block held this long, and this share of its time.

A cloud that reports stock and then refuses is thus asked less and less often: after 30 s, 1, 2, 4
and 5 minutes.
"""

MOST_AHEAD: Seconds = 60.0
"""How far the clock of another computer with the same home may be ahead."""

STOCK_CAUSES = (Cause.CAPACITY, Cause.SPOT)
"""The causes that a report of stock contradicts; it says nothing of quotas."""


@decoded
class BlockTable:
    """Patterns over candidates that are not worth an attempt now."""

    def __init__(self, file: LedgerFile) -> None:
        self._store = file.store
        self._clock = file.clock

    def standing(self) -> list[Block]:
        """Return the blocks that still hold."""
        now = self._clock.now()
        # What was made in the future was made before this computer's clock was set back.
        query = "SELECT data FROM blocks WHERE expires > ? AND since <= ?"
        rows = self._store.rows(query, now, now + MOST_AHEAD)
        return [from_plain(Block, json.loads(r["data"])) for r in rows]

    def repeats(self, block: Block) -> int:
        """Return how often a pattern was blocked without a success between."""
        row = self._store.row(
            "SELECT repeats FROM blocks WHERE pattern = ?", "|".join(block.pattern)
        )
        return 0 if row is None else int(row[0])

    def remember(self, block: Block) -> None:
        """Store a block, and count the repeats of its pattern."""
        with self._store.transaction() as db:
            db.execute(
                "INSERT INTO blocks (pattern, data, repeats, since, expires) VALUES (?, ?, 1, ?,"
                " ?) ON CONFLICT (pattern) DO UPDATE"
                " SET data = excluded.data, repeats = repeats + 1, since = excluded.since,"
                " expires = excluded.expires",
                ("|".join(block.pattern), dump(block), block.since, block.expires),
            )

    def clear(self, matching: Candidate | None = None) -> int:
        """Delete all blocks, or those that match a candidate which has just been accepted.

        Returns how many were deleted.
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

    def remove(self, blocks: Iterable[Block]) -> int:
        """Delete these blocks; returns how many there still were."""
        with self._store.transaction() as db:
            return sum(
                db.execute(
                    "DELETE FROM blocks WHERE pattern = ?", ("|".join(block.pattern),)
                ).rowcount
                for block in blocks
            )

    @staticmethod
    def _quota_pattern(candidate: Candidate) -> tuple[str, str, str]:
        return (candidate.offer.cloud, candidate.offer.region, candidate.offer.quota_family)

    def free_quota(self, candidate: Candidate) -> None:
        """End the quota blocks of a family, since one of our own machines of it has ended."""
        with self._store.transaction() as db:
            for row in db.execute("SELECT pattern, data FROM blocks").fetchall():
                block = from_plain(Block, json.loads(row["data"]))
                if block.cause.value == "quota" and (
                    block.cloud,
                    block.region or candidate.offer.region,
                    block.quota_family,
                ) == self._quota_pattern(candidate):
                    db.execute("DELETE FROM blocks WHERE pattern = ?", (row["pattern"],))

    def end_checked(self, cloud: str, account: str, begun: Instant) -> int:
        """End the blocks of credentials and balance that a check of their account contradicts.

        Parameters
        ----------
        begun
            When the check began; it says nothing of what was refused after that.

        Returns
        -------
        int
            How many blocks have ended.
        """
        live = self._store.rows(
            "SELECT pattern, data FROM blocks WHERE expires > ?", self._clock.now()
        )
        blocks = {r["pattern"]: from_plain(Block, json.loads(r["data"])) for r in live}
        ended = [
            (pattern,)
            for pattern, block in blocks.items()
            if block.cause in CHECKED
            and block.cloud == cloud
            and block.account in ("", account)
            and block.since <= begun
        ]
        if ended:
            with self._store.transaction() as db:
                db.executemany("DELETE FROM blocks WHERE pattern = ?", ended)
        return len(ended)

    def end_restocked(self, stocks: Sequence[Stock], count: int = 1) -> int:
        """End the blocks for lack of stock that a later report of their cloud contradicts.

        How often each block was met stays known.

        Parameters
        ----------
        count
            The number of machines that the report was asked for; it says nothing of more.

        Returns
        -------
        int
            How many blocks have ended.
        """
        there = [s for s in stocks if s.level is not StockLevel.NONE]
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
        return False  # a block of a whole account is not about the stock of a place
    held = max(LEAST_HELD, (block.expires - block.since) * HELD_SHARE)
    return any(stock.at - block.since >= held and _is_of(block, stock.pool) for stock in stocks)


def _is_of(block: Block, pool: Pool) -> bool:
    """Tell whether a pool is part of what is blocked; an empty field of either matches all."""
    pairs = (
        (block.cloud, pool.cloud),
        (block.region, pool.region),
        (block.zone, pool.zone),
        (block.instance_type, pool.instance_type),
        (block.market, pool.market),
    )
    return all(not ours or not theirs or ours == theirs for ours, theirs in pairs)
