"""Logs the faults of work that is tried again, without a line for each try."""

from __future__ import annotations

import logging
import threading
import time

from nbprov.model.clock import Seconds
from nbprov.model.errors import NbprovError

AGAIN_SECONDS: Seconds = 300.0
"""A fault that lasts is logged again after this time: a full disk would fill its own log."""

MOST_KNOWN = 1000

_logged: dict[tuple[str, str, str], Seconds] = {}
_lock = threading.Lock()


def log_fault(log: logging.Logger, error: BaseException, text: str, *args: object) -> None:
    """Log why something failed that is tried again; the same fault once in `AGAIN_SECONDS`.

    Errors of ours and of the system say what is wrong. Any other gets its traceback.
    """
    told = f"{type(error).__name__}: {error}"
    key, now = (log.name, text % args, told), time.monotonic()
    with _lock:
        if now - _logged.get(key, -AGAIN_SECONDS) < AGAIN_SECONDS:
            return
        if len(_logged) >= MOST_KNOWN:
            _logged.clear()
        _logged[key] = now
    if isinstance(error, NbprovError | OSError):
        message = error.message if isinstance(error, NbprovError) else error
        log.warning(f"{text}: %s", *args, message)
    else:
        log.error(text, *args, exc_info=error)
