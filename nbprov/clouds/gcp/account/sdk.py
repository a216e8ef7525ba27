"""Google's client library: imported when first needed, and prevented from logging what it sends."""

from __future__ import annotations

import logging
from typing import Any

from nbprov.clouds.sdk_import import without_collections

SPEAKERS = ("google.cloud.compute_v1", "google.auth.transport", "google.auth.aio")
"""Loggers that write requests and answers at the level DEBUG."""
_library: Any = None


def compute_library() -> Any:
    """Return the module `google.cloud.compute_v1`. Call it in a worker thread.

    Raises
    ------
    ImportError
        If it is not installed.
    """
    global _library
    if _library is None:
        with without_collections("google.cloud.compute_v1"):
            from google.cloud import compute_v1

            _library = compute_v1
        _hush()
    return _library


def _hush() -> None:
    """Keep request bodies out of every log, even if Google's logging is switched on.

    Creates and listings carry start scripts with host keys, which the library's debug records
    (`GOOGLE_SDK_PYTHON_LOGGING_SCOPE`) would show in full.
    """
    for name in SPEAKERS:
        logging.getLogger(name).setLevel(logging.WARNING)
