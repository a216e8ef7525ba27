"""Import of a large library without a stall of the kernel."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()


@contextmanager
def without_collections(module: str) -> Iterator[None]:
    """Suspend garbage collection while a large library is imported.

    Afterwards the imported objects count as long-lived. Nothing happens if `module` is imported
    already.

    Notes
    -----
    `from google.cloud import compute_v1` takes 0.8 to 1.3 s of a worker thread and 110 MB. An
    import lets other threads run every few milliseconds, but the hundreds of thousands of objects
    that it makes trigger full garbage collections, which block the interpreter: in a thread that
    ticks every 2 ms, gaps of 130 to 255 ms were measured (Python 3.11, google-cloud-compute 1.57,
    two busy cores), and of 17 to 40 ms with the collector suspended. The imported objects are then
    moved to the oldest generation, so that the next collection does not scan them.
    """
    with _lock:
        if module in sys.modules or not gc.isenabled():
            yield
            return
        gc.disable()
        try:
            yield
        finally:
            if gc.get_freeze_count() == 0:  # somebody else's frozen objects stay frozen
                gc.freeze()
                gc.unfreeze()
            gc.enable()
