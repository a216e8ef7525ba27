"""Guards: the configuration of each node's guard, and the status that it last reported."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nbprov.model.clock import Instant

from .file_state.trouble import decoded
from .ledger_file import LedgerFile


@decoded
class GuardTable:
    """The guards of runs, one for each node."""

    def __init__(self, file: LedgerFile) -> None:
        self._store = file.store
        self._clock = file.clock

    def set(
        self, run_id: str, node: int, config: Mapping[str, Any], status: Mapping[str, Any]
    ) -> None:
        """Store the configuration of a node's guard and its last status."""
        with self._store.transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO guards (run_id, node, config, status, reported) VALUES"
                " (?, ?, ?, ?, ?)",
                (
                    run_id,
                    node,
                    json.dumps(dict(config)),
                    json.dumps(dict(status)),
                    self._clock.now(),
                ),
            )

    def set_all(self, run_id: str, nodes: int, config: Mapping[str, Any]) -> None:
        """Store the new configuration of the guards of this many nodes, the head first."""
        with self._store.transaction():
            for node in range(nodes):
                self.set(run_id, node, config, {})

    def get(
        self, run_id: str, node: int = 0
    ) -> tuple[dict[str, Any], dict[str, Any], Instant] | None:
        """Return the configuration, last status and its instant of a node's guard."""
        row = self._store.row("SELECT * FROM guards WHERE run_id = ? AND node = ?", run_id, node)
        return (
            None
            if row is None
            else (json.loads(row["config"]), json.loads(row["status"]), row["reported"])
        )
