"""Log records in plain text, whichever handler writes them.

An error of a machine or a cloud may hold whatever controls a terminal. nbprov's own log file cleans
what it writes, but a notebook with `logging.basicConfig()` has a handler of its own. Filters of a
parent logger do not see what its children log, so each logger of nbprov's has this one.
"""

from __future__ import annotations

import logging
import traceback

from .plain import printable

LOGGERS = (
    "nbprov",
    "nbprov.api",
    "nbprov.catalog",
    "nbprov.engine",
    "nbprov.ledger",
    "nbprov.lifecycle",
    "nbprov.local",
    "nbprov.machines",
    "nbprov.market",
    "nbprov.notebook",
    "nbprov.provisioning",
    "nbprov.publisher",
    "nbprov.reconcile",
    "nbprov.remote",
)
"""Every logger of nbprov's."""


class PlainRecords(logging.Filter):
    """Lets every record pass, its message and its exception made plain text.

    The exception itself goes, and its text stays: handlers that format it would do so anew.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Clean a record in place."""
        try:
            text = record.getMessage()
        except Exception:  # what is wrong with its arguments costs no more than them
            text = str(record.msg)
        record.msg, record.args = printable(text), ()
        if record.exc_info and not record.exc_text:
            record.exc_text = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
        record.exc_info = None
        if record.exc_text:
            record.exc_text = printable(record.exc_text)
        if record.stack_info:
            record.stack_info = printable(record.stack_info)
        return True


_plain_records = PlainRecords()


def clean_logs() -> None:
    """Give every logger of nbprov's the filter; to do so again changes nothing."""
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_plain_records)
