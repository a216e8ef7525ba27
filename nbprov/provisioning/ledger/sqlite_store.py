"""The ledger's SQLite file: connection, transactions and migrations.

One file for each user is shared by every kernel, and survives a crash at any instruction.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nbprov.model.clock import Seconds
from nbprov.model.errors import LedgerError

from .schema import MIGRATIONS

log = logging.getLogger("nbprov.ledger")

BUSY_SECONDS: Seconds = 3.0
"""How long a transaction waits for other kernels, each of which needs a few milliseconds.

It is much shorter than a lease, since a run waits too.
"""

NETWORK_FILE_SYSTEMS = (
    "nfs",
    "nfs4",
    "cifs",
    "smb",
    "smb3",
    "smbfs",
    "9p",
    "afs",
    "lustre",
    "fuse.sshfs",
    "ceph",
    "glusterfs",
    "beegfs",
    "gpfs",
)
"""File systems on which WAL's shared memory does not work (sqlite.org/wal.html).

There, the journal is deleted after each commit instead.
"""


def file_system(path: Path) -> str:
    """Return the type of the file system that holds a path; empty if it is not known."""
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) > 2:
            mount = fields[1].replace("\\040", " ")
            inside = str(path) == mount or str(path).startswith(mount.rstrip("/") + "/")
            if inside and len(mount) >= len(best):
                best, kind = mount, fields[2]
    return kind


class SqliteStore:
    """The connection, its transactions and its migrations. `Ledger` owns the tables.

    Parameters
    ----------
    path
        The file; its folder is made, readable by the user alone.

    Raises
    ------
    LedgerError
        If the file was written by a newer release or is not a ledger.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.warning = ""
        self._lock = threading.RLock()
        self._depth = 0
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._connection = sqlite3.connect(
            path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        self._connection.row_factory = sqlite3.Row
        if os.name == "posix":
            os.chmod(path, 0o600)
        try:
            self._configure()
            self._migrate()
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise LedgerError(
                f"the ledger {path} cannot be read: {error}",
                hint="restore it from a backup, or move it away: its machines are then listed by"
                " no command, so check the cloud's console",
            ) from error
        self.owner: str = self._connection.execute(
            "SELECT value FROM meta WHERE key = 'owner'"
        ).fetchone()[0]

    def _configure(self) -> None:
        if file_system(self.path.parent) in NETWORK_FILE_SYSTEMS:
            self._connection.execute("PRAGMA journal_mode = DELETE")
            self.warning = (
                f"the ledger {self.path} is on a network file system: slower, and use"
                " it from one machine at a time"
            )
        else:
            self._retry_busy("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("PRAGMA foreign_keys = ON")

    def _retry_busy(self, statement: str) -> None:
        # A switch to WAL needs exclusive access and does not honour the busy timeout.
        end = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                self._connection.execute(statement)
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > end:
                    raise
                time.sleep(0.01)
            else:
                return

    def _migrate(self) -> None:
        version = self._version()
        if version > len(MIGRATIONS):
            self._connection.close()
            raise LedgerError(
                f"the ledger {self.path} was written by a newer nbprov (schema {version}, this"
                f" release knows {len(MIGRATIONS)})",
                hint="upgrade nbprov in this environment, or use the newer one",
            )
        if version == len(MIGRATIONS):
            return
        with self.transaction() as db:
            for number, script in enumerate(
                MIGRATIONS[self._version() :], start=self._version() + 1
            ):
                for statement in _statements(script):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {number}")
            db.execute("INSERT OR IGNORE INTO meta VALUES ('owner', ?)", (uuid.uuid4().hex[:16],))

    def _version(self) -> int:
        return int(self._connection.execute("PRAGMA user_version").fetchone()[0])

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Make one atomic, durable change.

        Nested uses join the outer one, so that an attempt needs few fsyncs.

        Raises
        ------
        LedgerError
            If other kernels held the file for `BUSY_SECONDS`, or it cannot be written (a full
            disk); then nothing was.
        """
        with self._lock:
            if self._depth:
                self._depth += 1
                try:
                    yield self._connection
                except sqlite3.Error as error:
                    raise self._unwritable(error) from error
                finally:
                    self._depth -= 1
                return
            self._begin_or_end("BEGIN IMMEDIATE")
            self._depth = 1
            try:
                yield self._connection
            except sqlite3.Error as error:
                self._roll_back()
                raise self._unwritable(error) from error
            except BaseException:
                self._roll_back()
                raise
            else:
                self._begin_or_end("COMMIT")
            finally:
                self._depth = 0

    def _begin_or_end(self, statement: str) -> None:
        try:
            self._connection.execute(statement)
        except sqlite3.Error as error:
            self._roll_back()
            raise self._unwritable(error) from error

    def _unwritable(self, error: sqlite3.Error) -> LedgerError:
        return LedgerError(
            f"the ledger {self.path} cannot be written: {error}",
            hint="another kernel may be stuck, or the disk full; what was under way is taken up"
            " at the next load",
        )

    def _roll_back(self) -> None:
        # A full disk has ended the transaction already; where a rollback fails, SQLite undoes the
        # change at the next opening.
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            log.warning("the ledger %s could not be rolled back: %s", self.path, error)

    def rows(self, query: str, *args: object) -> list[sqlite3.Row]:
        """Return all rows of a query.

        Raises
        ------
        LedgerError
            If the file cannot be read, or is closed.
        """
        try:
            with self._lock:
                return self._connection.execute(query, args).fetchall()
        except sqlite3.Error as error:
            raise LedgerError(
                f"the ledger {self.path} cannot be read: {error}",
                hint="another kernel may be stuck",
            ) from error

    def row(self, query: str, *args: object) -> sqlite3.Row | None:
        """Return the first row of a query.

        Raises
        ------
        LedgerError
            If the file cannot be read, or is closed.
        """
        try:
            with self._lock:
                found: sqlite3.Row | None = self._connection.execute(query, args).fetchone()
                return found
        except sqlite3.Error as error:
            raise LedgerError(
                f"the ledger {self.path} cannot be read: {error}",
                hint="another kernel may be stuck",
            ) from error

    def close(self) -> None:
        """Close the file; committed changes stay."""
        with self._lock:
            self._connection.close()


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
