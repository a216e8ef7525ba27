"""The contract's checks, under the name that the tests of this folder use."""

from __future__ import annotations

from nbprov.clouds.contract import CHECKS, Check, run_check

__all__ = ["CHECKS", "Check", "run_check"]
