"""Versions and digests of the packages that every environment has: ipykernel, pip and theirs."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

LISTS = ("agent/kernels/kernel-requirements.txt", "pip-requirements.txt")
"""Files of `on_machine/`, in pip's format with hashes, that `make kernel-pins` renews."""


@cache
def pinned() -> str:
    """Return all of them as one list."""
    folder = files("nbprov.on_machine")
    return "".join((folder / name).read_text(encoding="ascii") for name in LISTS)
