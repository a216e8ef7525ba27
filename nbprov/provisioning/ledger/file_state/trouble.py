"""What is wrong with the ledger's file, as an error that says what to do about it."""

from __future__ import annotations

import functools
import inspect
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from nbprov.model.errors import LedgerError

T = TypeVar("T")

BUSY, FULL, UNWRITABLE, DAMAGED = (
    "ledger.busy",
    "ledger.full",
    "ledger.unwritable",
    "ledger.damaged",
)

_CODES = {
    sqlite3.SQLITE_BUSY: BUSY,
    sqlite3.SQLITE_LOCKED: BUSY,
    sqlite3.SQLITE_PROTOCOL: BUSY,
    sqlite3.SQLITE_FULL: FULL,
    sqlite3.SQLITE_IOERR: UNWRITABLE,
    sqlite3.SQLITE_READONLY: UNWRITABLE,
    sqlite3.SQLITE_CANTOPEN: UNWRITABLE,
    sqlite3.SQLITE_PERM: UNWRITABLE,
    sqlite3.SQLITE_AUTH: UNWRITABLE,
    sqlite3.SQLITE_NOLFS: UNWRITABLE,
    sqlite3.SQLITE_NOMEM: UNWRITABLE,
}
"""Every other code of SQLite means that the file does not hold what nbprov wrote."""

NOT_DECODED = (ValueError, KeyError, TypeError, IndexError, AttributeError, ArithmeticError)
"""What decoding a column raises that does not hold what nbprov wrote."""


def code_of(error: BaseException) -> str:
    """The code of the `LedgerError` for an error of SQLite, or of decoding a row."""
    if isinstance(error, OSError):
        return UNWRITABLE
    if not isinstance(error, sqlite3.Error):
        return DAMAGED
    number = getattr(error, "sqlite_errorcode", None)
    if number is None:  # Python's own: text is not UTF-8, or the file is closed
        return DAMAGED if isinstance(error, sqlite3.OperationalError) else LedgerError.code
    return _CODES.get(number & 0xFF, DAMAGED)


def trouble(path: Path | str, verb: str, error: BaseException) -> LedgerError:
    """The error for a ledger that cannot be used now.

    Parameters
    ----------
    verb
        What could not be done with the file: `read` or `written`.
    """
    code = code_of(error)
    hint = {
        LedgerError.code: "%load_ext nbprov opens it again",
        BUSY: "another kernel may be stuck: restart it; what was under way is taken up at the next"
        " load",
        FULL: "make room on its disk; what was under way is taken up at the next load",
        UNWRITABLE: f"make it writable (its folder too: ls -ld '{Path(path).parent}'), or make room"
        " on its disk; what was under way is taken up at the next load",
        DAMAGED: f"restore it from a backup; or move it aside (mv '{path}' '{path}.damaged') and"
        " run %load_ext nbprov again: a new one is begun with the same id, and %nbprov sweep names"
        " the machines that are still on the bill",
    }[code]
    is_plain = isinstance(error, sqlite3.Error | OSError)
    shown = str(error) if is_plain else f"{type(error).__name__} {error}"
    what = "is damaged and cannot" if code == DAMAGED else "cannot"
    return LedgerError(f"the ledger {path} {what} be {verb}: {shown}", hint=hint, code=code)


def decoded(table: type[T]) -> type[T]:
    """Have the methods of a table raise `LedgerError` where a row holds what nbprov never wrote."""
    for name, method in list(vars(table).items()):
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(table, name, _checked(method))
    return table


def _checked(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def checked(self: Any, *args: Any, **options: Any) -> Any:
        try:
            return method(self, *args, **options)
        except NOT_DECODED as error:
            raise trouble(self._store.path, "read", error) from error

    return checked
