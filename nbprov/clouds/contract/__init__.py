"""The contract of `nbprov/clouds/base.py` as checks, for every cloud in this tree or outside it.

A test of a cloud subclasses `CloudUnderTest` (`subject.py`), runs each of `CHECKS` over a new one,
and closes it. pytest is needed, and is imported here alone. Start reading in `subject.py`.
"""

from __future__ import annotations

from importlib import import_module

import pytest

PARTS = (
    "subject",
    "checks",
    "imports",
    "broken_calls",
    "lifecycle",
    "creates",
    "order_fields",
    "listings",
    "hourly_prices",
    "stock",
    "side_objects",
    "network",
    "transport",
    "secret_leaks",
    "deadlines",
)
# Their assertions then say what was expected and seen, wherever the tests run.
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in PARTS))
for part in PARTS:
    import_module(f"{__name__}.{part}")

from .checks import CHECKS, Check, run_check  # noqa: E402
from .stock import STOCK_CHECKS  # noqa: E402
from .subject import SCRIPTED, CloudUnderTest, eventually, own_folder  # noqa: E402

__all__ = [
    "CHECKS",
    "SCRIPTED",
    "STOCK_CHECKS",
    "Check",
    "CloudUnderTest",
    "eventually",
    "own_folder",
    "run_check",
]
