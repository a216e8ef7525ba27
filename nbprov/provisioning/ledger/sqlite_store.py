"""The ledger's SQLite file: connection, transactions and migrations.

One file for each user is shared by every kernel, and survives a crash at any instruction.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sqlite3
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nbprov.model.clock import Seconds
from nbprov.model.errors import LedgerError
from nbprov.model.paths import PRIVATE_FILE, close_to_others, make_folder

from .file_state.owner import LOST, Loss, is_owner, keep_owner, loss_of
from .file_state.trouble import DAMAGED, FULL, UNWRITABLE, code_of, trouble
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

    A file that is there and cannot be opened for writing is read from a copy, until it can be:
    what was asked to end can be looked up then, and `transaction` raises.

    Parameters
    ----------
    path
        The file; its folder is made, for this user alone.

    Attributes
    ----------
    owner
        The id that every machine which this ledger launches carries.
    warning
        What a person should know of the file; empty where there is nothing.
    is_copy
        Whether a copy is read. Nothing may be concluded from it by itself: another kernel may
        write to the file.

    Raises
    ------
    LedgerError
        If the file was written by a newer release, is not a ledger, is damaged, or cannot be made.
    UnsafeHome
        If others may write into its folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.warning = ""
        self.is_copy = False
        self._is_writable = True
        self._lock = threading.RLock()
        self._depth = 0
        self._kept: tempfile.TemporaryDirectory[str] | None = None
        try:
            self._open()
        except (sqlite3.Error, OSError) as error:
            code = code_of(error)
            if code not in (UNWRITABLE, FULL) or not _has_content(path):
                raise trouble(path, "read" if code == DAMAGED else "written", error) from error
            self._open_copy(error)
        self.owner = self._read_owner()

    def _open(self) -> None:
        """Open the file for writing, and make it where there is none."""
        folder = self.path.parent
        make_folder(folder, folder)
        loss = loss_of(self.path)
        with open(os.open(self.path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE), "rb"):
            close_to_others(self.path)
        self._connect(self.path)
        try:
            self._configure()
            self._migrate(loss)
            self._check_tables()
        except BaseException:
            self._connection.close()
            raise
        keep_owner(folder, self._read_owner())

    def _connect(self, path: Path) -> None:
        self._connection = sqlite3.connect(
            path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        self._connection.row_factory = sqlite3.Row

    def _open_copy(self, error: sqlite3.Error | OSError) -> None:
        """Open a copy in the system's folder for temporary files."""
        try:
            self._kept = tempfile.TemporaryDirectory(prefix="nbprov-ledger-")
            copy = Path(self._kept.name) / self.path.name
            for end in ("", "-wal"):
                with contextlib.suppress(FileNotFoundError):
                    shutil.copyfile(f"{self.path}{end}", f"{copy}{end}")
            self._connect(copy)
            self._migrate(None)
            self._check_tables()
        except (sqlite3.Error, OSError) as second:
            raise trouble(self.path, "written", error) from second
        self.is_copy = True
        self.warning = f"{trouble(self.path, 'written', error).message}: it is read from a copy"
        self._say_unwritable(error)

    def _reopen(self) -> None:
        """Go over from the copy to the file itself.

        Raises
        ------
        LedgerError
            If that cannot be opened yet.
        """
        copy = self._connection
        try:
            self._open()
        except (sqlite3.Error, OSError) as error:
            self._connection = copy
            raise self._unwritable(error) from error
        copy.close()
        self.is_copy, self.warning = False, ""
        if self._kept is not None:
            self._kept.cleanup()

    def _read_owner(self) -> str:
        row = self._connection.execute("SELECT value FROM meta WHERE key = 'owner'").fetchone()
        if row is None or not is_owner(row[0]):
            raise trouble(self.path, "read", ValueError("it has no owner id"))
        return str(row[0])

    def _check_tables(self) -> None:
        """Raise where a table or a column is not there that this release made."""
        made = sqlite3.connect(":memory:")
        try:
            for script in MIGRATIONS:
                made.executescript(script)
            for name, columns in _tables(made).items():
                if missing := columns - _tables(self._connection).get(name, set()):
                    lost = f"{name} lacks {', '.join(sorted(missing))}"
                    raise trouble(self.path, "read", ValueError(lost))
        finally:
            made.close()

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

    def _migrate(self, loss: Loss | None) -> None:
        version = self._version()
        if version > len(MIGRATIONS):
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
            is_new = version == 0 and loss is not None
            owner = (loss.owner if loss is not None else "") or uuid.uuid4().hex[:16]
            db.execute("INSERT OR IGNORE INTO meta VALUES ('owner', ?)", (owner,))
            if loss is not None and is_new:
                db.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (LOST, repr(time.time())))
                self.warning = loss.words(self.path)
                log.warning("%s", self.warning)

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
            if self.is_copy and not self._depth:
                self._reopen()
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
                self._written()
            finally:
                self._depth = 0

    def _begin_or_end(self, statement: str) -> None:
        try:
            self._connection.execute(statement)
        except sqlite3.Error as error:
            self._roll_back()
            raise self._unwritable(error) from error

    def _written(self) -> None:
        if not self._is_writable:
            self._is_writable = True
            log.warning("the ledger %s can be written again", self.path)

    def _unwritable(self, error: sqlite3.Error | OSError) -> LedgerError:
        self._say_unwritable(error)
        return trouble(self.path, "written", error)

    def _say_unwritable(self, error: sqlite3.Error | OSError) -> None:
        if self._is_writable:  # said once: whoever writes tries again and again
            self._is_writable = False
            log.warning(
                "the ledger %s cannot be written: %s; nothing is launched until it can be, and"
                " ends that are asked for are carried out",
                self.path,
                error,
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
            raise trouble(self.path, "read", error) from error

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
            raise trouble(self.path, "read", error) from error

    def close(self) -> None:
        """Close the file; committed changes stay."""
        with self._lock:
            self._connection.close()
            if self._kept is not None:
                self._kept.cleanup()


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def _tables(connection: sqlite3.Connection) -> dict[str, set[str]]:
    """The columns of each table, by its name."""
    rows = connection.execute(
        "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c"
        " WHERE m.type = 'table'"
    )
    found: dict[str, set[str]] = {}
    for table, column in rows:
        found.setdefault(table, set()).add(column)
    return found


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
