"""Importing a large library without a stall of the kernel."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()


@contextmanager
def without_collections(module: str) -> Iterator[None]:
    """Hold the garbage collector while a large library is imported, and count what came in as long-lived afterwards.

    Nothing is held where `module` is imported already.

    Notes
    -----
    `from google.cloud import compute_v1` takes 0.8 to 1.3 s of a worker thread and 110 MB. Importing gives way to other threads every few
    milliseconds, but the hundreds of thousands of objects that it makes set off full garbage collections, and those hold the interpreter:
    in a thread that ticks every 2 ms, gaps of 130 to 255 ms were measured (Python 3.11, google-cloud-compute 1.57, two busy cores), and of
    17 to 40 ms with the collector held. What was imported is then moved to the oldest generation, so that the first collection
    afterwards does not make up for it.
    """
    with _lock:
        if module in sys.modules or not gc.isenabled():
            yield
            return
        gc.disable()
        try:
            yield
        finally:
            if gc.get_freeze_count() == 0:  # somebody's frozen objects stay theirs
                gc.freeze()
                gc.unfreeze()
            gc.enable()
