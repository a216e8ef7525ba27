"""Google's client library, imported when it is first needed, and kept from writing down what it sends."""

from __future__ import annotations

import logging
from typing import Any

from nbprov.clouds.sdk_import import without_collections

SPEAKERS = ("google.cloud.compute_v1", "google.auth.transport", "google.auth.aio")
"""Loggers that write down requests and answers at the level DEBUG."""
_library: Any = None


def compute_library() -> Any:
    """The module `google.cloud.compute_v1`. Call it in a worker thread.

    Raises
    ------
    ImportError
        Where it is not installed.
    """
    global _library
    if _library is None:
        with without_collections("google.cloud.compute_v1"):
            from google.cloud import compute_v1

            _library = compute_v1
        _hush()
    return _library


def _hush() -> None:
    """Keep bodies out of every log, whoever turned Google's logging on (`GOOGLE_SDK_PYTHON_LOGGING_SCOPE`): creates and lists carry start
    scripts with host keys, which its debug records show whole."""
    for name in SPEAKERS:
        logging.getLogger(name).setLevel(logging.WARNING)
