"""Instances: the machines of launches as their clouds last listed them."""

from __future__ import annotations

import json
from collections.abc import Iterable

from nbprov.model.launches import Instance, InstanceState

from .file_state.trouble import decoded
from .json_codec import from_plain
from .launches import LaunchTable
from .ledger_file import LedgerFile
from .prices import PriceSegmentTable
from .rows import dump


@decoded
class InstanceTable:
    """The machines of launches as their clouds last listed them."""

    def __init__(self, file: LedgerFile, launches: LaunchTable, prices: PriceSegmentTable) -> None:
        self._store = file.store
        self._clock = file.clock
        self._launches = launches
        self._prices = prices

    def seen(self, instances: Iterable[Instance]) -> bool:
        """Store what a listing said of our machines.

        A change of state opens or closes prices, and a price that the cloud tells is booked in the
        place of the one that was asked; an unchanged state is not written, unless the launch of
        the machine counts as over: then `last_seen` is written, because `RunTable.over` reads it.

        Returns
        -------
        bool
            Whether anything was new, such as a state or an address.
        """
        listed = list(instances)
        rows = {
            (r["cloud"], r["id"]): r
            for instance in listed
            for r in self._store.rows(_KNOWN, instance.cloud, instance.id)
        }
        known = {key: row["data"] for key, row in rows.items()}
        outlived = {key for key, row in rows.items() if row["outlived_launch"]}
        changed = [
            i for i in listed if known.get(key := (i.cloud, i.id)) != dump(i) or key in outlived
        ]
        if not changed and not self._prices.differing(listed):
            return False
        now = self._clock.now()
        with self._store.transaction() as db:
            for instance in changed:
                gone = now if instance.state is InstanceState.GONE else None
                db.execute(
                    "INSERT INTO instances (cloud, id, token, data, state, first_seen,"
                    " last_seen, ended) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
                    " ON CONFLICT (cloud, id) DO UPDATE SET data = excluded.data, state ="
                    " excluded.state, last_seen = excluded.last_seen,"
                    " ended = coalesce(instances.ended, excluded.ended)",
                    (
                        instance.cloud,
                        instance.id,
                        instance.token,
                        dump(instance),
                        instance.state.value,
                        now,
                        now,
                        gone,
                    ),
                )
                self._prices.listed(db, instance)
                if not instance.state.is_billed:
                    self._prices.stopped(db, instance, now)
            for instance in self._prices.differing(listed):
                self._prices.follow(db, instance, now, _told_before(known, instance))
        return True

    def of_launch(self, token: str) -> list[Instance]:
        """Return the machines of a launch as last listed, head first."""
        found = [
            from_plain(Instance, json.loads(r["data"]))
            for r in self._store.rows("SELECT data FROM instances WHERE token = ?", token)
        ]
        return sorted(found, key=lambda i: (i.node, i.id))

    def members(self, token: str) -> list[Instance]:
        """Return the machines that a launch's cluster has now, as last listed, head first.

        Machines that were lost and replaced are not among them.
        """
        ids = self._launches.ids_of(token)
        return [i for i in self.of_launch(token) if not ids or i.id in ids]


_KNOWN = """
    SELECT cloud, id, data, instances.state <> 'gone'
        AND last_seen <= (SELECT ended FROM launches WHERE token = instances.token)
        AS outlived_launch
    FROM instances WHERE cloud = ? AND id = ?
"""
"""A machine outlived its launch if it is listed though that was over when it was last written."""


def _told_before(known: dict[tuple[str, str], str], instance: Instance) -> bool:
    """Whether an earlier listing told what a machine costs since it is on the bill."""
    data = known.get((instance.cloud, instance.id))
    before = from_plain(Instance, json.loads(data)) if data is not None else None
    return before is not None and bool(before.hourly) and before.state.is_billed
