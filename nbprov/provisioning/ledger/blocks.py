"""Blocks: what a failure taught about a place, until it expires or a success contradicts it."""

from __future__ import annotations

import json

from nbprov.model.offers import Block, Candidate

from .json_codec import from_plain
from .leases import Leases
from .rows import dump


class Blocks(Leases):
    """Patterns over candidates that are not worth an attempt now."""

    def blocks(self) -> list[Block]:
        """Blocks that still hold."""
        rows = self.store.rows("SELECT data FROM blocks WHERE expires > ?", self.clock.now())
        return [from_plain(Block, json.loads(r["data"])) for r in rows]

    def repeats(self, block: Block) -> int:
        """How often a pattern was blocked before without a success between."""
        row = self.store.row(
            "SELECT repeats FROM blocks WHERE pattern = ?", "|".join(block.pattern)
        )
        return 0 if row is None else int(row[0])

    def remember(self, block: Block) -> None:
        """Store a block; a repeat of its pattern is counted."""
        with self.store.transaction() as db:
            db.execute(
                "INSERT INTO blocks (pattern, data, repeats, since, expires) VALUES (?, ?, 1, ?, ?) ON CONFLICT (pattern) DO UPDATE"
                " SET data = excluded.data, repeats = repeats + 1, since = excluded.since, expires = excluded.expires",
                ("|".join(block.pattern), dump(block), block.since, block.expires),
            )

    def clear_blocks(self, matching: Candidate | None = None) -> int:
        """Forget blocks: all, or those that match a candidate which has just been accepted. Returns how many."""
        with self.store.transaction() as db:
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
        with self.store.transaction() as db:
            for row in db.execute("SELECT pattern, data FROM blocks").fetchall():
                block = from_plain(Block, json.loads(row["data"]))
                if block.cause.value == "quota" and (
                    block.cloud,
                    block.region or candidate.offer.region,
                    block.quota_family,
                ) == self._quota_pattern(candidate):
                    db.execute("DELETE FROM blocks WHERE pattern = ?", (row["pattern"],))
