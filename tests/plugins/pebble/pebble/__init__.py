"""Pebble for nbprov. Nothing is imported until `make` is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbprov.clouds.base import Cloud


def make() -> Cloud:
    """The adapter: what the entry point `nbprov.clouds` names."""
    from .provisioner import Pebble

    return Pebble()
